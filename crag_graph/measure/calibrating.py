"""Cut-offs for the evaluator in use, from labelled pairs and a cost, with what there is to doubt about them.

The rules are in `crag_graph.rules.calibration`; here pairs are scored, the report is put together and the settings that
it leads to are written.
"""

import hashlib
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from crag_graph.components.evaluators.identity import Identity
from crag_graph.errors import InputError
from crag_graph.factory import Graders
from crag_graph.measure.measuring import Progress, Scored, score_pairs
from crag_graph.measure.pairs import Pair, auc, calibration_error
from crag_graph.policy import cut_by
from crag_graph.rules.calibration import (
    Case,
    Interval,
    by_question,
    changing,
    check_cost,
    cut_offs,
    errors,
    intervals,
    on_steps,
    rising_steps,
)
from crag_graph.rules.passage import strip_text
from crag_graph.settings import EvaluatorSettings, RefineSettings, Settings

MIN_PAIRS = 50  # graded pairs
MIN_CASES = 10  # questions with a text that helps, and questions with one that does not
COSTS = (1, 2, 3, 5, 10, 20)
SHIFT = 0.05
_FOLDS = 5
_MIN_UNITS = 10  # groups; with fewer, questions are drawn one by one
_CALIBRATED = 0.05  # expected calibration error up to which scores may be read as probabilities


@dataclass(frozen=True)
class Threshold:
    """One cut-off and where it would lie on other samples like this one (95%); no interval: it was not calibrated."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class TradeOff:
    """What one cost leads to, as shares of the questions on these very pairs."""

    cost: float
    upper: float
    lower: float
    false_correct: float  # of the questions with useless texts: would be called correct on those alone
    needless_search: float  # of the questions with helpful texts: searched although one of them was there
    evidence_lost: float  # of the same: called incorrect, and the helpful texts thrown away


@dataclass(frozen=True)
class Report:
    """All that `crag calibrate` says."""

    identity: Identity
    cost: float
    seed: int
    pairs: int
    ungraded: int
    questions: int
    units: str  # what the bootstrap draws
    auc: float
    thresholds: dict[str, Threshold]
    ece_before: float
    ece_after: float  # after an isotonic map that was fitted on other groups
    trade_off: list[TradeOff]
    changing: dict[str, int]  # questions with another verdict when scores move: "up", "down"
    notes: list[str]
    settings: dict[str, Any]  # to be written as YAML
    graded: list[tuple[Pair, float]]

    @property
    def is_calibrated(self) -> bool:
        """Whether a score can be read as a probability on data like these, or no map would make it more of one."""
        return self.ece_before <= _CALIBRATED or self.ece_after >= self.ece_before

    def plain(self) -> dict[str, Any]:
        """Return the report for a program."""
        return {
            **self.identity._asdict(),
            "cost": self.cost,
            "pairs": self.pairs,
            "ungraded": self.ungraded,
            "questions": self.questions,
            "auc": self.auc,
            "thresholds": {name: threshold.value for name, threshold in self.thresholds.items()},
            "intervals": {name: threshold.interval for name, threshold in self.thresholds.items()},
            "resampled": {"what": self.units, "seed": self.seed},
            "ece": {"before": self.ece_before, "after": self.ece_after, "already_calibrated": self.is_calibrated},
            "trade_off": [asdict(row) for row in self.trade_off],
            "changing_verdict": self.changing,
            "notes": self.notes,
            "yaml": yaml_fragment(self.settings),
        }


async def calibrate(
    path: Path,
    pairs: Sequence[Pair],
    graders: Graders,
    settings: Settings,
    *,
    cost: float,
    seed: int,
    progress: Progress | None = None,
) -> Report:
    """Score the pairs of a file, and their strips where the evaluator judges strips too, and find the cut-offs.

    Raises:
        InputError: too few pairs or questions, one label only, or a cost below 1.
    """
    check_cost(cost)
    check(pairs)
    scored = await score_pairs(graders.documents, pairs, progress)
    check([pair for pair, _ in scored.graded])
    groups = _units(pairs)
    upper, lower = _found(scored, groups, cost, seed)
    configured = settings.evaluator.thresholds
    keep, sufficient = Threshold(configured.keep), Threshold(configured.sufficient)
    if graders.strips:
        strips = await score_pairs(graders.strips, _strips(pairs, settings.refine), progress)
        sufficient, keep = _found(strips, groups, cost, seed)
    thresholds = {"upper": upper, "lower": lower, "keep": keep, "sufficient": sufficient}
    cases = _cases(scored)
    labels, scores = [pair.label for pair, _ in scored.graded], [score for _, score in scored.graded]
    return Report(
        identity=graders.identity,
        cost=cost,
        seed=seed,
        pairs=len(pairs),
        ungraded=len(pairs) - len(scores),
        questions=len(cases),
        units="groups" if len({pair.group for pair in pairs}) >= _MIN_UNITS else "questions",
        auc=round(auc(labels, scores), 4),
        thresholds=thresholds,
        ece_before=round(calibration_error(labels, scores), 4),
        ece_after=round(calibration_error(labels, _mapped(scored, groups, seed)), 4),
        trade_off=[_trade_off(cases, each) for each in sorted({*map(float, COSTS), cost})],
        changing=_changing(scored, upper.value, lower.value, settings.evaluator),
        notes=_notes(graders, settings),
        settings=_settings(path, len(scores), graders.identity, settings, thresholds),
        graded=scored.graded,
    )


def check(pairs: Sequence[Pair]) -> None:
    """Refuse pairs that cannot carry cut-offs.

    Raises:
        InputError: says what is there and what is needed.
    """
    found = {label: len({pair.question for pair in pairs if pair.label == label}) for label in (1, 0)}
    for label, what in ((1, "that help"), (0, "that do not help")):
        if pairs and not found[label]:
            raise InputError(f"all {len(pairs)} pairs are labelled {1 - label}: add texts {what}, with label {label}")
    if len(pairs) < MIN_PAIRS or min(found.values()) < MIN_CASES:
        raise InputError(
            f"too few pairs for cut-offs: needs {MIN_PAIRS} graded pairs, {MIN_CASES} questions with a text that helps "
            f"and {MIN_CASES} with one that does not; got {len(pairs)}, {found[1]} and {found[0]}"
        )


def yaml_fragment(settings: dict[str, Any]) -> str:
    """Return settings as YAML, ready to paste."""
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120)


def _found(scored: Scored, groups: dict[str, str], cost: float, seed: int) -> tuple[Threshold, Threshold]:
    """Return the strict and the lenient cut-off, rounded to what can be read, with their intervals."""
    units: defaultdict[str, list[tuple[Pair, float]]] = defaultdict(list)
    for pair, score in scored.graded:
        units[groups[pair.question]].append((pair, score))
    strict, lenient = cut_offs(_cases(scored), cost)
    around = intervals([_case_rows(rows) for rows in units.values()], cost, seed)
    first, second = ((round(low, 3), round(high, 3)) for low, high in around)
    return Threshold(round(strict, 3), first), Threshold(round(lenient, 3), second)


def _cases(scored: Scored) -> list[Case]:
    return _case_rows(scored.graded)


def _case_rows(rows: Sequence[tuple[Pair, float]]) -> list[Case]:
    return by_question((pair.question, pair.label, score) for pair, score in rows)


def _units(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return what each question is drawn with: its group, or itself where there are too few groups to draw from."""
    by_group = {pair.question: pair.group for pair in pairs}
    return by_group if len({*by_group.values()}) >= _MIN_UNITS else {question: question for question in by_group}


