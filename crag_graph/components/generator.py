"""The generator that asks a model: it streams, cites `[n]`, and abstains when the evidence does not answer."""

from collections.abc import AsyncIterator, Sequence

from crag_graph.components.llm import Model
from crag_graph.errors import GenerationError
from crag_graph.prompts import ABSTAIN, Prompt, fence
from crag_graph.rules.fusion import render
from crag_graph.state import Evidence


class LlmGenerator:
    """Writes an answer from numbered evidence and nothing else."""

    def __init__(self, model: Model, prompt: Prompt) -> None:
        self._model = model
        self._prompt = prompt

    async def generate(
        self, question: str, evidence: Sequence[Evidence], missing: Sequence[str] = ()
    ) -> AsyncIterator[str]:
        """Yield the answer in pieces; `ABSTAIN` alone says that the evidence does not answer."""
        marker, fenced = fence(render(evidence))
        messages = self._prompt.messages(
            question=question,
            evidence=fenced,
            missing="\n".join(f"- {part}" for part in missing) or "(none known)",
            marker=marker,
            abstain=ABSTAIN,
        )
        async for piece in self._model.stream(messages, GenerationError, "generator"):
            yield piece
