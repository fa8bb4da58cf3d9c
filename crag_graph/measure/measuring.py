"""How well the evaluator in use tells the texts that help from those that do not, on labelled pairs."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crag_graph.errors import EvaluationError
from crag_graph.measure.pairs import Metrics, Pair, measure
from crag_graph.protocols import Evaluator
from crag_graph.settings import Thresholds
from crag_graph.state import Grade

Progress = Callable[[int, int], None]  # pairs done, pairs in all
_AT_ONCE = 8  # questions in flight; the model client has its own limit, and a local model gains nothing from more


@dataclass(frozen=True)
class Scored:
    """Pairs and their scores, in the same order; None: ungraded."""

    pairs: Sequence[Pair]
    scores: Sequence[float | None]
    seconds: float

    @property
    def graded(self) -> list[tuple[Pair, float]]:
        """The pairs that have a score."""
        return [(pair, score) for pair, score in zip(self.pairs, self.scores, strict=True) if score is not None]


async def score_pairs(evaluator: Evaluator, pairs: Sequence[Pair], progress: Progress | None = None) -> Scored:
    """Score every pair as the graph does: all texts of a question in one call, each under its title.

    Texts that come again are not computed again where the evaluator remembers them, as in the running application.

    Raises:
        EvaluationError: not one pair could be graded; a question that fails on its own is ungraded.
    """
    by_question: defaultdict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        by_question[pair.question].append(place)
    grades: list[Grade] = [Grade(score=None, reason="")] * len(pairs)
    limit, done = asyncio.Semaphore(_AT_ONCE), 0

    async def grade(question: str, places: list[int]) -> None:
        nonlocal done
        async with limit:
            found = await _grades(evaluator, question, [pairs[place].passage for place in places])
        for place, one in zip(places, found, strict=True):
            grades[place] = one
        done += len(places)
        if progress:
            progress(done, len(pairs))

    begun = time.perf_counter()
    await asyncio.gather(*(grade(question, places) for question, places in by_question.items()))
    seconds = time.perf_counter() - begun
    if all(one["score"] is None for one in grades):
        raise EvaluationError(f"not one of {len(pairs)} pairs was graded: {grades[0]['reason']}", component="evaluator")
    return Scored(pairs, [one["score"] for one in grades], seconds)


async def _grades(evaluator: Evaluator, question: str, texts: Sequence[str]) -> list[Grade]:
    try:
        return await evaluator.score(question, texts)
    except EvaluationError as error:
        return [Grade(score=None, reason=str(error)) for _ in texts]


def figures(scored: Scored, cut: Thresholds) -> dict[str, Any]:
    """Return the figures of one file; ungraded pairs are counted apart and enter no other figure.

    `accuracy` and `balanced_accuracy` take a text as relevant at or above `upper`, where it is trusted without a
    search; `at_lower` holds the same two at or above `lower`, where it is kept. `auc` is None with one label only.
    """
    labels = [pair.label for pair, _ in scored.graded]
    scores = [score for _, score in scored.graded]
    at_upper, at_lower = measure(labels, scores, cut.upper), measure(labels, scores, cut.lower)
    return {
        **_plain(at_upper),
        "pairs": len(scored.pairs),
        "ungraded": len(scored.pairs) - len(scores),
        "relevant": sum(pair.label for pair in scored.pairs),
        "ms_per_pair": round(1000 * scored.seconds / len(scored.pairs), 2),
        "at_lower": {name: _plain(at_lower)[name] for name in ("accuracy", "balanced_accuracy")},
    }


def _plain(metrics: Metrics) -> dict[str, Any]:
    """Return the figures rounded; JSON has no nan."""
    return {name: None if math.isnan(value) else round(value, 4) for name, value in asdict(metrics).items()}