def _strips(pairs: Sequence[Pair], refine: RefineSettings) -> list[Pair]:
    """Return one pair per strip: what the strip filter would be shown, under the label of its text.

    Not every strip of a helpful text helps; the best one does, and only the best of a question counts.
    """
    cut = cut_by(refine)
    return [
        Pair(pair.question, strip_text(pair.title, text[s.lead_start : s.lead_end], text[s.start : s.end]), pair.label)
        for pair in pairs
        for text in [pair.text]
        for s in cut(text)
    ]


def _mapped(scored: Scored, groups: dict[str, str], seed: int) -> list[float]:
    """Return every score as a probability by an isotonic map that saw nothing of its group."""
    units = sorted({*groups.values()})
    random.Random(seed).shuffle(units)
    fold = {unit: place % _FOLDS for place, unit in enumerate(units)}
    rows = [(score, pair.label, fold[groups[pair.question]]) for pair, score in scored.graded]
    maps = [rising_steps((score, label) for score, label, at in rows if at != k) for k in range(_FOLDS)]
    return [on_steps(maps[at], score) for score, _, at in rows]


def _trade_off(cases: Sequence[Case], cost: float) -> TradeOff:
    upper, lower = (round(cut, 3) for cut in cut_offs(cases, cost))
    at_upper, at_lower = errors(cases, upper), errors(cases, lower)
    rates = (round(rate, 4) for rate in (at_upper.alarms, at_upper.misses, at_lower.misses))
    return TradeOff(cost, upper, lower, *rates)


def _changing(scored: Scored, upper: float, lower: float, evaluator: EvaluatorSettings) -> dict[str, int]:
    by: defaultdict[str, list[float | None]] = defaultdict(list)
    for pair, score in zip(scored.pairs, scored.scores, strict=True):
        by[pair.question].append(score)
    return {
        way: changing(by.values(), shift, upper=upper, lower=lower, aggregate=evaluator.aggregate)
        for way, shift in (("up", SHIFT), ("down", -SHIFT))
    }


def _notes(graders: Graders, settings: Settings) -> list[str]:
    notes, aggregate = [], settings.evaluator.aggregate
    if graders.strips is None:
        notes.append("keep and sufficient are as configured: refine.filter llm picks strips without scoring them")
    if aggregate != "max":
        notes.append(f"evaluator.aggregate is {aggregate}: the cut-offs were found for max, the best score")
    return notes


def _settings(
    path: Path, rows: int, identity: Identity, settings: Settings, thresholds: dict[str, Threshold]
) -> dict[str, Any]:
    """Return the settings that put the cut-offs in force, with what they hold for."""
    use = settings.evaluator.use
    made = {
        **identity._asdict(),
        "data": f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}",
        "date": date.today().isoformat(),
        "rows": str(rows),
    }
    values: dict[str, Any] = {"scale": "unit"} | {name: threshold.value for name, threshold in thresholds.items()}
    values["calibration"] = {name: value for name, value in made.items() if value}
    block = use if use in EvaluatorSettings.model_fields else "custom"
    return {"evaluator": {"use": use, block: values}}
