"""The rules, case by case."""

import doctest
import importlib
import pkgutil

import pytest
from langchain_core.documents import Document

import crag_graph.rules
from crag_graph.rules.citations import Citations
from crag_graph.rules.fusion import fuse, pieces, recompose, unique
from crag_graph.rules.keep import FLAG, choose, estimate_tokens
from crag_graph.rules.question import is_blank, is_followup
from crag_graph.rules.strips import strips
from crag_graph.rules.verdict import decide


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(crag_graph.rules.__path__)])
def test_the_example_in_every_rule_is_true(module):
    result = doctest.testmod(importlib.import_module(f"crag_graph.rules.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ([0.9, 0.1, 0.1, 0.1], "correct"),
        ([], "incorrect"),
        ([0.5, 0.5], "ambiguous"),
        ([0.7], "correct"),
        ([0.3], "ambiguous"),
        ([0.2999], "incorrect"),
        ([None, None], "ambiguous"),
        ([None, 0.1], "incorrect"),
    ],
)
def test_both_bounds_are_inclusive_and_one_good_document_is_enough(scores, verdict):
    assert decide(scores, upper=0.7, lower=0.3)[0] == verdict


@pytest.mark.parametrize(("aggregate", "verdict"), [("max", "correct"), ("mean", "ambiguous"), ("top1", "incorrect")])
def test_the_aggregate_decides_which_score_counts(aggregate, verdict):
    assert decide([0.1, 0.9], upper=0.7, lower=0.3, aggregate=aggregate)[0] == verdict


def texts(text, **options):
    return [text[strip.start : strip.end] for strip in strips(text, **options)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Smith paid $3.14 to the U.S. Treasury on Jan. 5, e.g. in cash. He left.", 2),
        ("Am 3. Mai 2026 z.B. heute.", 1),
        ("A. B. Carter wrote it.", 1),
        ("See Fig. 3b. It shows pi.", 2),
        ("今天天气很好。我们去公园、商店。“他说：你好。”", 3),
        ("今日は天気です。公園に行く。「はい。」", 3),
        ("यह पहला है। यह दूसरा है। यह तीसरा है।", 3),
        ("هل هذا صحيح؟ نعم هذا صحيح. شكرا.", 3),
        ("오늘은 날씨가 좋다. 우리는 공원에 갔다. 끝.", 3),
        ("วันนี้อากาศดีมาก เราไปสวนสาธารณะ แล้วก็กลับบ้านกัน", 3),
    ],
)
def test_sentences_end_where_a_reader_of_the_language_ends_them(text, count):
    assert len(texts(text, mode="sentence")) == count


def test_a_sentence_keeps_the_one_that_says_what_it_is_about():
    text = "The Falcon drone was launched in 2019. It weighs 3 kg."
    assert texts(text) == [text]


def test_neighbouring_windows_share_a_sentence():
    assert texts("A one. B two. C three. D four. E five.") == ["A one. B two. C three.", "C three. D four. E five."]


def test_a_fenced_block_is_one_strip_with_its_indentation():
    code = "```python\nif x:\n\n    y = 1\n```"
    assert code in texts(f"Before it. Nothing.\n\n{code}\n\nAfter.")


def test_a_table_row_carries_its_header_and_a_list_item_its_lead_in():
    text = "The kit has:\n\n- a wrench\n  of steel\n- a bolt\n\n| part | kg |\n|---|---|\n| pump | 3 |\n| hose | 1 |\n"
    leads = {text[s.start : s.end]: text[s.lead_start : s.lead_end] for s in strips(text)}
    assert leads["- a wrench\n  of steel"] == leads["- a bolt"] == "The kit has:"
    assert leads["| pump | 3 |"] == leads["| hose | 1 |"] == "| part | kg |\n|---|---|"


def test_a_good_document_keeps_its_best_strip_flagged():
    chosen = choose([0.1, 0.05, 0.9], [5, 5, 5], [0, 0, 1], keep=0.25, max_strips=9, max_tokens=99, good=[0, 1])
    assert [kept for kept, _ in chosen] == [True, False, True]
    assert chosen[0][1] == FLAG


