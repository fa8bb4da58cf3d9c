"""Prompts: checked when loaded, filled byte for byte, identified by content."""

import pytest

from crag_graph.errors import ConfigurationError
from crag_graph.factory import VARIABLES
from crag_graph.prompts import fence, load_prompt


@pytest.mark.parametrize("name", VARIABLES)
def test_every_shipped_prompt_has_its_variables(name):
    prompt = load_prompt(name, VARIABLES[name])
    filled = prompt.messages(**{variable: f"<{variable}>" for variable in VARIABLES[name]})
    assert [message.type for message in filled] == ["system", "human"]
    assert all(any(f"<{variable}>" in message.content for message in filled) for variable in VARIABLES[name])


def write(folder, content):
    (folder / "mine.yaml").write_text(content, encoding="utf-8")
    return lambda variables: load_prompt("mine", variables, folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version: 1\nsystem: hi\nuser: $question $extra", "unknown variables"),
        ("version: 1\nsystem: hi\nuser: hello", "missing variables"),
        ("version: 1\nsystem: costs 5$\nuser: $question", "lone"),
        ("version: 1\nuser: $question", "not a prompt file"),
        ("just text", "not a prompt file"),
    ],
)
def test_a_broken_prompt_is_refused_while_building(tmp_path, content, message):
    with pytest.raises(ConfigurationError, match=message):
        write(tmp_path, content)({"question"})


def test_a_missing_prompt_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nothere.yaml"):
        load_prompt("nothere", set(), tmp_path)


def test_the_id_changes_with_the_content(tmp_path):
    first = write(tmp_path, "version: 2\nsystem: a\nuser: $q")({"q"})
    second = write(tmp_path, "version: 2\nsystem: b\nuser: $q")({"q"})
    assert first.id.startswith("mine-v2-")
    assert first.id != second.id


def test_values_are_not_looked_at_again(tmp_path):
    prompt = write(tmp_path, "version: 1\nsystem: $$5\nuser: $a and $b")({"a", "b"})
    system, user = prompt.messages(a="$b {x}", b="$a $$ {{}}")
    assert system.content == "$5"
    assert user.content == "$b {x} and $a $$ {{}}"


def test_a_paragraph_is_left_out_when_all_its_variables_are_empty(tmp_path):
    prompt = write(tmp_path, "version: 1\nsystem: s\nuser: |\n  Q: $a\n\n  Tried, $b:\n  $c\n\n  Answer.\n")(
        {"a", "b", "c"}
    )
    assert prompt.messages(a="?", b="", c=" ")[1].content == "Q: ?\n\nAnswer."
    assert prompt.messages(a="x\n\ny", b="", c="z")[1].content == "Q: x\n\ny\n\nTried, :\nz\n\nAnswer."


def test_a_fence_is_the_same_for_the_same_text_and_no_text_holds_its_own():
    marker, fenced = fence("one")
    assert (marker, fenced) == fence("one")
    forged, _ = fence(fenced)
    assert forged != marker
    assert fenced.splitlines() == [f"<{marker}>", "one", f"</{marker}>"]
