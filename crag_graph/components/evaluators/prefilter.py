"""A cheap evaluator decides the clear cases; only what it is unsure about goes to the costly one."""

from collections.abc import Sequence

from crag_graph.protocols import Evaluator
from crag_graph.state import Grade


class Prefiltered:
    """Grades by `cheap` below `low` (as 0) and above `high` (as 1), and by `costly` in between.

    The clear grades are 0 and 1 because the scores of two evaluators have no common scale: a probability of 0.97 from
    one says nothing about the 0.7 that is enough for the other.
    """

    def __init__(self, cheap: Evaluator, costly: Evaluator, low: float, high: float) -> None:
        self._cheap = cheap
        self._costly = costly
        self._low = low
        self._high = high

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order."""
        grades = [self._clear(grade) for grade in await self._cheap.score(question, texts)]
        unsure = [i for i, grade in enumerate(grades) if grade is None]
        judged = await self._costly.score(question, [texts[i] for i in unsure]) if unsure else []
        answered = iter(judged)
        return [next(answered) if grade is None else grade for grade in grades]

    def _clear(self, grade: Grade) -> Grade | None:
        score = grade["score"]
        if score is None or self._low <= score <= self._high:
            return None
        said = f"clear to the prefilter at {score:.2f}: {grade['reason']}"
        return Grade(score=1.0 if score > self._high else 0.0, reason=said)
