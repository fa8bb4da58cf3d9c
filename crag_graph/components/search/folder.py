"""A folder of documents that stands in for the web."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.term_index import TermIndex
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.protocols import Search
from crag_graph.rules.passage import passage_text


def folder_search(load: Callable[[], Sequence[Document]], max_results: int) -> Search:
    """Rank web documents (`origin` web, `url`, `title` ...) by BM25; one that shares no term is no hit.

    They are loaded at the first search: most questions need none.
    """
    pages = _Pages(load)

    async def search(query: str) -> list[Document]:
        try:
            by_id, index = await asyncio.to_thread(pages.indexed)
        except ConfigurationError as error:
            raise SearchError(str(error), component="folder") from error
        found = await asyncio.to_thread(index.top, query, max_results)
        return [
            Document(by_id[id_].page_content, id=id_, metadata={**by_id[id_].metadata, "retrieval_score": score})
            for id_, score in found
        ]

    return RunnableLambda(search, name="folder")


class _Pages:
    """The documents and their term index, made once by whoever comes first."""

    def __init__(self, load: Callable[[], Sequence[Document]]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._made: tuple[dict[str, Document], TermIndex] | None = None

    def indexed(self) -> tuple[dict[str, Document], TermIndex]:
        with self._lock:
            if self._made is None:
                by_id = {str(document.id): document for document in self._load()}
                self._made = by_id, TermIndex(list(by_id), [passage_text(document) for document in by_id.values()])
            return self._made
