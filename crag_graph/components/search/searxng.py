"""Search the web by a SearXNG instance of one's own. No key."""

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.http import async_client
from crag_graph.components.search.hits import Wanted, clean_text, keep, web_document
from crag_graph.components.search.service import Service, from_sync, raise_unless_ok, user_agent, web_address
from crag_graph.errors import ConfigurationError
from crag_graph.rules.query import clip
from crag_graph.rules.recency import TimeRange, time_range
from crag_graph.settings import SearxngSettings

if TYPE_CHECKING:
    import httpx

_MAX_QUERY_CHARS = 400  # the engines behind it take no more
_NO_JSON = "add json to search.formats in the settings.yml of the instance"


class SearxngSearch(RunnableLambda[str, list[Document]]):
    """Turn a query into web hits, best first, by the JSON API of `web.searxng.base_url`.

    `web.searxng.timeout_s` bounds a whole search. Every failure of the service is a `SearchError`, and so is an answer
    without hits while engines did not respond.

    Raises:
        ConfigurationError: no instance is named.
    """

    def __init__(self, settings: SearxngSettings, wanted: Wanted, today: Callable[[], date] = date.today) -> None:
        if not settings.base_url:
            raise ConfigurationError(
                "web.use is searxng, but web.searxng.base_url is not set: write the address of your instance"
            )
        self._settings = settings
        self._wanted = wanted
        self._today = today
        self._url = web_address(settings.base_url, "web.searxng.base_url").rstrip("/").removesuffix("/search")
        self._client = async_client(settings.timeout_s, on_response=raise_unless_ok)
        self._headers = {"User-Agent": user_agent()}
        self._service = Service(
            name="searxng",
            address=self._url,
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            reasons={403: "the instance gives no JSON, or refuses this client"},
            remedies={403: _NO_JSON, 429: "let this machine pass the limiter of the instance"},
            said=_said,
        )
        super().__init__(from_sync(self._search), self._search, name="searxng")

    async def _search(self, query: str) -> list[Document]:
        answer = await self._service.ask(lambda _: self._ask(query))
        hits = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(hits, list) or (hits and not any(isinstance(hit, dict) for hit in hits)):
            raise self._service.failed("unreadable answer: no list of results")
        silent = answer.get("unresponsive_engines")
        if not hits and silent:
            raise self._service.failed(f"no engine answered: {_engines(silent)}", transient=True)
        return keep((_document(hit) for hit in hits if isinstance(hit, dict)), self._wanted)

    async def _ask(self, query: str) -> Any:
        settings = self._settings
        parameters = {
            "q": clip(_plain(query), _MAX_QUERY_CHARS),
            "format": "json",
            "language": settings.language,
            "categories": ",".join(settings.categories),
            "engines": ",".join(settings.engines),
            "time_range": _back(time_range(query, self._today().year)),
        }
        given = {key: value for key, value in parameters.items() if value}
        response = await self._client.get(f"{self._url}/search", params=given, headers=self._headers)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise self._service.failed(f"unreadable answer: a web page instead of JSON; {_NO_JSON}")
        return response.json()


def _back(wanted: TimeRange | None) -> str:
    """Return how far back to look in the service's own words; it has no week."""
    return {"week": "month"}.get(wanted or "", wanted or "")


def _plain(query: str) -> str:
    """Return the query on one line, without what chooses an engine (`!x`), a language (`:x`) or a timeout (`<3`)."""
    return " ".join(word for word in (word.lstrip("!:<?") for word in query.split()) if word)


def _document(hit: dict[str, Any]) -> Document | None:
    return web_document(
        "searxng", hit.get("url"), hit.get("content"), title=hit.get("title"), date=hit.get("publishedDate")
    )


def _engines(silent: Any) -> str:
    """Return which engines did not respond, and why; each comes as a pair of both."""
    pairs = [engine for engine in silent if isinstance(engine, list)] if isinstance(silent, list) else []
    return clip("; ".join(": ".join(map(str, pair)) for pair in pairs) or "unnamed", 200)


def _said(response: "httpx.Response") -> str:
    """Return the reason that the instance gives, where it gives one in JSON."""
    try:
        body = response.json()
    except ValueError:
        return ""
    return clean_text(body.get("error")) if isinstance(body, dict) else ""
