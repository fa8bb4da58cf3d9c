"""The paper's files, tasks and metrics."""

import json
import re

import pytest

from crag_graph.errors import ConfigurationError, InputError
from crag_graph.load import load
from crag_graph.measure.bench.paper import Item, Passage, letter, read_items
from crag_graph.measure.bench.paper_run import bench_paper, given, kind, paper_plan
from crag_graph.measure.bench.paper_tasks import correct, instruct, misfit
from crag_graph.measure.bench.published import TABLE
from crag_graph.measure.pairs import read_labelled, read_pairs

BARE = {"question": "Who?", "answers": ["Ann"]}
SELFRAG = {"question": "Who is Ann?", "ctxs": [{"title": "Ann", "text": "Ann is a poet."}], "answers": ["poet"]}
CHOICES = {"text": ["steam", "ice"], "label": ["1", "2"]}


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


def test_a_file_of_pairs_is_read_by_what_is_in_it(write):
    labelled = read_pairs(write("", "Who? [SEP] Ann.\t1", "Who? [SEP] {Bob}\t0"))
    assert [(p.question, p.text, p.label) for p in labelled] == [("Who?", "Ann.", 1), ("Who?", "{Bob}", 0)]
    in_json = read_pairs(write({"question": "What does [SEP] mean?", "text": "It\tseparates.", "label": 1}))
    assert [(p.question, p.text) for p in in_json] == [("What does [SEP] mean?", "It\tseparates.")]


@pytest.mark.parametrize("read", [read_labelled, read_pairs])
@pytest.mark.parametrize("line", ["no separator\t1", "q [SEP] p", "q [SEP] p\t2", "q [SEP] p\tnan"])
def test_a_line_that_is_not_labelled_is_refused_by_its_number(write, read, line):
    with pytest.raises(InputError, match="file:2"):
        read(write("q [SEP] p\t0", line))


def test_the_papers_passages_are_parted_at_their_separator_and_titles_at_theirs(write, tmp_path):
    retrieved = tmp_path / "retrieved_psgs"
    retrieved.write_text("One. [sep] Two.[sep]\nAnn // Ann // a poet. [sep] Bob // He rhymes.\n")
    rows = read_items(write(BARE, SELFRAG | {"answerKey": "B", "choices": CHOICES}), retrieved)
    assert rows[0] == Item("Who?", (Passage("", "One."), Passage("", "Two.")), ("Ann",))
    told = (Passage("Ann", "Ann // a poet."), Passage("Bob", "He rhymes."))
    assert rows[1] == Item("Who is Ann?", told, ("poet",), (("A", "steam"), ("B", "ice")))


@pytest.mark.parametrize(
    ("lines", "said"), [("One.\n", "has 1 lines for the 2 questions"), (" [sep]\nOne.", "file:1: has no")]
)
def test_passages_that_do_not_go_with_the_questions_are_refused(write, tmp_path, lines, said):
    retrieved = tmp_path / "retrieved_psgs"
    retrieved.write_text(lines)
    with pytest.raises(InputError, match=said):
        read_items(write(BARE, BARE), retrieved)


def test_selfrag_rows_keep_titles_and_every_gold_answer(write):
    context = {"title": "Ann", "text": "Ann is a poet.", "score": 1.5, "id": 7}
    rows = read_items(
        write(
            {"question": "Who is Ann?", "ctxs": [context], "answers": ["poet", "writer"]},
            {"instruction": "Is it true?", "ctxs": [context, {"title": "Blank", "text": " "}], "answer": "true"},
        )
    )
    assert rows[0] == Item("Who is Ann?", (Passage("Ann", "Ann is a poet."),), ("poet", "writer"))
    assert rows[1] == Item("Is it true?", (Passage("Ann", "Ann is a poet."),), ("true",))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "not JSON"),
        (BARE, "needs ctxs"),
        (SELFRAG | {"ctxs": [{"title": "no text"}]}, "needs ctxs"),
        (SELFRAG | {"ctxs": []}, "has no passage"),
        (SELFRAG | {"question": 3}, "has no question"),
        (SELFRAG | {"answers": []}, "has no gold answer"),
        (SELFRAG | {"answers": [" "]}, "has no gold answer"),
        (SELFRAG | {"question": "\u200b"}, "has no question"),
        (SELFRAG | {"choices": ["ice"]}, "needs choices"),
        (SELFRAG | {"choices": {"text": ["ice"], "label": ["A", "B"]}}, "needs choices"),
        (SELFRAG | {"choices": {"text": ["ice", "fog"], "label": ["A", "1"]}}, "has the labels A, 1"),
        (SELFRAG | {"choices": {"text": ["ice", "fog"], "label": ["A", "X"]}}, "has the labels A, X"),
    ],
)
def test_a_row_that_cannot_be_asked_is_refused_by_its_number(write, row, said):
    with pytest.raises(InputError, match=rf"file:2: .*{re.escape(said)}"):
        read_items(write(SELFRAG, row))


def test_a_missing_or_empty_file_is_refused_by_name(tmp_path, write):
    with pytest.raises(InputError, match="gone"):
        read_items(tmp_path / "gone")
    with pytest.raises(InputError, match="file: holds no question"):
        read_items(write(""))


@pytest.mark.parametrize(("label", "expected"), [("A", "A"), ("e", "E"), ("4", "D"), ("6", None), ("AB", None)])
def test_labels_are_letters_or_numbers(label, expected):
    assert letter(label) == expected


