"""Asking a search service: one limit on the time, tries after passing faults, every failure a `SearchError`."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.rules.query import canonical_url, clip

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_REASONS = {400: "bad request", 422: "bad request", 429: "rate limit reached"}


class Refused(SearchError):  # noqa: N818 -- what the service did, more than an error of ours
    """The service said no; `wait_s` is how long it asks to be left alone, where it says so."""

    wait_s: float | None = None


@dataclass(frozen=True)
class Service:
    """One service and the limits it is asked within; `name` is also its block in the settings.

    `reasons` and `remedies` say what a status means and how to mend it; `said` reads what the service says itself.
    """

    name: str
    address: str
    timeout_s: float
    max_retries: int
    reasons: Mapping[int, str] = field(default_factory=dict)
    remedies: Mapping[int, str] = field(default_factory=dict)
    said: Callable[["httpx.Response"], str] = lambda _: ""

    async def ask(self, request: Callable[[float], Awaitable[T]]) -> T:
        """Await `request(seconds)` until it works, within `timeout_s`, waits included.

        A try that is not the last gives up after half of the time left, so that a black hole leaves time for another.

        Raises:
            SearchError: no try worked; `transient` where a later one may.
        """
        deadline = time.monotonic() + self.timeout_s
        tried = 0

        async def once() -> T:
            nonlocal tried
            tried += 1
            left = max(0.0, deadline - time.monotonic())
            return await self.ask_once(request, left if tried > self.max_retries else left / 2)

        tries = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, SearchError) and error.transient),
            stop=stop_after_attempt(self.max_retries + 1) | stop_before_delay(self.timeout_s),
            wait=_wait,
            reraise=True,
        )
        return await tries(once)

    async def ask_once(self, request: Callable[[float], Awaitable[T]], limit_s: float) -> T:
        """Await `request(limit_s)`, for no longer than that."""
        with self._translated():
            async with asyncio.timeout(limit_s):  # a client's own limit holds for each read, not for all
                return await request(limit_s)

    def failed(self, reason: str, *, transient: bool = False) -> SearchError:
        """Return the error that says so."""
        return SearchError(reason, component=self.name, transient=transient)

    def refused(self, response: "httpx.Response", reason: str = "", *, transient: bool | None = None) -> Refused:
        """Return what a response that is a refusal means, from its status unless the reason is given."""
        status = response.status_code
        if not reason:
            meaning = self.reasons.get(status) or _REASONS.get(status)
            reason = f"{meaning or ('server error' if status >= 500 else 'unreadable answer')} ({status})"
        asked = _retry_after(response)
        wait = f"asks to wait {asked:.0f} s" if asked else ""
        remedy = self.remedies.get(status, f"check web.{self.name}.base_url" if status == 404 else "")
        message = "; ".join(part for part in (reason, clip(self.said(response), 200), wait, remedy) if part)
        passing = status == 429 or status >= 500 if transient is None else transient
        error = Refused(message, component=self.name, transient=passing)
        error.wait_s = asked
        return error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.HTTPStatusError as error:
            raise self.refused(error.response) from error
        except TimeoutError as error:
            allowed = f"web.{self.name}.timeout_s ({self.timeout_s:g} s)"
            raise self.failed(f"timeout: no answer within {allowed}", transient=True) from error
        except (httpx.DecodingError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            # Fields are read off whatever JSON came, so null and lists are type and attribute errors.
            raise self.failed("unreadable answer: not the JSON of a search") from error
        except (httpx.HTTPError, OSError) as error:
            where = canonical_url(self.address)
            raise self.failed(f"unreachable: {error or type(error).__name__} ({where})", transient=True) from error


async def raise_unless_ok(response: "httpx.Response") -> None:
    """Raise with the whole response: clients' own errors drop the status and `Retry-After`."""
    import httpx

    if response.status_code != 200 and not response.has_redirect_location:
        await response.aread()
        raise httpx.HTTPStatusError(f"HTTP {response.status_code}", request=response.request, response=response)


def web_address(url: str, setting: str) -> str:
    """Return the address, if it is one of the web.

    Raises:
        ConfigurationError: it is not; the message names the setting.
    """
    import httpx

    try:
        usable = httpx.URL(url).scheme in ("http", "https") and httpx.URL(url).host != ""
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise ConfigurationError(f"{setting} is {url!r}: write an address that begins with http(s)://")
    return url


def from_sync(search: Callable[[str], Awaitable[T]]) -> Callable[[str], T]:
    """Return the same search for code without an event loop."""

    def in_own_loop(query: str) -> T:
        from anyio.from_thread import start_blocking_portal

        with start_blocking_portal() as portal:
            return portal.call(search, query)

    return in_own_loop


def user_agent(contact: str | None = None) -> str:
    """Return how this program introduces itself; operators like to know whom to write to."""
    try:
        name = f"crag-graph/{version('crag-graph')}"
    except PackageNotFoundError:  # run from a source tree
        name = "crag-graph"
    return f"{name} ({contact})" if contact else name


def _wait(state: RetryCallState) -> float:
    """Return the seconds before the next try: what the service asks for, else a growing time with jitter."""
    failed = state.outcome.exception() if state.outcome else None
    asked = failed.wait_s if isinstance(failed, Refused) else None
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
