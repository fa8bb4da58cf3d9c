"""Lexical search of the internal index."""

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.index import Index
from crag_graph.protocols import Search


def bm25_search(index: Index, k: int) -> Search:
    """Find the `k` chunks that share most with the question by BM25; none when no term is shared."""

    async def search(question: str) -> list[Document]:
        return await index.search_terms(question, k)

    return RunnableLambda(search, name="bm25")
