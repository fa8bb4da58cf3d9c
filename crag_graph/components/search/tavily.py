"""Search the web by Tavily."""

import os
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.http import async_client
from crag_graph.components.search.hits import keep, web_document
from crag_graph.components.search.service import Service, from_sync, raise_unless_ok, web_address
from crag_graph.errors import ConfigurationError
from crag_graph.rules.query import clip
from crag_graph.rules.recency import time_range
from crag_graph.settings import WebSettings

if TYPE_CHECKING:
    import httpx

_MAX_QUERY_CHARS = 400  # longer queries are answered with 400
_REASONS = {
    401: "key refused",
    403: "key refused for this request",
    432: "quota of the plan used up",
    433: "quota of pay-as-you-go used up",
}


class TavilySearch(RunnableLambda[str, list[Document]]):
    """Turn a query into web hits, best first, by the `tavily-python` client.

    At most `web.max_results` hits, each page once, from allowed hosts only. `web.tavily.timeout_s` bounds a whole
    search, retries and their waits included. A query about now looks back only as far as it says. Every failure of the
    service is a `SearchError`.
    """

    def __init__(self, settings: WebSettings, today: Callable[[], date] = date.today) -> None:
        from tavily import AsyncTavilyClient

        tavily = settings.tavily
        key = _key(tavily.api_key_env)
        self._settings = settings
        self._today = today
        self._client = AsyncTavilyClient(
            key,
            api_base_url=None if tavily.base_url is None else web_address(tavily.base_url, "web.tavily.base_url"),
            client=async_client(tavily.timeout_s, on_response=raise_unless_ok),
        )
        self._service = Service(
            name="tavily",
            address=str(self._client._api_base_url),
            timeout_s=tavily.timeout_s,
            max_retries=tavily.max_retries,
            reasons=_REASONS,
            remedies={
                401: f"check {tavily.api_key_env}",
                403: f"check {tavily.api_key_env}",
                432: "wait or upgrade the plan",
                433: "raise the spending limit",
            },
            said=lambda response: _detail(response).replace(key, "***"),
        )
        super().__init__(from_sync(self._search), self._search, name="tavily")

    async def _search(self, query: str) -> list[Document]:
        return self._documents(await self._service.ask(lambda limit_s: self._ask(query, limit_s)))

    async def _ask(self, query: str, limit_s: float) -> Any:
        import tavily

        settings = self._settings
        try:
            return await self._client.search(
                clip(" ".join(query.split()), _MAX_QUERY_CHARS),
                search_depth=settings.tavily.search_depth,
                max_results=settings.max_results,
                time_range=time_range(query, self._today().year),
                include_domains=list(settings.allow_domains) or None,
                exclude_domains=list(settings.deny_domains) or None,
                timeout=limit_s,
            )
        except tavily.errors.TimeoutError as error:
            raise TimeoutError from error

    def _documents(self, answer: Any) -> list[Document]:
        hits = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(hits, list) or (hits and not any(isinstance(hit, dict) for hit in hits)):
            raise self._service.failed("unreadable answer: no list of results")
        if not hits and (answer.get("error") or answer.get("detail")):
            raise self._service.failed("unreadable answer: an error that calls itself a success")
        return keep((_document(hit) for hit in hits if isinstance(hit, dict)), self._settings)


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(
            f"web.use is tavily, but {variable} is not set: set it, or set web.use to folder or off"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{variable} holds characters that no key has: copy the key again")
    return key


def _detail(response: "httpx.Response") -> str:
    """Return what the service says about its refusal, where it says it in its own way."""
    try:
        body = response.json()
    except ValueError:
        return ""
    detail = body.get("detail") if isinstance(body, dict) else None
    said = detail.get("error") if isinstance(detail, dict) else detail
    return " ".join(said.split()) if isinstance(said, str) else ""


def _document(hit: dict[str, Any]) -> Document | None:
    return web_document(
        "tavily",
        hit.get("url"),
        hit.get("content"),
        title=hit.get("title"),
        date=hit.get("published_date"),
        score=hit.get("score"),
    )
