"""Cut-offs from labelled pairs: what is scored, refused and written, and what is said of those that do not fit."""

import doctest
import random
import re

import pytest
import yaml

from crag_graph.cli import show_calibration
from crag_graph.components.evaluators.identity import Identity, calibration_mismatch, identify
from crag_graph.errors import EvaluationError, InputError
from crag_graph.factory import Graders, build_components, build_graders
from crag_graph.load import load_settings
from crag_graph.measure.calibrating import MIN_CASES, MIN_PAIRS, calibrate, check, yaml_fragment
from crag_graph.measure.measuring import figures, score_pairs
from crag_graph.measure.pairs import Pair
from crag_graph.rules import calibration
from crag_graph.rules.calibration import Case, cut_offs, errors
from crag_graph.settings import CustomThresholds, Settings
from crag_graph.state import Grade

pytestmark = pytest.mark.anyio
IDENTITY = Identity("local", "coefficients 1", "")
OFFLINE = load_settings("offline", {})


class ByNumber:
    """Gives the score that stands in the text; a text without one is ungraded, a question with `down` fails."""

    def __init__(self):
        self.texts = []

    async def score(self, question, texts):
        self.texts += texts
        if "down" in question:
            raise EvaluationError("no answer", component="evaluator")
        found = [re.search(r"0\.\d+|1\.0", text) for text in texts]
        return [Grade(score=float(hit[0]) if hit else None, reason="read") for hit in found]


def pair(number, label, score, **other):
    return Pair(f"question {number}", f"It scores {score}.", label, **{"group": f"group {number}", **other})


def separable(count=30):
    """Helpful texts from 0.7 to 0.9, useless ones from 0.1 to 0.3."""
    return [
        pair(number, label, round((0.7 if label else 0.1) + 0.2 * number / (count - 1), 3))
        for number in range(count)
        for label in (1, 0)
    ]


async def report_on(pairs, tmp_path, settings=OFFLINE, graders=None, **options):
    path = tmp_path / "mine.jsonl"
    path.write_text("the bytes that are hashed", encoding="utf-8")
    grader = ByNumber()
    graders = graders or Graders(grader, grader, IDENTITY)
    return await calibrate(path, pairs, graders, settings, **{"cost": 3, "seed": 0, **options})


@pytest.mark.parametrize("module", [calibration, show_calibration])
def test_the_examples_in_the_docs_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_labels_that_do_not_overlap_are_parted_in_the_middle_whatever_the_cost():
    cases = [Case(0.8, 0.3), Case(0.9, 0.2)]
    assert cut_offs(cases, 1) == cut_offs(cases, 10) == (pytest.approx(0.55), pytest.approx(0.55))


def test_of_equally_good_places_the_more_careful_one_is_taken():
    assert cut_offs([Case(0.3, 0.6)], 1) == (pytest.approx(0.8), pytest.approx(0.15))


def test_a_score_at_the_cut_off_reaches_it():
    assert errors([Case(0.5, 0.5)], 0.5) == (1.0, 0.0)


def test_a_dear_mistake_is_worth_needless_searches():
    cases = [Case(0.9, 0.1), Case(0.5, 0.1), Case(0.5, 0.7)]
    assert cut_offs(cases, 1).strict < 0.5
    assert cut_offs(cases, 3).strict > 0.7


@pytest.mark.parametrize("cost", [0.5, float("nan"), float("inf")])
async def test_a_cost_that_cannot_be_is_refused_before_anything_is_scored(cost, tmp_path):
    grader = ByNumber()
    with pytest.raises(InputError, match="cost"):
        await report_on(separable(), tmp_path, graders=Graders(grader, grader, IDENTITY), cost=cost)
    assert grader.texts == []


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (separable(MIN_PAIRS // 2 - 1), f"needs {MIN_PAIRS} graded pairs"),
        ([pair(number % (MIN_CASES - 1), number % 2, 0.5) for number in range(100)], f"{MIN_CASES} questions"),
        ([pair(number, 1, 0.5) for number in range(60)], "all 60 pairs are labelled 1"),
        ([pair(number, 0, 0.5) for number in range(60)], "all 60 pairs are labelled 0"),
    ],
)
def test_pairs_that_cannot_carry_cut_offs_are_refused_with_the_reason(pairs, reason):
    with pytest.raises(InputError, match=reason):
        check(pairs)


