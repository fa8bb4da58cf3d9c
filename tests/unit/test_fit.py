"""Reading labelled pairs, measuring scores, fitting the local evaluator."""

import json
import math
import random
from pathlib import Path

import pytest

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.evaluators.local import LocalEvaluator
from crag_graph.errors import InputError
from crag_graph.measure.fit import common_terms, fit, main
from crag_graph.measure.pairs import Pair, auc, calibration_error, measure, read_pairs
from tests.embedders import WordEmbedder

THINGS = "pump turbine valve lamp bridge mill clock boiler crane wheel press furnace ladder anvil kiln loom".split()
FACTS = {"weigh": "weighs {} kilograms", "cost": "costs {} crowns", "measure": "measures {} metres"}


def made_pairs(count: int, seed: int = 1) -> list[Pair]:
    """Make questions about things, each with its own sentence and one about another thing or another property."""
    numbers, pairs = random.Random(seed), []
    for i in range(count // 2):
        thing, other = numbers.sample(THINGS, 2)
        verb, other_verb = numbers.sample(sorted(FACTS), 2)
        question = f"How much does the {thing} of village {i} {verb}?"
        own = f"The {thing} of village {i} {FACTS[verb].format(numbers.randint(2, 900))}."
        wrong = numbers.choice([(other, verb), (thing, other_verb)])
        negative = f"The {wrong[0]} of hamlet {i + 7} {FACTS[wrong[1]].format(numbers.randint(2, 900))}."
        pairs += [Pair(question, own, 1, group=f"g{i}"), Pair(question, negative, 0, group=f"g{i}")]
    return pairs


def write(path: Path, pairs: list[Pair]) -> Path:
    rows = [{"question": p.question, "text": p.text, "label": p.label, "group": p.group} for p in pairs]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_pairs_are_read_with_their_optional_fields(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"question": "q", "text": "a\u2028b", "label": 1}\n\n'
        '{"question": "q", "text": "t", "label": 0, "title": "T", "group": "g"}\n',
        encoding="utf-8",
    )
    first, second = read_pairs(path)
    assert (first.text, first.title, first.group, first.passage) == ("a\u2028b", "", "q", "a\u2028b")
    assert (second.title, second.group, second.passage) == ("T", "g", "T\nt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no pair"),
        ('{"question": "q", "text": "t", "label": 1}\n{', r":2: not JSON"),
        ('{"question": "q", "label": 1}', r":1: needs question and text"),
        ('{"question": "q", "text": "t", "label": 0.5}', r"label is 0\.5"),
        ('{"question": "q", "text": "t"}', "label is None"),
        ("[1]", ":1: needs"),
    ],
)
def test_what_is_no_pair_is_named_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        read_pairs(path)


def test_a_missing_file_of_pairs_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent"):
        read_pairs(tmp_path / "absent.jsonl")


def test_auc_counts_couples_in_the_right_order_and_ties_half() -> None:
    assert auc([1, 0], [0.9, 0.1]) == 1
    assert auc([1, 0], [0.1, 0.9]) == 0
    assert auc([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]) == 0.5
    assert math.isnan(auc([1, 1], [0.1, 0.2]))


def test_metrics_at_a_cut() -> None:
    metrics = measure([1, 0, 0, 0], [0.6, 0.7, 0.1, 0.2], cut=0.6)
    assert metrics.accuracy == 0.75
    assert metrics.balanced_accuracy == pytest.approx((1 + 2 / 3) / 2)


def test_calibration_error_is_the_gap_between_score_and_share() -> None:
    assert calibration_error([1, 0], [0.5, 0.5]) == 0
    assert calibration_error([0, 0], [0.9, 0.9]) == pytest.approx(0.9)
    assert calibration_error([1], [1.0]) == 0


@pytest.mark.anyio
async def test_a_fit_separates_what_it_never_saw() -> None:
    result = await fit({"made": made_pairs(400)}, WordEmbedder(), seed=3)
    assert result.measured["made"].auc > 0.85
    assert result.measured["made"].ece < 0.1


@pytest.mark.anyio
async def test_the_same_pairs_and_seed_give_the_same_coefficients() -> None:
    pairs = {"made": made_pairs(120)}
    assert await fit(pairs, WordEmbedder(), seed=3) == await fit(pairs, WordEmbedder(), seed=3)


@pytest.mark.anyio
@pytest.mark.parametrize("pairs", [made_pairs(20), [pair for pair in made_pairs(400) if pair.label]])
async def test_too_few_pairs_or_one_class_are_refused_with_the_counts(pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match=rf"{sum(p.label for p in pairs)} relevant"):
        await fit({"made": pairs}, WordEmbedder(), seed=0)


def test_common_words_are_less_rare_than_topics() -> None:
    level = {term: rarity for rarity, found in common_terms({"made": made_pairs(200)}).items() for term in found}
    assert level["the"] < level["weigh"] < 1
    assert level["und"] < 0.3
    assert "bridge900" not in level


@pytest.mark.anyio
async def test_the_command_writes_coefficients_that_the_evaluator_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import anyio.to_thread

    out = tmp_path / "mine.json"
    source = write(tmp_path / "made.jsonl", made_pairs(200))
    await anyio.to_thread.run_sync(main, [str(source), "--out", str(out), "--seed", "5"])
    made = json.loads(out.read_text(encoding="utf-8"))
    assert made["seed"] == 5
    assert made["data"]["made"]["pairs"] == 200
    assert "made: auc" in capsys.readouterr().err
    texts = ["The lamp of village 900 weighs 77 kilograms.", "The mill of hamlet 3 costs 5 crowns."]
    own, other = await LocalEvaluator(LocalEmbedder(), out).score("How much does the lamp of village 900 weigh?", texts)
    assert own["score"] is not None
    assert other["score"] is not None
    assert own["score"] > 0.5 > other["score"]
