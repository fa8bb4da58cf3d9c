"""From outcomes to figures: one ratio or quantile per metric, with a bootstrap interval, per class and overall.

A figure that has nothing to be counted over (evidence recall of questions nobody can answer) is left out, never zero.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from crag_graph.measure.bench.data import PLACES, Case
from crag_graph.measure.bench.metrics import answer_match, holds, right_action, token_f1
from crag_graph.measure.bench.outcome import Outcome

_RESAMPLES = 1000
_CONFIDENCE = 0.95
Terms = tuple[float, float] | None  # what one question adds to numerator and denominator; None: it does not count
Better = Literal["higher", "lower"]


class Figure(TypedDict):
    """One measured figure, its 95% bootstrap interval and the number of questions behind it."""

    value: float
    low: float
    high: float
    n: int


Ran = tuple[Case, Outcome, int]  # the question, what became of it, and the context tokens of plain RAG for it
Figures = dict[str, Figure]

RATIOS: dict[str, tuple[Better, Callable[[Case, Outcome, int], Terms]]] = {
    "route_accuracy": ("higher", lambda c, o, _: (right_action(c.place, o["verdict"], o["abstained"]), 1)),
    "false_correct": ("lower", lambda c, o, _: None if c.place == "index" else (o["verdict"] == "correct", 1)),
    "needless_search": ("lower", lambda c, o, _: (bool(o["web_queries"]), 1) if c.place == "index" else None),
    "retrieval_recall": ("higher", lambda c, o, _: (o["retrieved"], 1) if c.place == "index" else None),
    "web_recall": ("higher", lambda c, o, _: (o["found_on_web"], 1) if c.place == "web" else None),
    "evidence_recall": ("higher", lambda c, o, _: _answerable(c, holds(o["context"], c.golds))),
    "answer_match": ("higher", lambda c, o, _: _answerable(c, answer_match(o["answer"], c.golds))),
    "token_f1": ("higher", lambda c, o, _: _answerable(c, token_f1(o["answer"], c.golds))),
    "false_answer": ("lower", lambda c, o, _: (o["grounded"], 1) if c.place == "nowhere" else None),
    "needless_abstention": ("lower", lambda c, o, _: _answerable(c, o["abstained"])),
    "context_tokens": ("lower", lambda _, o, __: (o["context_tokens"], 1)),
    "context_ratio": ("lower", lambda _, o, plain: (o["context_tokens"], plain)),
    "model_calls": ("lower", lambda _, o, __: (o["usage"]["model_calls"], 1)),
    "tokens_in": ("lower", lambda _, o, __: (o["usage"]["tokens_in"], 1)),
    "tokens_out": ("lower", lambda _, o, __: (o["usage"]["tokens_out"], 1)),
}
QUANTILES: dict[str, float] = {"seconds_p50": 0.5, "seconds_p95": 0.95}


def better(metric: str) -> Better:
    """Return which way a metric should move.

    >>> better("route_accuracy"), better("seconds_p95")
    ('higher', 'lower')
    """
    return "lower" if metric in QUANTILES else RATIOS[metric][0]


def summarise(ran: Sequence[Ran], seed: int) -> dict[str, Figures]:
    """Return the figures overall, of answerable questions, and of every class that has a question."""
    groups: dict[str, list[Ran]] = {
        "overall": list(ran),
        "answerable": [each for each in ran if each[0].place != "nowhere"],
        **{place: [each for each in ran if each[0].place == place] for place in PLACES},
    }
    return {name: _figures(group, seed) for name, group in groups.items() if group}


def _figures(ran: Sequence[Ran], seed: int) -> Figures:
    found: Figures = {}
    for name, (_, terms) in RATIOS.items():
        pairs = [pair for each in ran if (pair := terms(*each)) is not None]
        if sum(below for _, below in pairs):
            found[name] = ratio([float(above) for above, _ in pairs], [float(below) for _, below in pairs], seed)
    seconds = [each[1]["seconds"] for each in ran]
    return found | {name: quantile(seconds, share, seed) for name, share in QUANTILES.items()}


def ratio(above: Sequence[float], below: Sequence[float], seed: int) -> Figure:
    """Return sum(above) / sum(below) with the interval of resampled questions.

    >>> figure = ratio([1, 0, 1, 1], [1, 1, 1, 1], seed=7)
    >>> figure["value"], figure["low"] <= 0.75 <= figure["high"], figure["n"]
    (0.75, True, 4)
    """
    import numpy

    tops, bottoms = numpy.asarray(above, dtype=float), numpy.asarray(below, dtype=float)
    drawn = _drawn(len(tops), seed)
    sums = bottoms[drawn].sum(axis=1)
    values = (tops[drawn].sum(axis=1)[sums > 0] / sums[sums > 0]).tolist()
    return _figure(float(tops.sum() / bottoms.sum()), values, len(tops))


def quantile(values: Sequence[float], share: float, seed: int) -> Figure:
    """Return a quantile with the interval of resampled questions.

    >>> quantile([1.0, 2.0, 3.0], 0.5, seed=7)["value"]
    2.0
    """
    import numpy

    all_values = numpy.asarray(values, dtype=float)
    resampled = numpy.quantile(all_values[_drawn(len(values), seed)], share, axis=1).tolist()
    return _figure(float(numpy.quantile(all_values, share)), resampled, len(values))


def scores(outcomes: Mapping[str, Outcome], key: Literal["documents", "strips"]) -> dict[str, list[float]]:
    """Return the scores given to documents or strips, by whether they hold the answer."""
    found: dict[str, list[float]] = {"relevant": [], "other": []}
    for outcome in outcomes.values():
        for scored in outcome[key]:
            if scored["score"] is not None:
                found["relevant" if scored["relevant"] else "other"].append(scored["score"])
    return found


def _answerable(case: Case, value: float) -> Terms:
    return None if case.place == "nowhere" else (value, 1)


def _drawn(count: int, seed: int) -> Any:
    import numpy

    return numpy.random.default_rng(seed).integers(0, count, size=(_RESAMPLES, count))


def _figure(value: float, resampled: Sequence[float], count: int) -> Figure:
    import numpy

    tail = (1 - _CONFIDENCE) / 2
    low, high = numpy.quantile(resampled, [tail, 1 - tail])
    return Figure(value=value, low=float(low), high=float(high), n=count)
