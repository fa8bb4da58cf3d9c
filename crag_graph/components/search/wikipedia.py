"""Search Wikipedia, or any other wiki that runs MediaWiki with the extension TextExtracts. No key."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.excerpt import best_part
from crag_graph.components.http import async_client
from crag_graph.components.search.hits import Wanted, clean_text, keep, web_document
from crag_graph.components.search.service import Service, from_sync, raise_unless_ok, user_agent, web_address
from crag_graph.errors import SearchError
from crag_graph.notices import notice
from crag_graph.rules.language import detect_language
from crag_graph.rules.query import clip
from crag_graph.web_settings import WikipediaSettings

if TYPE_CHECKING:
    import httpx

_MAX_QUERY_CHARS = 300  # longer queries are refused
_MAX_PAGES = 20  # introductions per request
_PASSING = re.compile(r"maxlag|ratelimited|readonly|internal_api_error.*|.*too-busy.*|.*timeout.*")
_OPERATOR = re.compile(r"(?<!\S)[-!~+]+|[:*?~\\]+")
_HEADING = re.compile(r"^(={2,6})\s*(.+?)\s*\1\s*$", re.MULTILINE)
_EMPTY_SECTION = re.compile(r"^#+ [^\n]*\n*(?=(?:#|\Z))", re.MULTILINE)


class WikipediaSearch(RunnableLambda[str, list[Document]]):
    """Turn a query into pages of the wiki, best first: of the first few the part that fits the query, else the intro.

    A page is dated by its last revision. Pages that only tell names apart are left out. When no page has all words of
    the query, those that have any are searched. `web.wikipedia.timeout_s` bounds a whole search. Every failure of the
    service is a `SearchError`.
    """

    def __init__(self, settings: WikipediaSettings, wanted: Wanted) -> None:
        self._settings = settings
        self._wanted = wanted
        self._client = async_client(settings.timeout_s, on_response=raise_unless_ok)
        self._headers = {"User-Agent": user_agent(settings.contact)}
        self._service = Service(
            name="wikipedia",
            address=web_address(settings.base_url, "web.wikipedia.base_url"),
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            reasons={403: "refused"},
            remedies={403: "set web.wikipedia.contact to an e-mail or web address, as its operators ask"},
        )
        super().__init__(from_sync(self._search), self._search, name="wikipedia")

    async def _search(self, query: str) -> list[Document]:
        deadline = time.monotonic() + self._settings.timeout_s
        url = self._settings.base_url.replace("{language}", self._language(query))
        hits, page_ids = await self._service.ask(lambda _: self._hits(url, query))
        left = max(0.0, deadline - time.monotonic())
        first, others = hits[: self._settings.full_pages], hits[self._settings.full_pages :]
        full = await asyncio.gather(*(self._full(url, hit, page_ids[str(hit.id)], query, left) for hit in first))
        return [*full, *map(self._clipped, others)]

    def _language(self, query: str) -> str:
        language = self._settings.language
        return detect_language(query) if language == "auto" else language

    async def _hits(self, url: str, query: str) -> tuple[list[Document], dict[str, str]]:
        """Return the pages that have all words of the query, else those that have any, and their ids in the wiki."""
        words = [_plain(word) for word in _OPERATOR.sub(" ", query).split()]
        pages = await self._pages(url, clip(" ".join(words), _MAX_QUERY_CHARS))
        if not pages and len(words) > 1:
            unquoted = " ".join(words).replace('"', " ").split()
            pages = await self._pages(url, clip(" OR ".join(unquoted), _MAX_QUERY_CHARS).removesuffix(" OR"))
        found = [
            (page["pageid"], _document(page)) for page in pages if "disambiguation" not in page.get("pageprops", "")
        ]
        page_ids = {str(hit.id): str(page_id) for page_id, hit in found if hit}
        return keep((hit for _, hit in found), self._wanted), page_ids

    async def _pages(self, url: str, query: str) -> list[dict[str, Any]]:
        answer = await self._get(
            url,
            generator="search",
            gsrsearch=query,
            gsrnamespace="0",
            gsrlimit=str(min(2 * self._wanted.max_results, _MAX_PAGES)),  # some will tell names apart
            redirects="1",
            prop="extracts|revisions|info|pageprops",
            exintro="1",
            explaintext="1",
            exlimit="max",
            rvprop="timestamp",
            inprop="url",
            ppprop="disambiguation",
        )
        pages = [page for page in _pages_of(answer) if "missing" not in page and "invalid" not in page]
        if pages and not any("extract" in page for page in pages):
            raise self._service.failed("the wiki gives no extracts: it needs the MediaWiki extension TextExtracts")
        return sorted(pages, key=lambda page: int(page.get("index") or len(pages)))

    async def _full(self, url: str, hit: Document, page_id: str, query: str, limit_s: float) -> Document:
        """Return the hit with the part of its whole page that fits the query, or its introduction where that fails."""

        async def ask(_: float) -> str:
            answer = await self._get(url, pageids=page_id, prop="extracts", explaintext="1", exsectionformat="wiki")
            return next((clean_text(page.get("extract")) for page in _pages_of(answer)), "")

        try:
            text = _markdown(await self._service.ask_once(ask, limit_s))
        except SearchError as error:
            notice(f"of some pages only the introduction was read: {error}")
            return self._clipped(hit)
        part = await asyncio.to_thread(best_part, text, query, self._settings.max_chars)
        return Document(part or hit.page_content, id=hit.id, metadata=hit.metadata)

    def _clipped(self, hit: Document) -> Document:
        return Document(clip(hit.page_content, self._settings.max_chars), id=hit.id, metadata=hit.metadata)

    async def _get(self, url: str, **parameters: str) -> dict[str, Any]:
        """Return the answer to one query; an `error` in it, which comes with status 200, is raised."""
        fixed = {"action": "query", "format": "json", "formatversion": "2"}
        response = await self._client.get(url, params=fixed | parameters, headers=self._headers)
        answer = response.json()
        if isinstance(answer, dict) and answer.get("error"):
            raise self._api_error(response, answer["error"])
        if not isinstance(answer, dict) or not {"query", "batchcomplete"} & answer.keys():
            raise self._service.failed("unreadable answer: not that of a MediaWiki API; check web.wikipedia.base_url")
        return answer

    def _api_error(self, response: "httpx.Response", error: Any) -> SearchError:
        code, info = (clean_text(error.get(key)) for key in ("code", "info")) if isinstance(error, dict) else ("", "")
        what = f"{code}: {clip(info, 200)}" if info else code or "an error it does not name"
        return self._service.refused(response, f"refused, {what}", transient=_PASSING.fullmatch(code) is not None)


def _plain(word: str) -> str:
    """Return a word that the search engine takes for a word."""
    return word.lower() if word in ("AND", "OR", "NOT") else word


def _pages_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pages of an answer; a search that found nothing has no `query` in it."""
    return [page for page in (answer.get("query") or {}).get("pages") or [] if isinstance(page, dict)]


def _document(page: Mapping[str, Any]) -> Document | None:
    revisions = page.get("revisions") or [{}]
    return web_document(
        "wikipedia",
        page.get("fullurl"),
        _markdown(clean_text(page.get("extract"))),
        title=page.get("title"),
        date=revisions[0].get("timestamp"),
    )


def _markdown(extract: str) -> str:
    """Write `== Heading ==` as a heading of markdown, and leave out sections without text, such as references."""
    text = _HEADING.sub(lambda match: f"\n{'#' * len(match[1])} {match[2]}\n", extract)
    while (shorter := _EMPTY_SECTION.sub("", text)) != text:
        text = shorter
    return re.sub(r"\n{3,}", "\n\n", text).strip()
