"""What the local evaluator sees of a question and a text."""

import math

import numpy
import pytest

from crag_graph.components.evaluators.features import KINDS, features, kind_of, read_text, share
from crag_graph.components.evaluators.questions import Rarity, read_question

RARITY = Rarity({"the": 0.0, "of": 0.05, "is": 0.2, "how": 0.4, "what": 0.2, "who": 0.4, "it": 0.2, "was": 0.2})


def compared(question: str, text: str, cosine: float = 0.5) -> dict[str, float]:
    asked, read = read_question(question, RARITY), read_text(text)
    shared = share(asked, read)
    cosines = numpy.full((len(asked.variants), len(shared.nearest)), cosine)
    values = features(asked, read, shared, cosines, RARITY)
    assert all(math.isfinite(value) for value in values.values())
    return values


def test_every_kind_of_comparison_has_its_features() -> None:
    values = compared("How heavy is the pump?", "The pump weighs 3 kg.")
    assert kind_of(values) in KINDS
    assert all(name in values for names in KINDS.values() for name in names)


def test_a_heading_line_is_told_from_text() -> None:
    assert read_text("Falcon › Data\nIt weighs 3 kg. It is grey.").heading == "Falcon › Data"
    assert read_text("It weighs 3 kg.\nIt is grey.").heading == ""
    assert read_text("Falcon").heading == ""
    assert read_text(f"{'long ' * 60}\ntext").heading == ""


def test_rare_words_weigh_more_than_common_ones() -> None:
    question = "What is the turbine of the pump?"
    assert compared(question, "A turbine.")["overlap"] > compared(question, "What is the matter of the day?")["overlap"]


def test_a_question_found_whole_has_full_overlap() -> None:
    values = compared("What is the turbine?", "What is the turbine")
    assert values["overlap"] == pytest.approx(1)
    assert values["run"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("Wärmepumpe warten", "Die Wartung der Wärmepumpen ist jährlich."),
        ("waterworks plant", "The plant cleans water."),
    ],
)
def test_other_forms_of_a_word_count_in_part(asked: str, written: str) -> None:
    assert 0.2 < compared(asked, written)["overlap"] < 1


@pytest.mark.parametrize(
    ("question", "text", "offers"),
    [
        ("When was it built?", "The pump was built in 1912.", 1),
        ("When was it built?", "The pump was built by hand.", -1),
        ("How many pumps were built in 1912?", "In 1912 pumps were built.", -1),
        ("How many pumps were built in 1912?", "In 1912 forty pumps were built.", 1),
        ("Who built the pump?", "The pump was built by Weissmuth.", 1),
        ("Who built the pump?", "The pump was built by hand.", -1),
        ("Who built the pump?", "Weissmuth built the pump.", 1),
        ("Who built the pump?", "It was built by hand.", -1),
        ("谁建造了水泵？", "水泵由工人建造。", 1),
        ("Why was it built?", "It was built in 1912.", 0),
    ],
)
def test_what_is_asked_for_is_looked_for(question: str, text: str, offers: float) -> None:
    assert compared(question, text)["offers"] == offers


def test_the_numbers_of_a_question_must_be_there() -> None:
    question = "What happened in 1912 and 1913?"
    assert compared(question, "Much happened in 1912.")["numbers"] == 0.5


def test_cosines_do_not_count_in_scripts_the_embedder_may_not_know() -> None:
    assert compared("水泵有多重？", "水泵重3公斤。", cosine=0.9)["cosine"] == 0
    assert compared("How heavy is it?", "It weighs 3 kg.", cosine=0.9)["cosine"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Who is Anton Weissmuth?", "Anton Weissmuth"),
        ("Who is Anton Weissmuth (painter)?", "Anton Weissmuth (painter)"),
        ("who was Ludwig van der Falk", "Ludwig van der Falk"),
        ("Wer ist Anton Weissmuth?", "Anton Weissmuth"),
        ("Who is the owner of Falkenau?", ""),
        ("What is Falkenau's population?", ""),
        ("Who built Falkenau?", ""),
        ("What is the price?", ""),
        ("???", ""),
    ],
)
def test_a_question_for_a_bare_name_is_recognised(question: str, name: str) -> None:
    assert read_question(question, RARITY).one == name


def test_only_the_units_nearest_in_words_get_a_vector() -> None:
    text = read_text(" ".join(f"Line {i} is about nails." for i in range(40)) + " The turbine weighs 3 kg.")
    assert share(read_question("How heavy is the turbine?", RARITY), text).nearest[0] == len(text.units) - 1
    assert len(share(read_question("How heavy is the turbine?", RARITY), text).nearest) == 4


@pytest.mark.parametrize("question", ["", "???", "🙂", "1", "\x00", "a" * 5000])
@pytest.mark.parametrize("text", ["x", "🙂", "1 2 3", "| a |\n|---|\n| 1 |", "```\ncode\n```"])
def test_odd_questions_and_texts_give_finite_numbers(question: str, text: str) -> None:
    compared(question, text)