async def test_pairs_that_turn_out_ungraded_do_not_count_towards_the_minimum(tmp_path):
    pairs = [*separable(MIN_PAIRS // 2 - 1), pair(98, 1, "nothing"), pair(99, 0, "nothing")]
    with pytest.raises(InputError, match=f"got {MIN_PAIRS - 2}"):
        await report_on(pairs, tmp_path)


async def test_all_four_cut_offs_come_with_intervals_and_lie_between_the_labels(tmp_path):
    report = await report_on(separable(), tmp_path)
    assert set(report.thresholds) == {"upper", "lower", "keep", "sufficient"}
    for threshold in report.thresholds.values():
        low, high = threshold.interval
        assert 0.3 < low <= high <= 0.7
        assert threshold.value == pytest.approx(0.5)
    assert (report.auc, report.units) == (1.0, "groups")
    assert {row.cost for row in report.trade_off} >= {1, 3, 10}
    assert all(row.false_correct == row.needless_search == row.evidence_lost == 0 for row in report.trade_off)


def overlapping():
    """Scores of both labels that lie apart, but not wholly."""
    noise = random.Random(0)
    return [pair(n, label, round(noise.betavariate(2 + label, 3 - label), 4)) for n in range(60) for label in (0, 1)]


async def test_where_the_labels_overlap_the_strict_cut_offs_lie_above_the_lenient_ones(tmp_path):
    found = {name: threshold.value for name, threshold in (await report_on(overlapping(), tmp_path)).thresholds.items()}
    assert found["lower"] < found["upper"]
    assert found["keep"] < found["sufficient"]


async def test_the_map_is_judged_on_groups_that_it_has_not_seen(tmp_path):
    report = await report_on(overlapping(), tmp_path)
    assert report.ece_after > 0.01  # on its own rows an isotonic map errs by nothing


async def test_the_same_seed_gives_the_same_report(tmp_path):
    pairs = overlapping()
    first, again = await report_on(pairs, tmp_path), await report_on(pairs, tmp_path)
    assert first.plain() == again.plain()
    assert (await report_on(pairs, tmp_path, seed=1)).thresholds != first.thresholds


async def test_scores_that_mean_their_share_are_called_calibrated_and_others_are_not(tmp_path):
    shares = [(tenth / 10, int(n < tenth)) for tenth in range(1, 10) for n in range(10)]
    honest = [pair(number, label, score) for number, (score, label) in enumerate(shares)]
    boastful = [pair(number, label, 0.9 + score / 20) for number, (score, label) in enumerate(shares)]
    good, bad = await report_on(honest, tmp_path), await report_on(boastful, tmp_path)
    assert good.is_calibrated
    assert good.ece_before == pytest.approx(0, abs=0.02)
    assert not bad.is_calibrated
    assert bad.ece_after < 0.5 * bad.ece_before


async def test_the_sensitivity_counts_questions_whose_verdict_would_change(tmp_path):
    near = [pair(50, 0, 0.46), pair(51, 1, 0.54), pair(52, 1, 0.52), pair(53, 1, 0.5)]
    report = await report_on([*separable(), *near], tmp_path)
    upper, lower = (report.thresholds[name].value for name in ("upper", "lower"))
    assert upper == lower == pytest.approx(0.48)
    assert report.changing == {"up": 1, "down": 2}


async def test_ungraded_pairs_are_counted_apart_and_never_as_a_score_of_zero(tmp_path):
    pairs = [*separable(), pair(70, 1, "nothing"), Pair("it is down", "It scores 0.9.", 1)]
    report = await report_on(pairs, tmp_path)
    assert (report.pairs, report.ungraded) == (62, 2)
    assert report.thresholds["upper"].value == pytest.approx(0.5)
    scored = await score_pairs(ByNumber(), pairs)
    measured = figures(scored, OFFLINE.evaluator.thresholds)
    assert (measured["pairs"], measured["ungraded"], measured["auc"]) == (62, 2, 1.0)


async def test_a_file_of_which_nothing_is_graded_is_an_error_with_the_reason():
    with pytest.raises(EvaluationError, match=r"not one of 1 pairs was graded: .*no answer"):
        await score_pairs(ByNumber(), [Pair("it is down", "text", 1)])


async def test_accuracy_is_taken_at_upper_and_the_same_at_lower_is_told_apart():
    pairs = [pair(0, 1, 0.9), pair(1, 1, 0.4), pair(2, 0, 0.3), pair(3, 0, 0.1)]
    pairs.append(pair(4, 0, 0.1))
    cut = CustomThresholds(upper=0.7, lower=0.2)
    measured = figures(await score_pairs(ByNumber(), pairs), cut)
    assert (measured["accuracy"], measured["balanced_accuracy"]) == (0.8, 0.75)
    assert measured["at_lower"] == {"accuracy": 0.8, "balanced_accuracy": 0.8333}
    one_label = figures(await score_pairs(ByNumber(), pairs[:2]), cut)
    assert one_label["auc"] is None


async def test_strips_are_scored_as_the_strip_filter_sees_them(tmp_path):
    listed = "It scores 0.8. The kit has:\n\n- a wrench\n- a pump"
    pairs = [*separable(), Pair("question 90", listed, 1, "Falcon", "group 90")]
    documents, strips = ByNumber(), ByNumber()
    await report_on(pairs, tmp_path, graders=Graders(documents, strips, IDENTITY))
    assert f"Falcon\n{listed}" in documents.texts
    assert any(text.startswith("Falcon\n") and "The kit has:" in text and "a pump" in text for text in strips.texts)


async def test_without_a_scoring_strip_filter_keep_and_sufficient_stay_and_it_is_said(tmp_path):
    report = await report_on(separable(), tmp_path, graders=Graders(ByNumber(), None, IDENTITY))
    assert report.thresholds["keep"].value == OFFLINE.evaluator.local.keep
    assert report.thresholds["sufficient"].interval is None
    assert any("keep and sufficient are as configured" in note for note in report.notes)


async def test_the_settings_can_be_loaded_and_record_what_they_hold_for(tmp_path):
    report = await report_on(separable(), tmp_path)
    path = tmp_path / "found.yaml"
    path.write_text(yaml_fragment(report.settings), encoding="utf-8")
    found = load_settings(path, {}).evaluator
    assert found.use == "local"
    assert found.local.upper == report.thresholds["upper"].value
    assert found.local.keep == report.thresholds["keep"].value
    recorded = found.local.calibration
    assert (recorded.evaluator, recorded.model, recorded.prompt) == ("local", "coefficients 1", None)
    assert recorded.rows == "60"
    assert re.fullmatch(r"mine\.jsonl [0-9a-f]{12}", recorded.data)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", recorded.date)


async def test_an_evaluator_of_ones_own_gets_its_block(tmp_path):
    settings = Settings.model_validate({"evaluator": {"use": "my.module:thing"}})
    report = await report_on(separable(), tmp_path, settings=settings)
    assert set(report.settings["evaluator"]) == {"use", "custom"}
    assert yaml.safe_load(yaml_fragment(report.settings)) == report.settings


async def test_another_aggregate_than_the_best_score_is_said(tmp_path):
    settings = Settings.model_validate({"evaluator": {"use": "local", "aggregate": "mean"}})
    report = await report_on(separable(), tmp_path, settings=settings)
    assert any("aggregate is mean" in note for note in report.notes)


def calibrated_for(settings, **recorded):
    use = settings.evaluator.use
    block = {**settings.evaluator.thresholds.model_dump(), "calibration": recorded}
    return Settings.model_validate({**settings.model_dump(), "evaluator": {"use": use, use: block}})


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"evaluator": "llm", "model": "m", "prompt": "grade-v1"}, None),
        ({}, None),
        ({"evaluator": "llm", "model": "other", "prompt": "grade-v1"}, "model other (in use: m)"),
        ({"evaluator": "llm", "model": "m", "prompt": "grade-v0"}, "prompt grade-v0 (in use: grade-v1)"),
        ({"evaluator": "local", "model": "m", "prompt": "grade-v1"}, "evaluator local (in use: llm)"),
    ],
)
def test_thresholds_found_for_other_scores_are_told_in_one_sentence(recorded, said):
    settings = calibrated_for(Settings.model_validate({"llm": {"model": "m"}}), **recorded)
    found = calibration_mismatch(settings, "grade-v1")
    assert found is None if said is None else said in found
    assert found is None or "crag calibrate" in found


