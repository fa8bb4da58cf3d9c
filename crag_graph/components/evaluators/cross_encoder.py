"""Grading by a model that reads question and text together: rerankers, classifiers, and the paper's T5."""

import math
from collections.abc import Sequence

from crag_graph.components.evaluators.pair_model import Outputs, PairModel
from crag_graph.errors import ConfigurationError
from crag_graph.settings import CrossEncoderThresholds
from crag_graph.state import Grade

_SETTING = "evaluator.cross_encoder"


class CrossEncoderEvaluator:
    """Scores with any sequence-classification model; what its outputs mean is said in the settings.

    A reranker has one output for `sigmoid`, a classifier has one per label for `softmax`, a regression towards ±1 (the
    paper's section 4.2) is `none` on the `signed` scale. A text longer than the model reads gets the score of its best
    window, a blank one scores 0.
    """

    def __init__(self, settings: CrossEncoderThresholds) -> None:
        """Load the model.

        Raises:
            ConfigurationError: the extra or the model is missing, or activation and outputs do not go together.
        """
        self._settings = settings
        self._model = PairModel(
            settings.model, f"{_SETTING}.model", max_tokens=settings.max_tokens, batch_size=settings.batch_size
        )
        self._column = _column(settings, self._model.labels)

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order."""
        outputs = await self._model.outputs(question, texts, layout=self._settings.layout)
        return [self._grade(rows) for rows in outputs]

    def _grade(self, rows: Outputs) -> Grade:
        if not rows:
            return Grade(score=0.0, reason="The text is empty.")
        if not all(map(math.isfinite, (value for row in rows for value in row))):
            return Grade(score=None, reason="the model's output is not a number")
        activation, scale = self._settings.activation, self._settings.output_scale
        score, raw = max((unit_score(row, activation, scale, self._column), row[self._column]) for row in rows)
        where = f" in the best of {len(rows)} windows" if len(rows) > 1 else ""
        return Grade(score=score, reason=f"model output {raw:.2f}{where}")


def unit_score(row: Sequence[float], activation: str, scale: str, column: int = 0) -> float:
    """Map the outputs for one text to a score in [0, 1].

    >>> unit_score([0.0], "sigmoid", "unit"), unit_score([1.0, 1.0], "softmax", "unit", 1)
    (0.5, 0.5)
    >>> [unit_score([x], "none", "signed") for x in (-1.0, 0.0, 1.02)]
    [0.0, 0.5, 1.0]
    """
    value = row[column]
    if activation == "sigmoid":
        value = (1 + math.tanh(value / 2)) / 2
    elif activation == "softmax":
        value = softmax(row)[column]
    if scale == "signed":
        value = (value + 1) / 2
    return min(max(value, 0.0), 1.0)


def softmax(row: Sequence[float]) -> list[float]:
    """Return the outputs as probabilities that sum to 1."""
    highest = max(row)
    powers = [math.exp(value - highest) for value in row]
    return [power / sum(powers) for power in powers]


def _column(settings: CrossEncoderThresholds, labels: Sequence[str]) -> int:
    """Return the place of the output that means relevant."""
    named = f"{_SETTING}.activation is {settings.activation}, but {settings.model}"
    if settings.activation != "softmax" and len(labels) != 1:
        raise ConfigurationError(f"{named} has {len(labels)} outputs ({', '.join(labels)}): write softmax")
    if settings.activation == "softmax" and len(labels) == 1:
        raise ConfigurationError(f"{named} has one output: write sigmoid, or none for a regression")
    if settings.label is None:
        return len(labels) - 1
    if settings.label not in labels:
        raise ConfigurationError(f"{_SETTING}.label: {settings.model} has no {settings.label}, but {', '.join(labels)}")
    return labels.index(settings.label)
