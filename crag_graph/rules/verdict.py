"""Scores → verdict (Yan et al., 2024, section 4.3, action trigger).

The graded scores are aggregated: the highest (default, as in the paper), their mean, or the first document's. At or
above `upper` the retrieval is *correct*, at or above `lower` *ambiguous*, below *incorrect*; both bounds are inclusive.
No documents: incorrect. Documents of which none could be graded: ambiguous, because an outage is not irrelevance.

Good documents are those graded at or above `lower`, and, unless the verdict is incorrect, the ungraded ones.

A question in parts has the verdict of its parts: correct when all are, incorrect when all are, else ambiguous.

>>> decide([0.9, 0.1, None], upper=0.7, lower=0.3)[0]
'correct'
>>> decide([], upper=0.7, lower=0.3)
('incorrect', 'nothing was retrieved')
"""

from collections.abc import Sequence
from typing import Literal

from crag_graph.state import Verdict

Aggregate = Literal["max", "mean", "top1"]


def decide(
    scores: Sequence[float | None], *, upper: float, lower: float, aggregate: Aggregate = "max"
) -> tuple[Verdict, str]:
    """Return the verdict on these scores (None: ungraded) and the sentence that explains it."""
    graded = [score for score in scores if score is not None]
    if not scores:
        return "incorrect", "nothing was retrieved"
    if not graded:
        return "ambiguous", f"none of {len(scores)} documents could be graded"
    value = {"max": max(graded), "mean": sum(graded) / len(graded), "top1": graded[0]}[aggregate]
    name = {"max": "best", "mean": "mean", "top1": "first"}[aggregate]
    of = f"{name} of {len(graded)} scores is {value:.2f}"
    if len(graded) < len(scores):
        of += f" ({len(scores) - len(graded)} ungraded)"
    if value >= upper:
        return "correct", f"{of}, at or above upper {upper:.2f}"
    if value >= lower:
        return "ambiguous", f"{of}, between lower {lower:.2f} and upper {upper:.2f}"
    return "incorrect", f"{of}, below lower {lower:.2f}"


def decide_parts(parts: Sequence[tuple[str, Verdict]]) -> tuple[Verdict, str]:
    """Return the verdict on a question from those on its parts, and the sentence that explains it.

    >>> decide_parts([("Price of X", "correct"), ("warranty of Y", "incorrect")])
    ('ambiguous', 'by part: Price of X: correct; warranty of Y: incorrect')
    """
    reason = "by part: " + "; ".join(f"{question}: {verdict}" for question, verdict in parts)
    verdicts = {verdict for _, verdict in parts}
    return verdicts.pop() if len(verdicts) == 1 else "ambiguous", reason


def is_good(score: float | None, verdict: Verdict, *, lower: float) -> bool:
    """Return whether a document with this score is kept."""
    return verdict != "incorrect" if score is None else score >= lower
