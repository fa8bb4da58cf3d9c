"""Several web sources as one."""

import asyncio
from collections.abc import Mapping, Sequence

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.search.hits import page_id
from crag_graph.components.search.hybrid import fuse
from crag_graph.errors import SearchError
from crag_graph.notices import notice
from crag_graph.protocols import Search
from crag_graph.rules.query import host_allowed

_Outcome = list[Document] | SearchError


def fallback_search(sources: Mapping[str, Search]) -> Search:
    """Ask the sources in order, until one finds something; what failed before is a notice.

    Raises (when called):
        SearchError: every source failed; `transient` when one of them may work later.
    """

    async def search(query: str) -> list[Document]:
        outcomes: dict[str, _Outcome] = {}
        for name, source in sources.items():
            outcomes[name] = outcome = await _ask(source, query)
            if outcome and not isinstance(outcome, SearchError):
                break
        return next((found for found in _answers(outcomes) if found), [])

    return RunnableLambda(search, name="fallback")


def merged_search(sources: Mapping[str, Search], max_results: int, rrf_k: int = 60) -> Search:
    """Ask all sources side by side and fuse what they find by rank; a page that several find is one hit.

    Raises (when called):
        SearchError: every source failed; `transient` when one of them may work later.
    """

    async def search(query: str) -> list[Document]:
        outcomes = await asyncio.gather(*(_ask(source, query) for source in sources.values()))
        answers = _answers(dict(zip(sources, outcomes, strict=True)))
        return fuse([[_identified(hit) for hit in found] for found in answers], rrf_k)[:max_results]

    return RunnableLambda(search, name="merged")


def preferring(search: Search, hosts: Sequence[str]) -> Search:
    """Put the hits of the given hosts, and of all below them, first; the order within both groups stays."""

    async def search_and_sort(query: str) -> list[Document]:
        return sorted(
            await search.ainvoke(query), key=lambda hit: not host_allowed(str(hit.metadata.get("url", "")), hosts, [])
        )

    return RunnableLambda(search_and_sort, name="preferring") if hosts else search


def missing_source(name: str, why: str) -> Search:
    """Stand in for a source that cannot be used as things are, such as one without its key: it fails and says why."""

    async def search(query: str) -> list[Document]:  # noqa: ARG001
        raise SearchError(why, component=name)

    return RunnableLambda(search, name=name)


async def _ask(source: Search, query: str) -> _Outcome:
    try:
        return await source.ainvoke(query)
    except SearchError as error:
        return error


def _answers(outcomes: Mapping[str, _Outcome]) -> list[list[Document]]:
    """Return what those found that did not fail; raise when all did."""
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, SearchError)]
    answers = [outcome for outcome in outcomes.values() if not isinstance(outcome, SearchError)]
    if not answers:
        reasons = "; ".join(map(str, failed))
        raise SearchError(reasons, component="web", transient=any(error.transient for error in failed)) from failed[0]
    for error in failed:
        notice(f"one of the web sources was not searched: {error}")
    return answers


def _identified(hit: Document) -> Document:
    """Give the hit its page's id, by which repeats are found; a source of one's own may use others."""
    url = hit.metadata.get("url")
    return Document(hit.page_content, id=page_id(str(url)), metadata=hit.metadata) if url else hit
