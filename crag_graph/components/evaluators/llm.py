"""Grading by a model: documents get scores, strips a yes or no; many texts in one call, matched by id."""

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crag_graph.components.llm import Model
from crag_graph.components.structured import JsonSchema, StructuredModel
from crag_graph.errors import EvaluationError
from crag_graph.prompts import Prompt, fence
from crag_graph.settings import LlmSettings
from crag_graph.state import Grade

GRADES: JsonSchema = {
    "type": "object",
    "properties": {
        "grades": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "reason": {"type": "string"},
                    "score": {"type": "number"},
                },
                "required": ["id", "reason", "score"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["grades"],
    "additionalProperties": False,
}
HELPFUL: JsonSchema = {
    "type": "object",
    "properties": {"helpful_ids": {"type": "array", "items": {"type": "integer"}}},
    "required": ["helpful_ids"],
    "additionalProperties": False,
}
Reader = Callable[[dict[str, Any], int], Mapping[int, Grade]]


class LlmEvaluator:
    """Scores documents, or picks strips, with a chat model: one call per batch of texts.

    A text the model leaves out, or gives an impossible score, is asked about once more and is then *ungraded*. A batch
    that is refused, filtered or cut off is asked again in two halves, so that one text does not spoil the rest.
    """

    def __init__(
        self, model: Model, prompt: Prompt, schema: JsonSchema, read: Reader, batch_size: int, method: Any = "auto"
    ) -> None:
        self._structured = StructuredModel(model, "grades" if schema is GRADES else "helpful", schema, method)
        self._prompt = prompt
        self._read = read
        self._batch_size = batch_size

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order."""
        batches = [range(i, min(i + self._batch_size, len(texts))) for i in range(0, len(texts), self._batch_size)]
        answers = await asyncio.gather(
            *(self._batch(question, texts, batch) for batch in batches), return_exceptions=True
        )
        grades: list[Grade] = []
        failures: list[EvaluationError] = []
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, EvaluationError):
                failures.append(answer)
                grades += [Grade(score=None, reason=str(answer))] * len(batch)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                grades += answer
        if failures and len(failures) == len(batches):
            raise failures[0]
        return grades

    async def _batch(self, question: str, texts: Sequence[str], batch: range) -> list[Grade]:
        found = await self._ask_or_halve(question, texts, list(batch))
        again = [i for i in batch if i not in found or found[i]["score"] is None]
        if again:
            try:
                found |= await self._ask(question, texts, again)
            except EvaluationError:
                if len(again) == len(batch):
                    raise
        return [found.get(i) or Grade(score=None, reason="the model left it out") for i in batch]

    async def _ask_or_halve(self, question: str, texts: Sequence[str], ids: list[int]) -> dict[int, Grade]:
        try:
            return await self._ask(question, texts, ids)
        except EvaluationError as error:
            if len(ids) == 1 or not error.too_much:
                raise
        halves = ids[: len(ids) // 2], ids[len(ids) // 2 :]
        found: dict[int, Grade] = {}
        for half in halves:
            try:
                found |= await self._ask(question, texts, half)
            except EvaluationError as error:
                found |= {i: Grade(score=None, reason=str(error)) for i in half}
        return found

    async def _ask(self, question: str, texts: Sequence[str], ids: Sequence[int]) -> dict[int, Grade]:
        numbered = "\n\n".join(f"[{position}]\n{texts[i]}" for position, i in enumerate(ids, 1))
        marker, fenced = fence(numbered)
        messages = self._prompt.messages(question=question, texts=fenced, count=str(len(ids)), marker=marker)
        answer = await self._structured.ask(messages, EvaluationError, "grader")
        by_position = self._read(answer, len(ids))
        return {i: by_position[position] for position, i in enumerate(ids, 1) if position in by_position}


def grader(model: Model, prompt: Prompt, batch_size: int, settings: LlmSettings) -> LlmEvaluator:
    """Return the evaluator that gives every document a score and a reason."""
    return LlmEvaluator(model, prompt, GRADES, read_grades, batch_size, settings.structured_output)


def strip_filter(model: Model, prompt: Prompt, batch_size: int, settings: LlmSettings) -> LlmEvaluator:
    """Return the evaluator that says of every strip whether it helps: 1 or 0."""
    return LlmEvaluator(model, prompt, HELPFUL, read_helpful, batch_size, settings.structured_output)


def read_grades(answer: Mapping[str, Any], count: int) -> dict[int, Grade]:
    """Return the first grade for each id in 1..count; strangers and repeats are ignored, bad scores are ungraded."""
    grades: dict[int, Grade] = {}
    items = answer.get("grades")
    for item in items if isinstance(items, list) else []:
        number = whole(item.get("id")) if isinstance(item, dict) else None
        if number is None or not 1 <= number <= count or number in grades:
            continue
        score = read_score(item.get("score"))
        reason = str(item.get("reason") or "")[:300]
        if score is None:
            reason = f"the model's score {item.get('score')!r} is not in 0..1"
        grades[number] = Grade(score=score, reason=reason)
    return grades


def read_helpful(answer: Mapping[str, Any], count: int) -> dict[int, Grade]:
    """Return 1 for every id the model named and 0 for all others."""
    ids = answer.get("helpful_ids")
    if not isinstance(ids, list):
        return {}
    named = {whole(number) for number in ids}
    return {
        i: Grade(score=1.0, reason="picked") if i in named else Grade(score=0.0, reason="not picked")
        for i in range(1, count + 1)
    }


def read_score(value: Any) -> float | None:
    """Return a score in [0, 1]; None for what cannot honestly be read as one.

    Numeric strings are read, a percent sign divides by 100, and slight overshoot (up to 0.25) is clamped. 85, NaN,
    "8/10" or a truth value might mean anything and are not rescaled.

    >>> [read_score(value) for value in (0.5, "0.85", "85%", 1.2, -0.1, 85, "8/10", float("nan"), True)]
    [0.5, 0.85, 0.85, 1.0, 0.0, None, None, None, None]
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([+-]?\d*[.,]?\d+)\s*(%?)\s*", value)
        if not match:
            return None
        value = float(match[1].replace(",", ".")) / (100 if match[2] else 1)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return min(max(float(value), 0.0), 1.0) if -0.25 <= value <= 1.25 else None


def whole(value: Any) -> int | None:
    """Return an id as a whole number; None for anything else."""
    if isinstance(value, str) and value.strip().strip("[]").isdecimal():
        return int(value.strip().strip("[]"))
    return value if isinstance(value, int) and not isinstance(value, bool) else None
