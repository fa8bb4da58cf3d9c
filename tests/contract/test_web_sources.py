"""Several web sources as one: in turn or side by side, preferred hosts, and what is said of those that failed."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.search.chain import fallback_search, merged_search, missing_source, preferring
from crag_graph.components.search.searxng import SearxngSearch
from crag_graph.components.search.tavily import TavilySearch
from crag_graph.errors import SearchError
from crag_graph.notices import notice, noticed
from crag_graph.protocols import Search
from crag_graph.settings import TavilySettings, WebSettings
from crag_graph.web_settings import SearxngSettings
from tests.servers import searxng_server as searx
from tests.servers import tavily_server as tavily
from tests.servers.searxng_server import SearxngServer
from tests.servers.tavily_server import TavilyServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def instance() -> Iterator[SearxngServer]:
    with SearxngServer() as server:
        yield server


@pytest.fixture
def sources(tavily_server: TavilyServer, instance: SearxngServer) -> dict[str, Search]:
    """Tavily first, then SearXNG."""
    web = WebSettings(tavily=TavilySettings(base_url=tavily_server.origin, max_retries=0))
    return {
        "tavily": TavilySearch(web),
        "searxng": SearxngSearch(SearxngSettings(base_url=instance.origin, max_retries=0), web),
    }


def _urls(documents: list[Document]) -> list[str]:
    return [document.metadata["url"] for document in documents]


async def test_the_next_source_is_not_asked_when_the_first_finds_something(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    tavily_server.replies = [tavily.found(tavily.hit("https://a.org", "text"))]
    with noticed() as said:
        assert _urls(await fallback_search(sources).ainvoke("q")) == ["https://a.org"]
    assert instance.requests == []
    assert said == []


async def test_the_next_source_is_asked_when_the_first_finds_nothing(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    tavily_server.replies = [tavily.found()]
    instance.replies = [searx.found(searx.hit("https://b.org", "text"))]
    with noticed() as said:
        assert _urls(await fallback_search(sources).ainvoke("q")) == ["https://b.org"]
    assert said == []


async def test_the_next_source_is_asked_when_the_first_fails_and_the_run_is_told(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    tavily_server.replies = [tavily.refused(432, "used up")]
    instance.replies = [searx.found(searx.hit("https://b.org", "text"))]
    with noticed() as said:
        assert _urls(await fallback_search(sources).ainvoke("q")) == ["https://b.org"]
    assert said == [
        "one of the web sources was not searched: "
        "tavily: quota of the plan used up (432); used up; wait or upgrade the plan"
    ]


@pytest.mark.parametrize("join", [fallback_search, lambda sources: merged_search(sources, 5)])
async def test_where_every_source_fails_the_error_names_each(
    sources: dict[str, Search],
    tavily_server: TavilyServer,
    instance: SearxngServer,
    join: Callable[[dict[str, Search]], Search],
) -> None:
    tavily_server.replies = [tavily.refused(401, "no")]
    instance.replies = [searx.refused(500)]
    with pytest.raises(SearchError, match=r"web: tavily: key refused.*; searxng: server error") as caught:
        await join(sources).ainvoke("q")
    assert caught.value.transient


@pytest.mark.parametrize("join", [fallback_search, lambda sources: merged_search(sources, 5)])
async def test_nothing_found_is_no_error_as_long_as_one_source_answered(
    sources: dict[str, Search],
    tavily_server: TavilyServer,
    instance: SearxngServer,
    join: Callable[[dict[str, Search]], Search],
) -> None:
    tavily_server.replies = [tavily.found()]
    instance.replies = [searx.refused(500)]
    with noticed() as said:
        assert await join(sources).ainvoke("q") == []
    assert len(said) == 1


async def test_merged_sources_are_fused_by_rank_and_a_page_comes_once(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    tavily_server.replies = [
        tavily.found(tavily.hit("https://a.org", "a"), tavily.hit("https://both.org/x", "by tavily"))
    ]
    instance.replies = [
        searx.found(searx.hit("https://both.org/x/?utm_source=s", "by searxng"), searx.hit("https://b.org", "b"))
    ]
    found = await merged_search(sources, max_results=5).ainvoke("q")
    assert [hit.page_content for hit in found] == ["by tavily", "a", "b"]
    assert found[0].metadata["provider"] == "tavily"
    assert 0 < found[2].metadata["retrieval_score"] < found[0].metadata["retrieval_score"] <= 1


async def test_no_more_merged_hits_are_kept_than_asked_for(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    tavily_server.replies = [tavily.found(*(tavily.hit(f"https://a.org/{n}", "a") for n in range(3)))]
    instance.replies = [searx.found(*(searx.hit(f"https://b.org/{n}", "b") for n in range(3)))]
    found = await merged_search(sources, max_results=4).ainvoke("q")
    assert _urls(found) == ["https://a.org/0", "https://b.org/0", "https://a.org/1", "https://b.org/1"]


async def test_merged_sources_are_asked_side_by_side(
    sources: dict[str, Search], tavily_server: TavilyServer, instance: SearxngServer
) -> None:
    both_here = threading.Barrier(2, timeout=10)

    def after_both(reply: tavily.Reply) -> tavily.Reply:
        both_here.wait()
        return reply

    tavily_server.replies = lambda _: after_both(tavily.found(tavily.hit("https://a.org", "a")))
    instance.replies = lambda _: after_both(searx.found(searx.hit("https://b.org", "b")))
    assert len(await merged_search(sources, max_results=5).ainvoke("q")) == 2


async def test_a_source_of_ones_own_needs_no_ids() -> None:
    own: Search = RunnableLambda(
        lambda _: [Document("by hand", metadata={"url": "https://a.org/"}), Document("no address")]
    )
    other: Search = RunnableLambda(lambda _: [Document("again", metadata={"url": "https://A.org"})])
    found = await merged_search({"own": own, "other": other}, max_results=5).ainvoke("q")
    assert [hit.page_content for hit in found] == ["by hand", "no address"]


async def test_a_source_that_cannot_be_used_says_why_and_leaves_the_others(
    sources: dict[str, Search], instance: SearxngServer
) -> None:
    instance.replies = [searx.found(searx.hit("https://b.org", "text"))]
    without_key = {**sources, "tavily": missing_source("tavily", "KEY is not set")}
    with noticed() as said:
        assert _urls(await fallback_search(without_key).ainvoke("q")) == ["https://b.org"]
    assert said == ["one of the web sources was not searched: tavily: KEY is not set"]


async def test_preferred_hosts_come_first_and_the_rest_keeps_its_order(
    sources: dict[str, Search], tavily_server: TavilyServer
) -> None:
    pages = ["https://a.org/1", "https://en.wikipedia.org/wiki/A", "https://b.org/2", "https://de.wikipedia.org/wiki/B"]
    tavily_server.replies = lambda _: tavily.found(*(tavily.hit(page, "text") for page in pages))
    search = sources["tavily"]
    assert _urls(await preferring(search, ["wikipedia.org"]).ainvoke("q")) == [pages[1], pages[3], pages[0], pages[2]]
    assert preferring(search, []) is search


async def test_what_one_run_is_told_no_other_run_hears() -> None:
    def speak(text: str) -> list[Document]:
        notice(text)
        return []

    source: Search = RunnableLambda(speak)  # runs in a thread

    async def run(text: str) -> list[str]:
        with noticed() as said:
            await asyncio.gather(source.ainvoke(text), source.ainvoke(text))
        return said

    assert await asyncio.gather(run("one"), run("two")) == [["one"], ["two"]]
    notice("nobody listens")
