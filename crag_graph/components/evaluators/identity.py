"""Whose scores these are: cut-offs found on the scores of one evaluator, model and prompt mean nothing for another."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from crag_graph.components.evaluators.local import SHIPPED
from crag_graph.settings import LocalThresholds, Settings


class Identity(NamedTuple):
    """What decides the scale of an evaluator's scores; empty where there is no such thing, or it cannot be known."""

    evaluator: str  # as in `evaluator.use`
    model: str
    prompt: str  # id, which changes with the wording


def identify(settings: Settings, prompt: str) -> Identity:
    """Return who scores under these settings; `prompt` is the id of the grading prompt in use, or empty."""
    use, block = settings.evaluator.use, settings.evaluator.thresholds
    if use == "llm":
        return Identity(use, settings.llm.small_model or settings.llm.model, prompt)
    if isinstance(block, LocalThresholds):
        return Identity(use, _coefficients(Path(block.coefficients) if block.coefficients else SHIPPED), "")
    if use == "similarity":
        embeddings = settings.embeddings
        return Identity(use, embeddings.openai.model if embeddings.use == "openai" else embeddings.use, "")
    return Identity(use, str(getattr(block, "model", "")), "")


def calibration_mismatch(settings: Settings, prompt: str) -> str | None:
    """Return one sentence when the cut-offs in force were calibrated for other scores than those in use, else None."""
    recorded = settings.evaluator.thresholds.calibration
    differing = [
        f"{part} {was} (in use: {now or 'none'})"
        for part, now in identify(settings, prompt)._asdict().items()
        if (was := getattr(recorded, part)) and was != now
    ]
    if not differing:
        return None
    return f"the thresholds were calibrated for {', '.join(differing)}: run `crag calibrate` again"


def _coefficients(path: Path) -> str:
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
