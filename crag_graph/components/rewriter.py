"""The query rewriter that asks a model. It sees the question and what was tried, never the text of documents."""

from collections.abc import Callable, Sequence
from datetime import datetime

from crag_graph.components.llm import Model
from crag_graph.errors import GenerationError
from crag_graph.prompts import Prompt, fence
from crag_graph.rules.query import clean_query
from crag_graph.state import Turn


class LlmRewriter:
    """Turns a question into a search query, and a follow-up into a question that stands alone."""

    def __init__(
        self,
        model: Model,
        rewrite: Prompt,
        standalone: Prompt,
        max_chars: int,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._model = model
        self._rewrite = rewrite
        self._standalone = standalone
        self._max_chars = max_chars
        self._now = now

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:
        """Return one clean line that differs from every query in `tried`, as far as the model does as it is told."""
        marker, fenced = fence(question)
        messages = self._rewrite.messages(
            question=fenced,
            marker=marker,
            today=self._now().strftime("%A, %d %B %Y (%Z)"),
            tried="\n".join(f"- {query}" for query in tried) or "(nothing yet)",
            why=why,
            max_chars=str(self._max_chars),
        )
        answer = await self._model.ask(messages, GenerationError, "rewriter")
        return clean_query(answer.text, self._max_chars)

    async def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """Return the question with what it needs from the history written out."""
        turns = "\n".join(f"{turn['role']}: {turn['content']}" for turn in history)
        marker, fenced = fence(turns)
        messages = self._standalone.messages(question=question, history=fenced, marker=marker)
        answer = await self._model.ask(messages, GenerationError, "rewriter")
        return clean_query(answer.text, max(self._max_chars, 2 * len(question)))
