"""The paper's files and metrics."""

import json

import pytest

from crag_graph.errors import InputError
from crag_graph.measure.bench.paper import (
    Item,
    Passage,
    accuracy,
    correct,
    read_labelled,
    read_retrieved,
    read_selfrag,
)


@pytest.fixture
def write(tmp_path):
    def written(*lines):
        path = tmp_path / "file"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
        return path

    return written


def test_labelled_lines_become_pairs_grouped_by_question(write):
    pairs = read_labelled(write("Who is Ann? [SEP] Ann, a poet.\t1", "Who is Ann? [SEP] A\ttab.\t-1", ""))
    assert [(p.question, p.text, p.label, p.group) for p in pairs] == [
        ("Who is Ann?", "Ann, a poet.", 1, "Who is Ann?"),
        ("Who is Ann?", "A\ttab.", 0, "Who is Ann?"),
    ]


@pytest.mark.parametrize("line", ["no separator\t1", "q [SEP] p", "q [SEP] p\t2", "q [SEP] p\tnan"])
def test_a_line_that_is_not_labelled_is_refused_by_its_number(write, line):
    with pytest.raises(InputError, match="file:2"):
        read_labelled(write("q [SEP] p\t0", line))


def test_retrieved_passages_are_parted_at_their_separator(write):
    rows = read_retrieved(
        write(
            {"question": "Who?", "retrieved_psgs": "One. [sep] Two.[sep]", "answers": ["Ann"]},
            {"question": "Who?", "retrieved_psgs": ["One."], "answerKey": "B"},
        )
    )
    assert rows[0] == Item("Who?", (Passage("", "One."), Passage("", "Two.")), ("Ann",))
    assert rows[1] == Item("Who?", (Passage("", "One."),), ("B",))


def test_selfrag_rows_keep_titles_and_every_gold_answer(write):
    context = {"title": "Ann", "text": "Ann is a poet.", "score": 1.5, "id": 7}
    rows = read_selfrag(
        write(
            {"question": "Who is Ann?", "ctxs": [context], "answers": ["poet", "writer"]},
            {"instruction": "Is it true?", "ctxs": [], "answer": "true"},
        )
    )
    assert rows[0] == Item("Who is Ann?", (Passage("Ann", "Ann is a poet."),), ("poet", "writer"))
    assert rows[1] == Item("Is it true?", (), ("true",))


@pytest.mark.parametrize("row", ["[1]", "{", {"question": "q"}, {"question": "q", "ctxs": [{"title": "no text"}]}])
def test_a_row_that_is_not_selfrag_is_refused_by_its_number(write, row):
    with pytest.raises(InputError, match="file:1"):
        read_selfrag(write(row))


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="gone"):
        read_retrieved(tmp_path / "gone")


@pytest.mark.parametrize(
    ("task", "answer", "gold", "right"),
    [
        ("popqa", "She is a Politician.", "politician", False),
        ("pubhealth", "False: the study says nothing.", "false", True),
        ("pubhealth", "It cannot be said.", "false", False),
        ("arc", "The answer is C.", "C", True),
        ("arc", "2", "B", True),
        ("arc", "A cat is the choice", "A", False),
    ],
)
def test_each_data_set_counts_its_own_way(task, answer, gold, right):
    assert correct(task, answer, [gold]) is right


def test_accuracy_is_the_share_of_right_answers_and_of_nothing_it_is_refused():
    items = [Item("q", (), ("true",)), Item("q", (), ("false",))]
    assert accuracy("pubhealth", ["true", "true"], items) == 0.5
    with pytest.raises(InputError, match="1 answers for 2"):
        accuracy("pubhealth", ["true"], items)
    with pytest.raises(InputError):
        accuracy("pubhealth", [], [])
