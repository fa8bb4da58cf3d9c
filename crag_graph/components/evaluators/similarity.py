"""Grading by the retriever's own measure: how near question and text lie in the space of the embedder."""

from collections.abc import Sequence
from operator import mul

from crag_graph.components.evaluators.windows import windows
from crag_graph.errors import EvaluationError, RetrievalError
from crag_graph.protocols import Embedder
from crag_graph.state import Grade

_READ_WHOLE = 1_200  # characters: about what small embedders read, and more than a chunk of default size with its title


class SimilarityEvaluator:
    """Scores by the cosine of question and text, mapped from -1..1 to [0, 1] as the index does.

    It costs nothing for retrieved chunks, whose vectors the embedder remembers, and works with any embedder. But it is
    the measure by which the retriever already chose: it cannot correct the retriever, it only says how sure that one
    was. Nearness is about the topic, so a neighbouring passage without the answer scores nearly as high; the scale is
    the embedder's own (scores crowd above 0.5), so the cut-offs need calibrating for each embedder.

    A longer text gets the score of its best window, a blank one scores 0.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order.

        Raises:
            EvaluationError: the embedder failed.
        """
        parts = [windows(text, lambda piece: len(piece) <= _READ_WHOLE) for text in texts]
        pieces = [piece for part in parts for piece in part]
        try:
            asked, *vectors = await self._embedder.embed([question, *pieces])
        except RetrievalError as error:
            raise EvaluationError(str(error), component="similarity", transient=error.transient) from error
        cosines = iter([sum(map(mul, asked, vector)) for vector in vectors])
        return [_grade([next(cosines) for _ in part]) for part in parts]


def _grade(cosines: Sequence[float]) -> Grade:
    if not cosines:
        return Grade(score=0.0, reason="The text is empty.")
    best = max(cosines)
    where = f" in the best of {len(cosines)} windows" if len(cosines) > 1 else ""
    return Grade(score=min(max((1 + best) / 2, 0.0), 1.0), reason=f"cosine {best:.2f} with the question{where}")
