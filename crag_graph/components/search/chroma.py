"""Dense search of the internal index."""

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.index import Index
from crag_graph.protocols import Embedder, Search


def chroma_search(index: Index, embedder: Embedder, k: int) -> Search:
    """Find the `k` chunks whose vectors are nearest to the question's."""

    async def search(question: str) -> list[Document]:
        [vector] = await embedder.embed([question])
        return await index.search(vector, k)

    return RunnableLambda(search, name="chroma")
