"""Running nodes: one async function serves sync and async callers, is metered, and can speak while it works."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
    UsageMetadataCallbackHandler,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import register_configure_hook

from crag_graph.state import CragState, NodeUsage, Usage

T = TypeVar("T")
Update = dict[str, Any]
_SPEECH_TAG = "crag-speech"


class Speech(BaseChatModel):
    """Says text that is already there or is being made, as a chat model does.

    LangGraph's `messages` stream carries the tokens of chat models. Saying the answer this way makes that stream carry
    the text after its citations were checked, whichever generator wrote it, and the fixed sentences too.
    """

    pieces: AsyncIterator[str]

    @property
    def _llm_type(self) -> str:
        return "speech"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("Speech only streams")

    async def _astream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for piece in self.pieces:
            if not piece:
                continue
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


async def say(pieces: AsyncIterator[str]) -> str:
    """Stream the pieces to whoever listens and return them joined."""
    voice = Speech(pieces=pieces, tags=[_SPEECH_TAG])
    return "".join([chunk.text async for chunk in voice.astream("")])


class _Meter(UsageMetadataCallbackHandler):
    """Counts calls of real models beside their tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[BaseMessage]],  # noqa: ARG002
        *,
        run_id: UUID,  # noqa: ARG002
        tags: list[str] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        self.calls += _SPEECH_TAG not in (tags or [])

    def usage(self, seconds: float) -> NodeUsage:
        totals = self.usage_metadata.values()
        return NodeUsage(
            model_calls=self.calls,
            tokens_in=sum(total["input_tokens"] for total in totals),
            tokens_out=sum(total["output_tokens"] for total in totals),
            seconds=seconds,
        )


_meter: ContextVar[_Meter | None] = ContextVar("crag_meter", default=None)
register_configure_hook(_meter, inheritable=True)


def as_node(
    name: str, function: Callable[[CragState], Coroutine[Any, Any, Update]], *, beside: bool = False
) -> RunnableLambda[CragState, Update]:
    """Return a graph node that runs `function` for sync and async callers alike and adds what it cost to `usage`.

    A node that runs `beside` another in one step must not write `usage` too; its cost waits in `<name>_usage`.
    """

    async def metered(state: CragState) -> Update:
        meter = _Meter()
        token = _meter.set(meter)
        started = time.perf_counter()
        try:
            update = await function(state)
        finally:
            _meter.reset(token)
        spent = meter.usage(time.perf_counter() - started)
        return {**update, f"{name}_usage": spent} if beside else _with_usage(state, update, name, spent)

    def sync(state: CragState) -> Update:
        return run_sync(metered(state))

    return RunnableLambda(sync, metered, name=name)


def _with_usage(state: CragState, update: Update, name: str, spent: NodeUsage) -> Update:
    if "usage" in update:
        return {**update, "usage": _add(update["usage"], name, spent)}
    waiting = state.get("requery_usage")
    if not waiting:
        return {**update, "usage": _add(state.get("usage"), name, spent)}
    return {**update, "usage": _add(_add(state.get("usage"), "requery", waiting), name, spent), "requery_usage": None}


def no_usage() -> Usage:
    """Return the usage of a run that has not begun."""
    return Usage(model_calls=0, tokens_in=0, tokens_out=0, seconds=0.0, by_node={})


def _add(before: Usage | None, name: str, more: NodeUsage) -> Usage:
    before = before or no_usage()
    by_node = {**before["by_node"], name: _sum(before["by_node"].get(name), more)}
    return Usage(**_sum(before, more), by_node=by_node)


def _sum(one: NodeUsage | None, other: NodeUsage) -> NodeUsage:
    if one is None:
        return other
    return NodeUsage(
        model_calls=one["model_calls"] + other["model_calls"],
        tokens_in=one["tokens_in"] + other["tokens_in"],
        tokens_out=one["tokens_out"] + other["tokens_out"],
        seconds=one["seconds"] + other["seconds"],
    )


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from sync code, in the caller's context, on the process's one background loop.

    Must not be called from that loop: a node that is being awaited would wait for itself.
    """
    future = asyncio.run_coroutine_threadsafe(work, _background_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="crag-graph", daemon=True).start()
    return loop
