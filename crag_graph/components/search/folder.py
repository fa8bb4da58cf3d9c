"""A folder of documents that stands in for the web."""

import asyncio
from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.term_index import TermIndex
from crag_graph.protocols import Search
from crag_graph.rules.passage import passage_text


def folder_search(documents: Sequence[Document], max_results: int) -> Search:
    """Rank ready web documents (`origin` web, `url`, `title` ...) by BM25; one that shares no term is no hit."""
    by_id = {str(document.id): document for document in documents}
    index = TermIndex(list(by_id), [passage_text(document) for document in by_id.values()])

    async def search(query: str) -> list[Document]:
        found = await asyncio.to_thread(index.top, query, max_results)
        return [
            Document(by_id[id_].page_content, id=id_, metadata={**by_id[id_].metadata, "retrieval_score": score})
            for id_, score in found
        ]

    return RunnableLambda(search, name="folder")
