"""The indexes: of the user's documents, and of remembered web evidence; how either is searched."""

from typing import TYPE_CHECKING

from crag_graph.protocols import Embedder, Search
from crag_graph.settings import RetrieveSettings, Settings

if TYPE_CHECKING:
    from crag_graph.components.index import Index
    from crag_graph.components.web_memory import WebMemory


def build_index(settings: Settings, embedder: Embedder) -> "Index":
    """Return the index, unopened: nothing is read or created before it is used."""
    from crag_graph.components.index import Index

    return Index(settings.index, embedder)


def build_memory(settings: Settings, embedder: Embedder) -> "WebMemory | None":
    """Return the memory of web evidence, unopened; None when the settings keep none."""
    from crag_graph.components.index import Index
    from crag_graph.components.web_memory import WebMemory

    remember = settings.web.remember
    if remember.collection is None:
        return None
    index = Index(settings.index.model_copy(update={"collection": remember.collection}), embedder)
    search = search_of(index, embedder, settings.retrieve)
    return WebMemory(index, search, remember.days, allow=settings.web.allow_domains, deny=settings.web.deny_domains)


def search_of(index: "Index", embedder: Embedder, retrieve: RetrieveSettings) -> Search:
    """Return how an index of ours is searched; hybrid where the user's own is searched by a retriever of theirs."""
    from crag_graph.components.embeddings import known_words
    from crag_graph.components.search.bm25 import bm25_search
    from crag_graph.components.search.chroma import chroma_search
    from crag_graph.components.search.hybrid import hybrid_search

    match retrieve.use:
        case "chroma":
            return chroma_search(index, embedder, retrieve.fetch_k)
        case "bm25":
            return bm25_search(index, retrieve.fetch_k)
        case _:
            return hybrid_search(
                chroma_search(index, embedder, retrieve.fetch_k),
                bm25_search(index, retrieve.fetch_k),
                retrieve.hybrid.rrf_k,
                lambda question: known_words(embedder, question) >= retrieve.hybrid.min_known,
            )
