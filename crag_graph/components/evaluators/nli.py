"""Grading by natural language inference: does the text entail what is asked about?"""

import math
from collections.abc import Sequence

from crag_graph.components.evaluators.cross_encoder import softmax
from crag_graph.components.evaluators.pair_model import Outputs, PairModel
from crag_graph.errors import ConfigurationError
from crag_graph.notices import notice
from crag_graph.settings import NliThresholds
from crag_graph.state import Grade

_SETTING = "evaluator.nli.model"


class NliEvaluator:
    """Scores by the probability that the text (premise) entails the question (hypothesis).

    Made for claims, as in fact checking: a question states nothing, so models trained on claims are less sure about it.
    A text that contradicts the claim scores low, and its grade says so: "contradicts 0.93: sources disagree". A text
    longer than the model reads gets the score of its best window, a blank one scores 0.
    """

    def __init__(self, settings: NliThresholds) -> None:
        """Load the model and find its labels.

        Raises:
            ConfigurationError: the extra or the model is missing, or no label of it means entailment.
        """
        self._model = PairModel(
            settings.model, _SETTING, max_tokens=settings.max_tokens, batch_size=settings.batch_size
        )
        labels = self._model.labels
        entails = _find(labels, "entail")
        if entails is None or len(labels) == 1:
            raise ConfigurationError(
                f"{_SETTING}: {settings.model} has no label for entailment beside another, but {', '.join(labels)}: "
                "name a model for natural language inference, or use evaluator.use: cross_encoder"
            )
        self._entails = entails
        self._contradicts = _find(labels, "contradict")

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order."""
        return [self._grade(rows) for rows in await self._model.outputs(question, texts, text_first=True)]

    def _grade(self, rows: Outputs) -> Grade:
        if not rows:
            return Grade(score=0.0, reason="The text is empty.")
        if not all(map(math.isfinite, (value for row in rows for value in row))):
            return Grade(score=None, reason="the model's output is not a number")
        probabilities = [softmax(row) for row in rows]
        entails = max(row[self._entails] for row in probabilities)
        contradicts = max(row[self._contradicts] for row in probabilities) if self._contradicts is not None else 0.0
        if contradicts > max(entails, 0.5):
            notice(f"sources disagree: a text contradicts what was asked ({contradicts:.2f})")
            return Grade(score=entails, reason=f"contradicts {contradicts:.2f}: sources disagree")
        return Grade(score=entails, reason=f"entails {entails:.2f}")


def _find(labels: Sequence[str], word: str) -> int | None:
    """Return the place of the label that starts with a word, in any case; "not_entailment" does not."""
    return next((place for place, label in enumerate(labels) if label.lower().startswith(word)), None)
