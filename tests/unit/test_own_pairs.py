"""Labelled pairs from text that nobody has labelled."""

import doctest
import random
from collections import Counter

import pytest
from langchain_core.documents import Document

from crag_graph.components.tokens import terms
from crag_graph.errors import InputError
from crag_graph.load import load_settings
from crag_graph.measure import own_pairs as module
from crag_graph.measure.own_pairs import ask, own_pairs, read_passages
from crag_graph.measure.pairs import Pair

pytestmark = pytest.mark.anyio
SETTINGS = load_settings("offline", {})
PUMP = [
    "The centrifugal pump in hall seven weighs 312 kilograms without its bronze impeller. Service is due in spring.",
    "Technicians from Rotterdam balance the bronze impeller twice. They log the vibration of both bearings.",
    "Lubricant for both bearings comes in sealed cartridges. A cartridge lasts 4000 hours of continuous running.",
]
BOAT = [
    "The ferry crosses the estuary 14 times on weekdays. Bicycles travel free of charge.",
    "Captain Lindqvist keeps the tide tables for the estuary in a tin box. The box survived the flood of 1953.",
]


def passages(texts, source, title):
    return [
        Document(text, id=f"{source}-{place}", metadata={"source": source, "title": title, "start": 1000 * place})
        for place, text in enumerate(texts)
    ]


CORPUS = [*passages(PUMP, "pump.md", "Pump"), *passages(BOAT, "boat.md", "Ferry")]


def of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def test_the_examples_in_the_docs_hold():
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_question_has_its_passage_hard_negatives_from_its_document_and_others():
    rows = own_pairs(CORPUS, seed=0, limit=50)
    document = {passage.page_content: passage.metadata["source"] for passage in CORPUS}
    assert {row["label"] for row in of_kind(rows, "own")} == {1}
    assert {row["label"] for row in rows if row["kind"] != "own"} == {0}
    for row in of_kind(rows, "own") + of_kind(rows, "neighbour"):
        assert document[row["text"]] == row["group"]
    for row in of_kind(rows, "elsewhere"):
        assert document[row["text"]] != row["group"]
    counts = Counter((row["question"], row["kind"]) for row in rows)
    assert all(counts[question, "own"] == 1 for question, _ in counts)
    assert of_kind(rows, "neighbour")


@pytest.mark.parametrize("seed", range(20))
def test_a_question_holds_words_of_its_sentence_but_not_the_fact_it_asks_for(seed):
    asked = ask(PUMP[0], "Pump", "en", frozenset(), random.Random(seed))
    assert asked.fact in PUMP[0]
    assert asked.fact not in asked.text
    assert 2 <= len(asked.terms & {*terms(PUMP[0])}) <= 4


def test_the_same_seed_gives_the_same_pairs_and_another_one_others():
    assert own_pairs(CORPUS, seed=3, limit=50) == own_pairs(CORPUS[::-1], seed=3, limit=50)
    assert own_pairs(CORPUS, seed=3, limit=50) != own_pairs(CORPUS, seed=4, limit=50)


def test_the_limit_counts_questions():
    rows = own_pairs(CORPUS, seed=0, limit=2)
    assert len({row["question"] for row in rows}) == 2


def test_a_passage_that_may_answer_too_is_no_negative():
    overlapping = passages([PUMP[0], f"Read on. {PUMP[0]}", PUMP[2]], "pump.md", "Pump")
    paraphrased = passages(
        ["In hall seven the centrifugal pump, 312 kilograms, stands on its bronze impeller."], "b.md", ""
    )
    rows = own_pairs([*overlapping, *paraphrased], seed=0, limit=50)
    asked_of_pump = [row for row in rows if row["kind"] == "own" and "312" in row["text"]]
    assert asked_of_pump
    for question in asked_of_pump:
        others = [row["text"] for row in rows if row["question"] == question["question"] and not row["label"]]
        assert not any(PUMP[0] in text for text in others)


def test_a_sentence_that_leans_on_the_one_before_is_asked_under_the_title():
    texts = ["It carries 250 passengers and dry cargo between harbours."]
    [row] = own_pairs(passages(texts, "a.md", "Ferry"), seed=0, limit=5)
    assert row["question"].startswith("Ferry: How many ")


def test_the_title_is_what_an_evaluator_sees_above_the_passage():
    [row] = own_pairs(
        [Document(BOAT[0], metadata={"source": "a", "title": "Ferry", "heading": "Timetable"})], seed=0, limit=1
    )
    assert Pair(row["question"], row["text"], 1, row["title"]).passage == f"Ferry › Timetable\n{BOAT[0]}"


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("Die alte Pumpe in der Halle wiegt 312 Kilogramm und wird von zwei Leuten gewartet.", "W"),
        ("केंद्रीय भवन की पुरानी पंप मशीन का वजन 312 किलोग्राम है।", "कितने"),
        ("中央大厅的旧水泵不带青铜叶轮时重达312公斤左右。", "中央"),
    ],
)
def test_other_languages_are_asked_in_their_own_words(text, opening):
    rows = own_pairs(passages([text], "a.md", ""), seed=0, limit=5)
    assert rows[0]["question"].startswith(opening)
    assert rows[0]["question"].endswith(("?", "？"))


@pytest.mark.parametrize("texts", [[], ["nothing to ask for here"], ["```\ncode = 12\n```"]])
def test_text_without_anything_to_ask_for_is_refused(texts):
    with pytest.raises(InputError, match="name or number"):
        own_pairs(passages(texts, "a.md", ""), seed=0, limit=5)


async def test_files_need_no_index(tmp_path):
    (tmp_path / "pump.md").write_text("# Pump\n\n" + "\n\n".join(PUMP), encoding="utf-8")
    (tmp_path / "boat.txt").write_text("\n\n".join(BOAT), encoding="utf-8")
    found = await read_passages(SETTINGS, tmp_path)
    assert {passage.metadata["title"] for passage in found} >= {"Pump"}
    assert own_pairs(found, seed=0, limit=50)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boat.txt", "pump.md"]


async def test_a_place_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        await read_passages(SETTINGS, tmp_path / "nowhere")
