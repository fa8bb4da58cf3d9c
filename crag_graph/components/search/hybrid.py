"""Search by vectors and by words as one, by reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).

A document's score is the sum over the searches of 1 / (rrf_k + rank), rank counted from 1. Only ranks count, so the
searches' own scores need no common scale.
"""

import asyncio
from collections.abc import Callable, Sequence

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.protocols import Search


def hybrid_search(dense: Search, lexical: Search, rrf_k: int, can_read: Callable[[str], bool]) -> Search:
    """Run both searches side by side, and return what either found.

    Of a question in words that the embedder cannot read, its ranking is noise: then only the words count, if they are
    found at all.
    """

    async def search(question: str) -> list[Document]:
        by_vector, by_words = await asyncio.gather(dense.ainvoke(question), lexical.ainvoke(question))
        return fuse([by_words] if by_words and not can_read(question) else [by_vector, by_words], rrf_k)

    return RunnableLambda(search, name="hybrid")


def fuse(rankings: Sequence[Sequence[Document]], rrf_k: int) -> list[Document]:
    """Return every document once, best first; `retrieval_score` is its score divided by the highest one possible.

    >>> a, b, c = (Document(name, id=name) for name in "abc")
    >>> [(d.id, round(d.metadata["retrieval_score"], 3)) for d in fuse([[a, b], [b, c]], rrf_k=60)]
    [('b', 0.992), ('a', 0.5), ('c', 0.492)]
    """
    documents: dict[str | None, Document] = {}
    scores: dict[str | None, float] = {}
    for ranking in rankings:
        for rank, document in enumerate(ranking, start=1):
            documents.setdefault(document.id, document)
            scores[document.id] = scores.get(document.id, 0) + (rrf_k + 1) / (rrf_k + rank) / len(rankings)
    best_first = sorted(documents.values(), key=lambda document: -scores[document.id])
    return [
        Document(each.page_content, id=each.id, metadata={**each.metadata, "retrieval_score": scores[each.id]})
        for each in best_first
    ]
