"""The text of whole pages in the place of a search engine's snippets."""

import asyncio

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.excerpt import best_part
from crag_graph.components.fetch import Fetch
from crag_graph.components.main_text import Page
from crag_graph.errors import SearchError
from crag_graph.notices import notice
from crag_graph.protocols import Search

_WHOLE = ("wikipedia", "folder")  # providers whose hits are text of the page already


def with_page_text(search: Search, fetch: Fetch, max_pages: int, max_chars: int) -> Search:
    """Read the pages of the first `max_pages` snippets, side by side, and let their text replace the snippet.

    Of each, the part that fits the query is taken, `max_chars` at most. A page that cannot be read, or says less than
    its snippet, leaves the snippet.
    """

    async def search_and_read(query: str) -> list[Document]:
        hits = await search.ainvoke(query)
        snippets = [hit for hit in hits if hit.metadata.get("url") and hit.metadata.get("provider") not in _WHOLE]
        chosen, unread = snippets[:max_pages], list[SearchError]()

        async def read(hit: Document) -> Document:
            try:
                page = await fetch(hit.metadata["url"])
            except SearchError as error:
                unread.append(error)
                return hit
            text = await asyncio.to_thread(best_part, page.text, query, max_chars)
            return hit if len(text) < len(hit.page_content) else _replaced(hit, page, text)

        texts = dict(zip(map(id, chosen), await asyncio.gather(*map(read, chosen)), strict=True))
        if unread:
            notice(f"{len(unread)} of {len(chosen)} pages were not read, their snippets stand in: {unread[0]}")
        return [texts.get(id(hit), hit) for hit in hits]

    return RunnableLambda(search_and_read, name="page_text")


def _replaced(hit: Document, page: Page, text: str) -> Document:
    """Return the hit with another text; what it says of itself goes before what the page says."""
    said = {key: value for key, value in (("title", page.title), ("date", page.date)) if value}
    return Document(text, id=hit.id, metadata=said | {key: value for key, value in hit.metadata.items() if value != ""})
