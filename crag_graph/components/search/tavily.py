"""Search the web by Tavily."""

import asyncio
import hashlib
import math
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from crag_graph.components.http import async_client
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.rules.query import canonical_url, clip, host_allowed
from crag_graph.settings import WebSettings

if TYPE_CHECKING:
    import httpx

_MAX_QUERY_CHARS = 400  # longer queries are answered with 400
_STATUS = {
    400: "bad request",
    401: "key refused",
    403: "key refused for this request",
    422: "bad request",
    429: "rate limit reached",
    432: "quota of the plan used up",
    433: "quota of pay-as-you-go used up",
}
_MEND = {
    401: "check {key}",
    403: "check {key}",
    432: "wait or upgrade the plan",
    433: "raise the spending limit",
    404: "check web.tavily.base_url",
}


class TavilySearch(RunnableLambda[str, list[Document]]):
    """Turn a query into web hits, best first, by the `tavily-python` client.

    At most `web.max_results` hits, each page once, from allowed hosts only. `web.tavily.timeout_s` bounds a whole
    search, retries and their waits included; a try that is not the last gives up after half of the time left, so that
    a black hole leaves time for another. Every failure of the service is a `SearchError`.
    """

    def __init__(self, settings: WebSettings) -> None:
        from tavily import AsyncTavilyClient

        self._settings = settings
        self._key = _key(settings.tavily.api_key_env)
        self._client = AsyncTavilyClient(
            self._key,
            api_base_url=_base_url(settings.tavily.base_url),
            client=async_client(settings.tavily.timeout_s, on_response=_raise_unless_ok),
        )
        super().__init__(self._search_from_sync, self._search, name="tavily")

    def _search_from_sync(self, query: str) -> list[Document]:
        from anyio.from_thread import start_blocking_portal

        with start_blocking_portal() as portal:
            return portal.call(self._search, query)

    async def _search(self, query: str) -> list[Document]:
        tavily = self._settings.tavily
        deadline = time.monotonic() + tavily.timeout_s
        tries = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, SearchError) and error.transient),
            stop=stop_after_attempt(tavily.max_retries + 1) | stop_before_delay(tavily.timeout_s),
            wait=_wait,
            reraise=True,
        )
        documents: list[Document] = []
        async for attempt in tries:
            with attempt:
                left = deadline - time.monotonic()
                is_last = attempt.retry_state.attempt_number > tavily.max_retries
                documents = self._documents(await self._ask(query, left if is_last else left / 2))
        return documents

    async def _ask(self, query: str, timeout_s: float) -> Any:
        """Send one request; every way it can fail becomes a `SearchError`."""
        import httpx
        import tavily

        settings = self._settings
        try:
            async with asyncio.timeout(timeout_s):  # the client's own limit holds for each read, not for all
                return await self._client.search(
                    clip(" ".join(query.split()), _MAX_QUERY_CHARS),
                    search_depth=settings.tavily.search_depth,
                    max_results=settings.max_results,
                    include_domains=list(settings.allow_domains) or None,
                    exclude_domains=list(settings.deny_domains) or None,
                    timeout=timeout_s,
                )
        except httpx.HTTPStatusError as error:
            raise self._refused(error.response) from error
        except (TimeoutError, tavily.errors.TimeoutError) as error:
            allowed = f"web.tavily.timeout_s ({settings.tavily.timeout_s:g} s)"
            raise _failed(f"timeout: no answer within {allowed}", transient=True) from error
        except (httpx.DecodingError, ValueError, TypeError, AttributeError, RecursionError) as error:
            # The client reads fields off whatever JSON came, so null and lists are type and attribute errors.
            raise _failed("unreadable answer: not the JSON of a search") from error
        except (httpx.HTTPError, OSError) as error:
            where = canonical_url(str(self._client._api_base_url))
            raise _failed(f"unreachable: {error or type(error).__name__} ({where})", transient=True) from error

    def _refused(self, response: "httpx.Response") -> SearchError:
        status = response.status_code
        reason = _STATUS.get(status) or ("server error" if status >= 500 else "unreadable answer")
        said = clip(_detail(response).replace(self._key, "***"), 200)
        asked = _retry_after(response)
        wait = f"asks to wait {asked:.0f} s" if asked else ""
        mend = _MEND.get(status, "").format(key=self._settings.tavily.api_key_env)
        message = "; ".join(part for part in (f"{reason} ({status})", said, wait, mend) if part)
        return _failed(message, transient=status == 429 or status >= 500)

    def _documents(self, answer: Any) -> list[Document]:
        hits = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(hits, list) or (hits and not any(isinstance(hit, dict) for hit in hits)):
            raise _failed("unreadable answer: no list of results")
        if not hits and (answer.get("error") or answer.get("detail")):
            raise _failed("unreadable answer: an error that calls itself a success")
        allow, deny = self._settings.allow_domains, self._settings.deny_domains
        found: dict[str | None, Document] = {}
        for document in _readable(hits):
            if host_allowed(document.metadata["url"], allow, deny):
                found.setdefault(document.id, document)
        return list(found.values())[: self._settings.max_results]


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(
            f"web.use is tavily, but {variable} is not set: set it, or set web.use to folder or off"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{variable} holds characters that no key has: copy the key again")
    return key


def _base_url(url: str | None) -> str | None:
    import httpx

    try:
        usable = url is None or (httpx.URL(url).scheme in ("http", "https") and httpx.URL(url).host != "")
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise ConfigurationError(f"web.tavily.base_url is {url!r}: write an address that begins with http(s)://")
    return url


async def _raise_unless_ok(response: "httpx.Response") -> None:
    """Raise with the whole response: the client's own errors drop the status and `Retry-After`."""
    import httpx

    if response.status_code != 200 and not response.has_redirect_location:
        await response.aread()
        raise httpx.HTTPStatusError(f"HTTP {response.status_code}", request=response.request, response=response)


def _wait(state: RetryCallState) -> float:
    """Return the seconds before the next try: what the service asks for, else a growing time with jitter."""
    failed = state.outcome.exception() if state.outcome else None
    response = getattr(failed and failed.__cause__, "response", None)
    asked = _retry_after(response) if response is not None else None
    return wait_random_exponential(multiplier=0.5, max=8)(state) if asked is None else asked


def _retry_after(response: "httpx.Response") -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date; None when it is neither."""
    written = response.headers.get("Retry-After", "")
    try:
        seconds = float(written)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(written) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _detail(response: "httpx.Response") -> str:
    """Return what the service says about its refusal, where it says it in its own way."""
    try:
        body = response.json()
    except ValueError:
        return ""
    detail = body.get("detail") if isinstance(body, dict) else None
    said = detail.get("error") if isinstance(detail, dict) else detail
    return " ".join(said.split()) if isinstance(said, str) else ""


def _failed(reason: str, transient: bool = False) -> SearchError:
    return SearchError(reason, component="tavily", transient=transient)


def _readable(hits: list[Any]) -> Iterator[Document]:
    """Yield a document for each hit that has text and a web address."""
    for hit in hits:
        if not isinstance(hit, dict):
            continue
        text, url = _text(hit.get("content")), _text(hit.get("url"))
        if not text or not url.lower().startswith(("http://", "https://")):
            continue
        metadata: dict[str, str | float] = {
            "origin": "web",
            "provider": "tavily",
            "url": url,
            "title": " ".join(_text(hit.get("title")).split()),
        }
        if date := _iso_date(_text(hit.get("published_date"))):
            metadata["date"] = date
        score = hit.get("score")
        if isinstance(score, int | float) and 0 <= score <= 1:
            metadata["retrieval_score"] = float(score)
        digest = hashlib.sha256(canonical_url(url).encode()).hexdigest()
        yield Document(text, id=f"web-{digest[:16]}", metadata=metadata)


def _text(value: object) -> str:
    """Return a string without half characters, which no encoder takes; empty for anything else."""
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else ""


def _iso_date(written: str) -> str:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return parse(written).date().isoformat()
        except (ValueError, OverflowError):
            continue
    return ""
