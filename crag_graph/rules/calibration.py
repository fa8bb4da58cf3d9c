"""Scores, labels and a cost → cut-offs.

A verdict is one per question, so questions are counted, not texts. Labelled texts tell two things about a question: the
best score of the texts that help (what it reaches when retrieval has found something) and the best score of those that
do not (what it reaches when retrieval has failed). Together they are one *case*.

A cut-off errs in two ways. An *alarm* is a question whose useless texts reach the cut-off, a *miss* one whose helpful
texts do not. What these cost differs by cut-off:

- the **strict** one (`upper`; `sufficient` for strips) is where evidence is trusted alone. An alarm there is a wrong
  "correct", a miss is a needless search, and the alarm hurts `cost` times as much.
- the **lenient** one (`lower`; `keep` for strips) is where evidence is thrown away. A miss there is evidence lost, an
  alarm is ballast that the next step can still drop, and the miss hurts `cost` times as much.

The cut-off is the one with the least loss over all cases. Between two scores all places are equally good, so the middle
is taken; among equally good gaps the highest for the strict and the lowest for the lenient cut-off. Hence the lenient
one never lies above the strict one, and a higher cost never brings the two closer together. The cost is counted as if
retrieval failed as often as it succeeded; who knows better multiplies it by failures per success.

>>> cases = by_question([("q", 1, 0.9), ("q", 0, 0.2), ("r", 1, 0.6), ("r", 0, 0.7), ("s", 0, 0.1)])
>>> cases
[Case(relevant=0.9, irrelevant=0.2), Case(relevant=0.6, irrelevant=0.7), Case(relevant=None, irrelevant=0.1)]
>>> cut_offs(cases, cost=3)
CutOffs(strict=0.8, lenient=0.4)
>>> errors(cases, 0.8)
Errors(alarms=0.0, misses=0.5)
"""

import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from crag_graph.errors import InputError
from crag_graph.rules.verdict import Aggregate, decide

Interval = tuple[float, float]


class Case(NamedTuple):
    """The best scores of one question, by texts that help and by texts that do not; None where it has none."""

    relevant: float | None
    irrelevant: float | None


class CutOffs(NamedTuple):
    """Where evidence is trusted alone, and where it is thrown away."""

    strict: float
    lenient: float


class Errors(NamedTuple):
    """Shares of the cases on the wrong side of a cut-off."""

    alarms: float  # of the useless bests: at or above
    misses: float  # of the helpful bests: below


def check_cost(cost: float) -> None:
    """Refuse a cost with which the lenient cut-off could lie above the strict one.

    Raises:
        InputError: it is below 1, or not a finite number.
    """
    if not 1 <= cost < math.inf:
        raise InputError(f"the cost is {cost}: a wrong correct hurts at least as much as a needless search; write >= 1")


def by_question(rows: Iterable[tuple[str, int, float]]) -> list[Case]:
    """Return one case per question, in order of appearance, from (question, label, score) of every text."""
    best: dict[str, list[float | None]] = {}
    for question, label, score in rows:
        bests = best.setdefault(question, [None, None])
        before = bests[label]
        bests[label] = score if before is None else max(before, score)
    return [Case(relevant, irrelevant) for irrelevant, relevant in best.values()]


def cut_offs(cases: Sequence[Case], cost: float) -> CutOffs:
    """Return the strict and the lenient cut-off of least loss.

    Raises:
        InputError: see `check_cost`.
    """
    check_cost(cost)
    more, less = float(cost).as_integer_ratio()  # whole numbers: losses are compared without rounding
    return CutOffs(_least_loss(cases, alarm=more, miss=less)[-1], _least_loss(cases, alarm=less, miss=more)[0])


