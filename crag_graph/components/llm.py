"""The chat model behind every component that asks one: how it is built, bounded, called and what its failures mean."""

import asyncio
import os
import re
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from crag_graph.components.http import async_client
from crag_graph.components.limits import Limiter
from crag_graph.errors import ComponentError, ConfigurationError
from crag_graph.settings import LlmSettings

if TYPE_CHECKING:
    from langchain_core.caches import BaseCache


class Model:
    """A chat model that speaks the OpenAI protocol, within the process's limit of calls in flight.

    Its calls never stream into a graph's `messages` mode: what a person may read is said by the graph itself.
    """

    def __init__(self, settings: LlmSettings, name: str | None = None) -> None:
        from langchain_openai import ChatOpenAI

        _check_url(settings.base_url)
        self.name = name or settings.model
        self.client: ChatOpenAI = ChatOpenAI(
            model=self.name,
            base_url=settings.base_url,
            api_key=read_key(settings.api_key_env, "llm.api_key_env"),
            temperature=settings.temperature,
            max_completion_tokens=settings.max_output_tokens,
            timeout=settings.timeout_s,
            max_retries=settings.max_retries,
            stream_usage=True,
            http_async_client=async_client(settings.timeout_s),
            cache=_cache(settings.cache) if settings.cache else None,
            tags=["nostream"],
            use_responses_api=False,
        )
        # LangChain streams every call under a graph's `messages` mode unless told not to, which changes how it fails.
        self._whole = self.client.model_copy(update={"disable_streaming": True})
        self._limiter = _limiter(settings.max_concurrency)
        self._timeout_s = settings.timeout_s
        self._tries = settings.max_retries + 1

    async def ask(
        self, messages: Sequence[BaseMessage], error: type[ComponentError], component: str, **options: Any
    ) -> AIMessage:
        """Return the model's whole answer.

        Raises:
            error: the call failed, or the answer was refused, filtered or cut off.
        """
        async with self._limiter:
            # The client's own limit is for silence between bytes; a server that trickles would never hit it.
            with translated(error, component):
                async with asyncio.timeout(self._timeout_s * self._tries):
                    message = await self._whole.ainvoke(list(messages), **options)
        _check_finish(message, error, component)
        return message

    async def stream(
        self, messages: Sequence[BaseMessage], error: type[ComponentError], component: str
    ) -> AsyncIterator[str]:
        """Yield the model's answer in pieces.

        Raises:
            error: the call failed, before or amid the answer, or the answer was refused, filtered or cut off.
        """
        whole: AIMessage | None = None
        async with self._limiter:
            with translated(error, component):
                chunks = self.client.astream(list(messages))
                while (chunk := await self._next(chunks)) is not None:
                    whole = chunk if whole is None else whole + chunk  # type: ignore[assignment]
                    if chunk.text:
                        yield sound(chunk.text)
        if whole is None or not (whole.text.strip() or whole.additional_kwargs.get("refusal")):
            raise error("the model answered with nothing, or refused", component=component, transient=True)
        _check_finish(whole, error, component)

    async def _next(self, chunks: AsyncIterator[AIMessageChunk]) -> AIMessageChunk | None:
        """Return the next piece, which may not take longer than a whole call; None at the end."""
        async with asyncio.timeout(self._timeout_s * self._tries):
            return await anext(chunks, None)


def sound(text: str) -> str:
    """Replace halves of surrogate pairs, which no output and no server takes.

    >>> sound("two \\ud83d years")
    'two \ufffd years'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_key(variable: str | None, setting: str) -> Any:
    """Return the secret that an environment variable holds; without a variable, a placeholder for keyless servers.

    Raises:
        ConfigurationError: the variable is empty or not set.
    """
    from pydantic import SecretStr

    if variable is None:
        return SecretStr("not-needed")
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigurationError(
            f"{variable} is not set: set it, or name another variable in {setting} (null for a server without keys)"
        )
    return SecretStr(value)


def _check_url(base_url: str | None) -> None:
    if base_url is not None and not re.match(r"https?://[^/\s]", base_url):
        raise ConfigurationError(f"llm.base_url is {base_url!r}; write something like http://localhost:8080/v1")


@contextmanager
def translated(error: type[ComponentError], component: str) -> Iterator[None]:
    """Turn whatever the model's client raises into `error`, saying whether a later try may help."""
    import httpx
    import openai
    from langchain_core.exceptions import ModelError

    try:
        yield
    except (ModelError, openai.OpenAIError, httpx.HTTPError, TimeoutError, *UNREADABLE) as caught:
        retryable = (
            TimeoutError,
            openai.RateLimitError,
            openai.InternalServerError,
            openai.APIConnectionError,
            httpx.TransportError,
        )
        raise error(
            _reason(caught),
            component=component,
            transient=isinstance(caught, retryable),
            too_much=isinstance(caught, (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError)),
        ) from caught


def _reason(caught: BaseException) -> str:
    """Return one line about a failure, without request bodies or keys."""
    import openai

    known: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
        (openai.AuthenticationError, "the key was rejected (401)"),
        (openai.PermissionDeniedError, "the key may not do this (403)"),
        (openai.NotFoundError, "the server does not know this model or path (404)"),
        (openai.RateLimitError, "the rate limit or quota is exceeded (429)"),
        ((openai.APITimeoutError, TimeoutError), "the model did not answer in time"),
        (openai.APIConnectionError, "the model server cannot be reached"),
        (openai.LengthFinishReasonError, _CUT_OFF),
        (openai.ContentFilterFinishReasonError, _FILTERED),
    )
    for kind, reason in known:
        if isinstance(caught, kind):
            return reason
    if isinstance(caught, openai.APIStatusError):
        return f"the model server answered {caught.status_code}: {str(caught)[:200]}"
    return f"the model server's answer cannot be read ({type(caught).__name__})"


# What the client trips over when a body is not the protocol at all, such as a proxy's login page with status 200.
UNREADABLE = (ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError)
_FILTERED = "the provider's content filter stopped the answer"
_CUT_OFF = "the answer was cut off at its length limit"


def _check_finish(message: AIMessage, error: type[ComponentError], component: str) -> None:
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        raise error(f"the model refused: {str(refusal)[:200]}", component=component, too_much=True)
    finish = message.response_metadata.get("finish_reason")
    if finish in ("length", "content_filter"):
        raise error(_CUT_OFF if finish == "length" else _FILTERED, component=component, too_much=True)


@cache
def _limiter(limit: int) -> Limiter:
    """Return the one limiter of this process; two settings with the same limit share it."""
    return Limiter(limit)


@cache
def _cache(path: str) -> "BaseCache":
    """Open the SQLite file in which answers to identical requests are remembered."""
    # Said at import and at every look-up about code of langchain-community that nobody here can change.
    for message in (".*langchain-community.*being sunset", ".*`loads` is in beta", ".*`allowed_objects` will change"):
        warnings.filterwarnings("ignore", message=message)
    from langchain_community.cache import SQLiteCache
    from sqlalchemy.exc import SQLAlchemyError

    file = Path(path).expanduser()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened: BaseCache = SQLiteCache(database_path=str(file))
    except (OSError, SQLAlchemyError) as error:
        raise ConfigurationError(f"llm.cache: {path} cannot be used as a SQLite file: {error}") from error
    return opened
