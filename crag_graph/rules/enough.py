"""Whether the kept strips can carry an answer; if not, the graph corrects again or abstains.

With a *correct* verdict any kept strip will do: its document was judged to answer. Otherwise at least one strip must
stand on its own: kept by its score and at or above `sufficient`, or ungraded. A strip that is only kept as the best of
its document does not count.

>>> is_enough([(0.3, False)], "ambiguous", sufficient=0.5), is_enough([(0.3, True)], "correct", sufficient=0.5)
(False, True)
"""

from collections.abc import Iterable

from crag_graph.state import Verdict


def is_enough(kept: Iterable[tuple[float | None, bool]], verdict: Verdict, *, sufficient: float) -> bool:
    """Decide from (score, flagged) of every kept strip."""
    kept = list(kept)
    if verdict == "correct":
        return bool(kept)
    return any(not flagged and (score is None or score >= sufficient) for score, flagged in kept)