@pytest.mark.parametrize(
    ("task", "answer", "gold", "right"),
    [
        ("popqa", "She is a Politician.", "politician", False),
        ("pubhealth", "False: the study says nothing.", "false", True),
        ("pubhealth", "It is not true [1].", "false", True),
        ("pubhealth", "It cannot be said.", "false", False),
        ("pubhealth", "There is no evidence of that.", "false", False),
        ("pubhealth", "No: the study says nothing.", "false", True),
        ("pubhealth", "The claim isn't true.", "false", True),
        ("pubhealth", "It is not entirely true.", "false", True),
        ("pubhealth", "It cannot be true [1].", "true", False),
        ("pubhealth", "Not true or proven.", "false", True),
        ("arc", "The answer is C.", "C", True),
        ("arc", "Answer: B", "B", True),
        ("arc", "The correct answer is: A", "A", True),
        ("arc", "B\nIce floats.", "B", True),
        ("arc", "**B**", "B", True),
        ("arc", "The answer is 3 metres, so (B)", "B", True),
        ("arc", "2", "B", True),
        ("arc", "(B) [1]", "2", True),
        ("arc", "B [1] because ice floats [2].", "B", True),
        ("arc", "It floats [1].", "A", False),
        ("arc", "A cat is the choice", "A", False),
    ],
)
def test_each_data_set_counts_its_own_way(task, answer, gold, right):
    assert correct(task, answer, [gold]) is right


def test_each_task_asks_in_its_own_way():
    item = Item("Tea cures colds.", (), ("false",))
    assert instruct("popqa", item) == "Tea cures colds."
    assert "true or false" in instruct("pubhealth", item)
    assert instruct("pubhealth", item).endswith("Claim: Tea cures colds.")
    in_text = Item("What floats? A: ice B: lead", (), ("A",))
    assert instruct("arc", in_text).splitlines()[0] == in_text.question
    assert len(instruct("arc", in_text).splitlines()) == 2


@pytest.mark.parametrize(
    ("task", "item", "said"),
    [
        ("popqa", Item("q", (), ("anything",)), ""),
        ("pubhealth", Item("q", (), ("true",)), ""),
        ("pubhealth", Item("q", (), ("unproven",)), "no gold answer is true or false: 'unproven'"),
        ("arc", Item("What floats? (1) ice (2) lead", (), ("2",)), ""),
        ("arc", Item("What floats?\nA. ice\nB. lead", (), ("B",)), ""),
        ("arc", Item("What floats?", (), ("A",)), "has no choices"),
        ("arc", Item("What floats?", (), ("C",), (("A", "ice"), ("B", "lead"))), "no gold answer is a choice: 'C'"),
    ],
)
def test_an_item_that_no_answer_could_satisfy_is_told(task, item, said):
    assert misfit(task, item)[: len(said) or None] == said


@pytest.mark.anyio
async def test_the_passages_of_an_item_are_what_any_search_finds_in_their_order_and_once():
    passages = (Passage("Ann", "She wrote."), Passage("", "It rained."), Passage("", "It  rained!"))
    search = given(Item("q", passages, ("a",), where="data/file.jsonl:7"))
    found = await search.ainvoke("anything")
    assert [d.page_content for d in found] == ["She wrote.", "It rained."]
    assert found[0].metadata == {
        "origin": "internal",
        "source": "data/file.jsonl",
        "title": "Ann",
        "heading": "",
        "start": 0,
    }
    other = await given(Item("other", (Passage("Bob", "She wrote."),), ("a",))).ainvoke("q")
    again = await given(Item("other", (Passage("Ann", "She wrote."),), ("a",))).ainvoke("q")
    assert found[0].id == again[0].id != other[0].id


@pytest.mark.parametrize(
    ("task", "systems", "said"),
    [
        ("bio", "crag", "--task: bio; write popqa, pubhealth or arc"),
        ("arc", "crag,tutorial", "--systems: tutorial; write any of crag, vanilla"),
        ("arc", ",", "--systems: none given; write any of crag, vanilla"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused_with_what_is(tmp_path, task, systems, said):
    with pytest.raises(InputError, match=re.escape(said)):
        paper_plan(tmp_path, task, None, systems, None, 7)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CRAG_WEB__APPROVE", "true", "web.approve is true"),
        ("CRAG_CORRECTIONS__ON_INSUFFICIENT", "ask", "on_insufficient is ask"),
    ],
)
async def test_settings_that_wait_for_a_person_are_refused(write, name, value, said):
    loaded = load("offline", {name: value})
    asked = paper_plan(write(SELFRAG), "popqa", None, "crag", None, 7)
    with pytest.raises(ConfigurationError, match=said):
        await bench_paper(asked, loaded, lambda *_: None)


def test_warnings_are_counted_by_what_they_say_not_by_their_numbers():
    assert kind("2 of 10 documents are ungraded: x") == kind("1 of 3 documents are ungraded: y")
    assert kind("the web was not searched: tavily: refused") == "the web was not searched"


def test_the_published_rows_agree_with_the_gains_that_the_paper_states():
    rows = {(row.system, row.generator): row for row in TABLE}
    crag, rag = rows["CRAG", "SelfRAG-LLaMA2-7b"], rows["RAG", "SelfRAG-LLaMA2-7b"]
    gains = [round(crag.accuracy(task) - rag.accuracy(task), 1) for task in ("popqa", "pubhealth", "arc")]
    assert gains == [7.0, 36.6, 15.4]
    assert len(rows) == 8