def test_a_mismatch_is_among_the_warnings_of_every_run_and_a_match_is_not():
    used = build_graders(OFFLINE).identity
    fitting = build_components(calibrated_for(OFFLINE, **used._asdict()))
    assert list(fitting.notices()) == []
    [said] = build_components(calibrated_for(OFFLINE, evaluator="local", model="coefficients 0")).notices()
    assert "coefficients 0" in said
    assert used.model in said


def test_what_decides_the_scores_decides_the_identity(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    settings = load_settings("openai", {})
    one_call = load_settings("openai", {"CRAG_EVALUATOR__LLM__ONE_PASS": "true"})
    graded, at_once = build_graders(settings).identity, build_graders(one_call).identity
    assert graded.model == at_once.model == settings.llm.model
    assert graded.prompt.startswith("grade-")
    assert at_once.prompt.startswith("one_pass-")
    own = tmp_path / "own.json"
    own.write_text("{}", encoding="utf-8")
    refitted = load_settings("offline", {"CRAG_EVALUATOR__LOCAL__COEFFICIENTS": str(own)})
    assert identify(refitted, "") != identify(OFFLINE, "")
    similar = load_settings("offline", {"CRAG_EVALUATOR__USE": "similarity"})
    assert identify(similar, "") == ("similarity", "local", "")