def _least_loss(cases: Sequence[Case], *, alarm: int, miss: int) -> list[float]:
    """Return the middles of all gaps between scores in which a cut-off has the least loss, rising."""
    changes = sorted(
        [(case.relevant, miss) for case in cases if case.relevant is not None]
        + [(case.irrelevant, -alarm) for case in cases if case.irrelevant is not None]
    )
    loss = least = 0  # relative to a cut-off that lets everything pass
    below = 0.0
    places: list[float] = []
    for score, same in groupby(changes, key=lambda change: change[0]):
        if loss <= least:
            places = [*(places if loss == least else []), _middle(below, score)]
            least = loss
        loss += sum(change for _, change in same)
        below = score
    if below < 1 and loss <= least:
        places = [*(places if loss == least else []), _middle(below, 1.0)]
    return places or [1.0]


def _middle(below: float, score: float) -> float:
    """Return a cut-off that `score` reaches and `below` does not."""
    middle = (below + score) / 2
    return middle if middle > below else score


def errors(cases: Sequence[Case], cut: float) -> Errors:
    """Return how often a cut-off errs; 0 where there is nothing to err about."""
    useless = [case.irrelevant >= cut for case in cases if case.irrelevant is not None]
    helpful = [case.relevant < cut for case in cases if case.relevant is not None]
    return Errors(sum(useless) / max(len(useless), 1), sum(helpful) / max(len(helpful), 1))


def intervals(units: Sequence[Sequence[Case]], cost: float, seed: int, times: int = 300) -> tuple[Interval, Interval]:
    """Return where the middle 95% of the cut-offs lie when whole units are drawn again with replacement (bootstrap).

    A unit holds the cases that depend on each other, such as the questions about one article.
    """
    draw = random.Random(seed)
    drawn = [cut_offs(list(chain.from_iterable(draw.choices(units, k=len(units)))), cost) for _ in range(times)]
    return _middle_95([cut.strict for cut in drawn]), _middle_95([cut.lenient for cut in drawn])


def _middle_95(values: Sequence[float]) -> Interval:
    ranked = sorted(values)
    last = len(ranked) - 1
    return ranked[round(0.025 * last)], ranked[round(0.975 * last)]


def changing(
    scores: Iterable[Sequence[float | None]], shift: float, *, upper: float, lower: float, aggregate: Aggregate = "max"
) -> int:
    """Return how many questions get another verdict when all their scores move by `shift`, kept in [0, 1].

    >>> changing([[0.68, None], [0.1]], 0.05, upper=0.7, lower=0.3)
    1
    """

    def verdict(values: Sequence[float | None], moved: float) -> str:
        shifted = [None if value is None else min(max(value + moved, 0.0), 1.0) for value in values]
        return decide(shifted, upper=upper, lower=lower, aggregate=aggregate)[0]

    return sum(verdict(values, 0.0) != verdict(values, shift) for values in scores)


def rising_steps(rows: Iterable[tuple[float, int]]) -> list[tuple[float, float]]:
    """Return the steps (from this score on, this probability) that fit (score, label) best and never fall.

    Isotonic regression by pooling neighbours that are out of order (Ayer et al., 1955).

    >>> rising_steps([(0.1, 0), (0.4, 1), (0.5, 0), (0.9, 1)])
    [(0.1, 0.0), (0.4, 0.5), (0.9, 1.0)]
    """
    steps: list[tuple[float, int, int]] = []  # first score, relevant, all
    for score, same in groupby(sorted(rows), key=lambda row: row[0]):
        labels = [label for _, label in same]
        step = (score, sum(labels), len(labels))
        while steps and steps[-1][1] * step[2] >= step[1] * steps[-1][2]:
            first, relevant, count = steps.pop()
            step = (first, relevant + step[1], count + step[2])
        steps.append(step)
    return [(first, relevant / count) for first, relevant, count in steps]


def on_steps(steps: Sequence[tuple[float, float]], score: float) -> float:
    """Return the probability at a score; below the first step that of the first."""
    place = bisect_right(steps, score, key=lambda step: step[0])
    return steps[max(place - 1, 0)][1]
