"""The evaluator that needs no key."""

import asyncio
import json
import math
from pathlib import Path

import pytest

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.evaluators.local import SHIPPED, LocalEvaluator
from crag_graph.errors import ConfigurationError
from crag_graph.rules.strips import strips
from tests.embedders import WordEmbedder

pytestmark = pytest.mark.anyio

PUMP = "The Falkenau pump was built in 1912. It weighs 340 kilograms and moves 90 litres of water per minute."
QUESTION = "How much does the Falkenau pump weigh?"
UNRELATED = "Oak trees lose their leaves in late autumn. Acorns are eaten by jays and squirrels."


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture(scope="module")
def evaluator(embedder: LocalEmbedder) -> LocalEvaluator:
    return LocalEvaluator(embedder)


async def scores(evaluator: LocalEvaluator, question: str, *texts: str) -> list[float]:
    grades = await evaluator.score(question, texts)
    found = [grade["score"] for grade in grades if grade["score"] is not None]
    assert len(found) == len(texts)
    assert all(math.isfinite(score) and 0 <= score <= 1 for score in found)
    assert all(grade["reason"] and "\n" not in grade["reason"] for grade in grades)
    return found


async def test_a_text_with_the_answer_scores_high_and_another_low(evaluator: LocalEvaluator) -> None:
    relevant, unrelated = await scores(evaluator, QUESTION, PUMP, UNRELATED)
    assert relevant > 0.5
    assert unrelated < 0.05


async def test_no_texts_give_no_grades(evaluator: LocalEvaluator) -> None:
    assert await evaluator.score(QUESTION, []) == []


async def test_the_score_of_a_text_does_not_depend_on_its_neighbours(evaluator: LocalEvaluator) -> None:
    together = await scores(evaluator, QUESTION, UNRELATED, PUMP, "", PUMP)
    assert together[1] == together[3] == (await scores(evaluator, QUESTION, PUMP))[0]
    assert together[0] == (await scores(evaluator, QUESTION, UNRELATED))[0]


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u200b"])
async def test_a_text_without_words_scores_next_to_nothing(evaluator: LocalEvaluator, text: str) -> None:
    assert (await scores(evaluator, QUESTION, text))[0] < 0.05


async def test_an_answer_in_the_last_sentence_of_a_long_text_is_found(evaluator: LocalEvaluator) -> None:
    filler = "".join(f"Line {i} of the inventory lists chairs, lamps and boxes of nails. " for i in range(170))
    with_answer, without = await scores(evaluator, QUESTION, f"{filler}{PUMP}", filler)
    assert len(filler) > 10_000
    assert with_answer > 0.5
    assert without < 0.1


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        (
            "Wie viel wiegt die Falkenauer Pumpe?",
            "Die Pumpe in Falkenau wiegt 340 kg.",
            "Eichen verlieren im Herbst Laub.",
        ),
        ("法尔肯瑙水泵有多重？", "法尔肯瑙水泵重340公斤。它建于1912年。", "橡树在深秋落叶。松鸦吃橡子。"),
        ("फ़ाल्केनाउ पंप का वज़न कितना है?", "फ़ाल्केनाउ पंप का वज़न 340 किलोग्राम है।", "पेड़ पतझड़ में पत्ते खो देते हैं।"),
        ("كم تزن مضخة فالكناو؟", "تزن مضخة فالكناو 340 كيلوغراما.", "تفقد أشجار البلوط أوراقها في الخريف."),
        ("ファルケナウのポンプの重さは?", "ファルケナウのポンプの重さは340キロです。", "樫の木は晩秋に葉を落とす。"),
        (
            "팔케나우 펌프의 무게는 얼마입니까?",
            "팔케나우 펌프의 무게는 340킬로그램이다.",
            "참나무는 늦가을에 잎을 잃는다.",
        ),
        ("ปั๊มฟัลเคเนาหนักเท่าไร", "ปั๊มฟัลเคเนาหนัก 340 กิโลกรัม", "ต้นโอ๊กผลัดใบในฤดูใบไม้ร่วง"),
        ("Сколько весит насос Фалькенау?", "Насос Фалькенау весит 340 килограммов.", "Дубы теряют листья осенью."),
    ],
)
async def test_every_script_is_told_apart(evaluator: LocalEvaluator, question: str, answer: str, other: str) -> None:
    relevant, unrelated = await scores(evaluator, question, answer, other)
    assert relevant > 0.4
    assert unrelated < 0.2