def test_the_best_strips_fill_the_budget_and_what_is_left_out_says_why():
    chosen = choose([0.5, 0.9, 0.8], [60, 60, 30], [0, 0, 0], keep=0.25, max_strips=9, max_tokens=100)
    assert [kept for kept, _ in chosen] == [False, True, True]
    assert "100 tokens" in chosen[0][1]


def test_a_first_strip_that_is_too_long_is_kept_rather_than_nothing():
    assert choose([0.9], [5_000], [0], keep=0.25, max_strips=9, max_tokens=100)[0][0]


def test_ungraded_strips_are_kept_after_graded_ones():
    chosen = choose([None, 0.3, None], [10, 10, 10], [0, 0, 0], keep=0.25, max_strips=2, max_tokens=99)
    assert [kept for kept, _ in chosen] == [True, True, False]


def document(text, name, **metadata):
    return Document(text, id=name, metadata={"origin": "internal", **metadata})


def test_the_verdict_decides_whose_documents_an_answer_may_rest_on():
    inside, outside = document("a", "1"), document("b", "2", origin="web", url="https://a.example/")
    assert fuse("correct", [inside], [outside]) == [inside]
    assert fuse("incorrect", [inside], [outside]) == [outside]
    assert fuse("ambiguous", [inside], [outside]) == [inside, outside]


def test_the_same_text_or_page_appears_once_internal_first():
    inside = document("Same text!", "1")
    copy = document("same  TEXT", "2", origin="web", url="https://a.example/1")
    page = document("b", "3", url="https://a.example/p?utm_source=x#top")
    again = document("c", "4", url="https://a.example/p")
    assert unique([inside, copy, page, again]) == [inside, page]


def test_sentences_are_recomposed_in_their_order_each_once():
    assert pieces("One. Two. Three. Four.", [(10, 16), (0, 9), (5, 16)]) == "One. Two. Three."


def strip_of(source, start, end, score, lead=(0, 0)):
    where = {"document_id": source.id, "start": start, "end": end, "lead_start": lead[0], "lead_end": lead[1]}
    return Document(source.page_content[start:end], metadata={**where, "score": score})


def test_every_document_with_a_kept_strip_is_one_numbered_source():
    table = document("| part | kg |\n| pump | 3 |\n| hose | 1 |", "t", title="Parts", source="parts.md", page=2)
    other = document("Unused.", "u")
    evidence = recompose([other, table], [strip_of(table, 27, 39, 0.8, lead=(0, 13))])
    assert [(e["number"], e["title"], e["path"], e["page"], e["score"]) for e in evidence] == [
        (1, "Parts", "parts.md", 2, 0.8)
    ]
    assert evidence[0]["passage"] == "| part | kg |\n| hose | 1 |"


def test_an_invented_number_or_url_is_removed_and_remembered():
    citations = Citations(2, "")
    text = citations.push("So it is [7], see https://made.up. And [2].") + citations.finish()
    assert text == "So it is, see . And [2]."
    assert citations.invented == ["[7]", "https://made.up"]


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b", "\ufeff \u2060"])
def test_a_question_of_invisible_characters_is_blank(blank):
    assert is_blank(blank)


def test_question_marks_alone_are_not_blank():
    assert not is_blank("???")


@pytest.mark.parametrize(
    "question", ["What about its battery?", "And the cost?", "How heavy is it?", "Und die Kosten?", "那它的电池呢？"]
)
def test_a_question_that_leans_on_earlier_turns_is_a_followup(question):
    assert is_followup(question)


@pytest.mark.parametrize(
    "question", ["How long is the Model X warranty?", "Is there a garden?", "Why is the sky blue?", "Android or iOS?"]
)
def test_a_question_that_stands_alone_is_not(question):
    assert not is_followup(question)


def test_tokens_are_estimated_for_scripts_without_ascii_too():
    assert estimate_tokens("a" * 400) == 100
    assert estimate_tokens("字" * 100) == 100
