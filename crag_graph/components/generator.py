"""Generators that ask a model: from evidence, streaming and citing `[n]`; or, where that is asked for, from memory."""

from collections.abc import AsyncIterator, Sequence

from crag_graph.components.llm import Model
from crag_graph.errors import GenerationError
from crag_graph.prompts import ABSTAIN, Prompt, fence
from crag_graph.rules.fusion import render
from crag_graph.state import Evidence

_THINK = "<think>"


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
            missing="\n".join(f"- {part}" for part in missing),
            marker=marker,
            abstain=ABSTAIN,
        )
        said = False
        async for piece in past_thinking(self._model.stream(messages, GenerationError, "generator")):
            said = said or bool(piece.strip())
            yield piece
        if not said:
            raise GenerationError("the model thought, but did not answer", component="generator", transient=True)


class UnsupportedGenerator:
    """Answers from what the model remembers; whoever uses it marks the answer as not grounded."""

    def __init__(self, model: Model, prompt: Prompt) -> None:
        self._model = model
        self._prompt = prompt

    async def generate(
        self,
        question: str,
        evidence: Sequence[Evidence],  # noqa: ARG002 - there is none
        missing: Sequence[str] = (),  # noqa: ARG002
    ) -> AsyncIterator[str]:
        """Yield the answer in pieces; `ABSTAIN` alone says that the model does not know."""
        messages = self._prompt.messages(question=question, abstain=ABSTAIN)
        async for piece in past_thinking(self._model.stream(messages, GenerationError, "generator")):
            yield piece


async def past_thinking(pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    """Leave out the `<think>...</think>` that reasoning models open their answer with, and blanks before the answer."""
    held, opening = "", True
    async for piece in pieces:
        if not opening:
            yield piece
            continue
        held = (held + piece).lstrip()
        if held.startswith(_THINK):
            _, closed, after = held.partition("</think>")
            held = after.lstrip() if closed else held
        if held and not _THINK.startswith(held[: len(_THINK)]):
            opening = False
            yield held
    if opening and not held.startswith(_THINK):
        yield held
