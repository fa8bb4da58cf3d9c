"""The query rewriter that asks a model. It sees the question and what was tried, never the text of documents."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from crag_graph.components.llm import Model, sound
from crag_graph.components.structured import JsonSchema, Method, StructuredModel
from crag_graph.errors import GenerationError
from crag_graph.prompts import Prompt, fence
from crag_graph.rules.compound import MAX_PARTS
from crag_graph.rules.query import canonical_query, clean_query
from crag_graph.rules.question import is_followup
from crag_graph.state import Turn

PARTS: JsonSchema = {
    "type": "object",
    "properties": {"parts": {"type": "array", "items": {"type": "string"}}},
    "required": ["parts"],
    "additionalProperties": False,
}


class LlmRewriter:
    """Turns a question into a search query, and a follow-up into a question that stands alone."""

    def __init__(
        self,
        model: Model,
        rewrite: Prompt,
        standalone: Prompt,
        decompose: Prompt,
        max_chars: int,
        method: Literal["auto"] | Method = "auto",
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._model = model
        self._rewrite = rewrite
        self._standalone = standalone
        self._decompose = decompose
        self._parts = StructuredModel(model, "parts", PARTS, method)
        self._max_chars = max_chars
        self._now = now

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:
        """Return one clean line that differs from every query in `tried`, as far as the model does as it is told."""
        marker, fenced = fence(question)
        messages = self._rewrite.messages(
            question=fenced,
            marker=marker,
            today=self._now().strftime("%A, %d %B %Y (%Z)"),
            tried="\n".join(f"- {query}" for query in tried),
            why=why,
            max_chars=str(self._max_chars),
        )
        answer = await self._model.ask(messages, GenerationError, "rewriter")
        return clean_query(sound(answer.text), self._max_chars)

    async def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """Return the question with what it needs from the history written out."""
        turns = "\n".join(f"{turn['role']}: {turn['content']}" for turn in history)
        marker, fenced = fence(turns)
        messages = self._standalone.messages(question=question, history=fenced, marker=marker)
        answer = await self._model.ask(messages, GenerationError, "rewriter")
        return clean_query(sound(answer.text), max(self._max_chars, 2 * len(question)))

    async def decompose(self, question: str) -> list[str]:
        """Return up to three questions that stand alone; the question itself, if a part leans on others."""
        marker, fenced = fence(question)
        messages = self._decompose.messages(question=fenced, marker=marker, max_parts=str(MAX_PARTS))
        answer = await self._parts.ask(messages, GenerationError, "rewriter")
        found = answer.get("parts")
        written = [part for part in found if isinstance(part, str)] if isinstance(found, list) else []
        parts = [clean_query(part, max(self._max_chars, 2 * len(question))) for part in written]
        distinct = list({canonical_query(part): part for part in parts if part}.values())[:MAX_PARTS]
        return distinct if len(distinct) > 1 and not any(map(is_followup, distinct)) else [question]
