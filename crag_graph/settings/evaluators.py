"""Who scores documents, and the cut-offs of each: they stand on different scales and never apply to one another."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from crag_graph.settings.base import Count, ImportPath, Section, Unit, read_off


class Calibration(Section):
    """What cut-offs were calibrated for, as `crag calibrate` writes it; all null: nobody says."""

    evaluator: str | None = None
    model: str | None = None
    prompt: str | None = None
    data: str | None = None
    date: str | None = None
    rows: str | None = None


class Thresholds(Section):
    """The cut-offs of one evaluator, on its own scale; inside the program always in [0, 1]."""

    upper: Unit
    lower: Unit
    keep: Unit
    sufficient: Unit
    calibration: Calibration = Calibration()

    @model_validator(mode="before")
    @classmethod
    def _read_scale(cls, data: Any) -> Any:
        """Convert values on the paper's scale (`scale: signed`, -1..1) to [0, 1], once."""
        if not isinstance(data, dict) or "scale" not in data:
            return data
        data = dict(data)
        scale = data.pop("scale")
        if scale not in ("unit", "signed"):
            raise ValueError(f"scale is {scale!r}; write unit (0..1) or signed (-1..1)")
        if scale == "signed":
            for key in {"upper", "lower", "keep", "sufficient"} & data.keys():
                data[key] = _from_signed(key, data[key])
        return data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.lower > self.upper:
            raise ValueError(f"lower ({self.lower}) is above upper ({self.upper}); write lower <= upper")
        return self


def _from_signed(key: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or not -1 <= number <= 1:
        raise ValueError(f"{key} is {value}; on the signed scale it lies in -1..1")
    return (number + 1) / 2


class LlmThresholds(Thresholds):
    """How a model grades, and its cut-offs."""

    upper: Unit = 0.7
    lower: Unit = 0.3
    keep: Unit = 0.25
    sufficient: Unit = 0.5
    batch_size: Annotated[int, Field(ge=1, le=50)] = 10
    one_pass: bool = False


class LocalThresholds(Thresholds):
    """The cut-offs of the local evaluator, and the file with its coefficients."""

    upper: Unit = 0.6
    lower: Unit = 0.1
    keep: Unit = 0.05
    sufficient: Unit = 0.4
    coefficients: str | None = None


class CrossEncoderThresholds(Thresholds):
    """A sequence-classification model, what its outputs mean, and its cut-offs."""

    upper: Unit = 0.8
    lower: Unit = 0.1
    keep: Unit = 0.1
    sufficient: Unit = 0.5
    model: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    activation: Literal["sigmoid", "softmax", "none"] = "sigmoid"
    output_scale: Literal["unit", "signed"] = "unit"
    label: str | None = None
    layout: Literal["pair", "joined"] = "pair"
    max_tokens: Annotated[int, Field(ge=32, le=32_768)] = 512
    batch_size: Count = 16


class NliThresholds(Thresholds):
    """A model for natural language inference, and its cut-offs."""

    upper: Unit = 0.8
    lower: Unit = 0.2
    keep: Unit = 0.2
    sufficient: Unit = 0.5
    model: str = "cross-encoder/nli-MiniLM2-L6-H768"
    max_tokens: Annotated[int, Field(ge=32, le=32_768)] = 512
    batch_size: Count = 16


class SimilarityThresholds(Thresholds):
    """The cut-offs of the cosine of question and text; they hold for the local embedder."""

    upper: Unit = 0.85
    lower: Unit = 0.65
    keep: Unit = 0.65
    sufficient: Unit = 0.75


class CustomThresholds(Thresholds):
    """The cut-offs of an evaluator given by import path."""

    upper: Unit = 0.7
    lower: Unit = 0.3
    keep: Unit = 0.25
    sufficient: Unit = 0.5


class PrefilterSettings(Section):
    """A cheap evaluator that decides the clear cases."""

    use: Literal["off", "local"] | ImportPath = "off"
    low: Unit = 0.02
    high: Unit = 0.98

    @model_validator(mode="before")
    @classmethod
    def _read_off(cls, data: Any) -> Any:
        return read_off(data)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high}); write low <= high")
        return self


class EvaluatorSettings(Section):
    """Who scores the documents, and how the scores become a verdict."""

    use: Literal["llm", "local", "cross_encoder", "nli", "similarity"] | ImportPath = "llm"
    aggregate: Literal["max", "mean", "top1"] = "max"
    llm: LlmThresholds = LlmThresholds()
    local: LocalThresholds = LocalThresholds()
    cross_encoder: CrossEncoderThresholds = CrossEncoderThresholds()
    nli: NliThresholds = NliThresholds()
    similarity: SimilarityThresholds = SimilarityThresholds()
    custom: CustomThresholds = CustomThresholds()
    prefilter: PrefilterSettings = PrefilterSettings()

    @property
    def thresholds(self) -> Thresholds:
        """The cut-offs of the evaluator in use."""
        found: Thresholds = getattr(self, self.use, self.custom)
        return found