@pytest.mark.parametrize("text", ["???", "🙂🙂", "12 34", "a" * 60_000, "| a | b |\n|---|---|\n| 1 | 2 |", "\x00"])
async def test_odd_texts_and_questions_get_a_score(evaluator: LocalEvaluator, text: str) -> None:
    await scores(evaluator, QUESTION, text)
    await scores(evaluator, text[:500], PUMP, text)


async def test_the_heading_counts_as_part_of_the_text(evaluator: LocalEvaluator) -> None:
    text = "It weighs 340 kilograms and moves 90 litres of water per minute."
    with_heading, other_heading, without = await scores(
        evaluator, QUESTION, f"Falkenau pump › Data\n{text}", f"Garden shed › Data\n{text}", text
    )
    assert with_heading > max(other_heading, without)


async def test_a_question_for_a_name_wants_that_name_and_not_one_like_it(evaluator: LocalEvaluator) -> None:
    page = "He studied in Prague and taught mathematics until 1931."
    own, namesake, parts, text_alone = await scores(
        evaluator,
        "Who is Anton Ferdinand Weissmuth?",
        f"Anton Ferdinand Weissmuth\n{page}",
        f"Anton Ferdinand Weissmuth (painter)\n{page}",
        f"Ferdinand Anton\n{page} Weissmuth was his friend.",
        f"Anton Ferdinand Weissmuth was a teacher. {page}",
    )
    assert min(own, text_alone) > 0.8
    assert min(own, text_alone) > namesake > parts
    assert parts < 0.1


async def test_a_name_within_a_longer_heading_is_not_taken_for_a_namesake(evaluator: LocalEvaluator) -> None:
    defined, section, other = await scores(
        evaluator,
        "What is Falkenau?",
        "Falkenau handbook › Intro\nFalkenau is a pump for wells.",
        "Falkenau handbook › Battery\nIt charges in two hours.",
        "Owl handbook › Battery\nIt charges in two hours.",
    )
    assert defined > 0.8 > section > other


async def test_the_same_name_in_another_unicode_form_is_the_same_name(evaluator: LocalEvaluator) -> None:
    composed, decomposed = await scores(
        evaluator, "Who is José Weissmuth?", "Jos\u00e9 Weissmuth\nA teacher.", "Jose\u0301 Weissmuth\nA teacher."
    )
    assert composed == decomposed


async def test_many_tasks_at_once_get_what_one_gets(evaluator: LocalEvaluator) -> None:
    questions = [f"How much does pump number {i} weigh?" for i in range(12)]
    texts = [PUMP, UNRELATED, "Pump number 7 weighs 12 kg."]
    alone = [await evaluator.score(question, texts) for question in questions]
    together = await asyncio.gather(*(LocalEvaluator(evaluator._embedder).score(q, texts) for q in questions))
    assert together == alone


class Recorder(WordEmbedder):
    """Passes for the embedder of the shipped coefficients."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = LocalEmbedder.fingerprint


async def test_strips_of_a_graded_document_reuse_its_vectors() -> None:
    recorder = Recorder()
    evaluator = LocalEvaluator(recorder)
    document = f"Falkenau pump\n{PUMP} {UNRELATED}"
    await evaluator.score(QUESTION, [document])
    known = set(recorder.embedded)
    await evaluator.score(QUESTION, [document[strip.start : strip.end] for strip in strips(document)])
    assert set(recorder.embedded) == known


async def test_coefficients_of_another_embedder_are_refused_with_both_names() -> None:
    with pytest.raises(ConfigurationError, match=rf"{LocalEmbedder.fingerprint}.*words-a-1"):
        LocalEvaluator(WordEmbedder())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"embedder": {}, "kinds": {}, "rarity": {}}', "\x00"])
async def test_a_file_that_holds_no_coefficients_is_named(
    embedder: LocalEmbedder, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"mine\.json"):
        LocalEvaluator(embedder, path)


async def test_a_missing_file_is_named(embedder: LocalEmbedder, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        LocalEvaluator(embedder, tmp_path / "absent.json")


def test_the_shipped_coefficients_say_what_made_them() -> None:
    made = json.loads(SHIPPED.read_text(encoding="utf-8"))
    assert made["embedder"] == {"name": LocalEmbedder.name, "fingerprint": LocalEmbedder.fingerprint}
    assert made["seed"] == 0
    assert made["date"]
    assert all(len(source["sha256"]) == 64 and source["pairs"] > 0 for source in made["data"].values())
    assert not any(name.startswith("bio") for name in made["data"])
    assert set(made["held_out"]) == set(made["data"])
