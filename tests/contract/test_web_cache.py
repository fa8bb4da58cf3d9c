"""What was found on the web is remembered: for how long, by whom, and what a broken file does."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.fetch import PageFetch
from crag_graph.components.main_text import Page
from crag_graph.components.search.chain import merged_search
from crag_graph.components.search.page_text import with_page_text
from crag_graph.components.search.wikipedia import WikipediaSearch
from crag_graph.components.web_cache import WebCache, cached, cached_pages
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.notices import noticed
from crag_graph.protocols import Search
from crag_graph.settings import WebSettings
from crag_graph.web_settings import PageSettings, WikipediaSettings
from tests.servers.page_server import PageServer, html
from tests.servers.wikipedia_server import Article, WikipediaServer

pytestmark = pytest.mark.anyio
HOUR = 3600.0


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """A source that counts how often it is asked."""

    def __init__(self, *hits: Document, failing: bool = False) -> None:
        self.hits = list(hits)
        self.failing = failing
        self.asked: list[str] = []

    @property
    def search(self) -> Search:
        async def search(query: str) -> list[Document]:
            self.asked.append(query)
            if self.failing:
                raise SearchError("down", component="source")
            return self.hits

        return RunnableLambda(search)


HIT = Document(
    "It weighs 3 kg. 日本", id="web-1", metadata={"origin": "web", "url": "https://a.org", "retrieval_score": 0.5}
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> WebCache:
    return WebCache(tmp_path / "new" / "web.sqlite", HOUR, clock)


async def test_the_same_query_is_asked_once_however_it_is_written(cache: WebCache) -> None:
    source = Source(HIT)
    search = cached(source.search, cache, "tavily")
    first = await search.ainvoke("Falcon weight")
    assert await search.ainvoke("  falcon, WEIGHT? ") == first == [HIT]
    assert source.asked == ["Falcon weight"]


async def test_another_query_provider_or_scope_is_asked_anew(cache: WebCache) -> None:
    source = Source(HIT)
    await cached(source.search, cache, "tavily", "5 results").ainvoke("falcon")
    await cached(source.search, cache, "tavily", "5 results").ainvoke("osprey")
    await cached(source.search, cache, "searxng", "5 results").ainvoke("falcon")
    await cached(source.search, cache, "tavily", "9 results").ainvoke("falcon")
    assert len(source.asked) == 4


async def test_what_is_remembered_expires(cache: WebCache, clock: Clock) -> None:
    source = Source(HIT)
    search = cached(source.search, cache, "tavily")
    await search.ainvoke("q")
    clock.now += HOUR - 1
    await search.ainvoke("q")
    assert len(source.asked) == 1
    assert [entry.expired for entry in cache.entries()] == [False]
    clock.now += 1
    assert [entry.expired for entry in cache.entries()] == [True]
    await search.ainvoke("q")
    assert len(source.asked) == 2


async def test_a_clock_that_was_set_back_makes_nothing_last_longer(cache: WebCache, clock: Clock) -> None:
    source = Source(HIT)
    search = cached(source.search, cache, "tavily")
    await search.ainvoke("q")
    clock.now -= 10 * HOUR
    await search.ainvoke("q")
    assert len(source.asked) == 2


async def test_what_has_expired_leaves_the_file_with_the_next_entry(cache: WebCache, clock: Clock) -> None:
    search = cached(Source(HIT).search, cache, "tavily")
    await search.ainvoke("old")
    clock.now += 2 * HOUR
    await search.ainvoke("new")
    assert [entry.asked for entry in cache.entries()] == ["new"]


async def test_nothing_found_and_failures_are_not_remembered(cache: WebCache) -> None:
    source = Source()
    search = cached(source.search, cache, "tavily")
    assert await search.ainvoke("q") == []
    source.failing = True
    with pytest.raises(SearchError, match="down"):
        await search.ainvoke("q")
    source.failing, source.hits = False, [HIT]
    assert await search.ainvoke("q") == [HIT]


async def test_a_page_is_fetched_once_whatever_its_address_looks_like(cache: WebCache) -> None:
    asked: list[str] = []

    async def fetch(url: str) -> Page:
        asked.append(url)
        return Page("It weighs 3 kg.", "Falcon", "2024-05-02")

    fetch_once = cached_pages(fetch, cache)
    first = await fetch_once("https://a.org/x?utm_source=y")
    assert await fetch_once("https://A.org/x/#top") == first == Page("It weighs 3 kg.", "Falcon", "2024-05-02")
    assert len(asked) == 1


async def test_another_process_finds_what_this_one_remembered(cache: WebCache, tmp_path: Path) -> None:
    path = tmp_path / "new" / "web.sqlite"
    await cached(Source(HIT).search, cache, "tavily").ainvoke("Falcon weight")
    code = f"""
import asyncio
from pathlib import Path
from langchain_core.runnables import RunnableLambda
from crag_graph.components.web_cache import WebCache, cached

def never(query):
    raise SystemExit("the provider was asked")

search = cached(RunnableLambda(never), WebCache(Path({str(path)!r}), 3600, lambda: 1_000_001.0), "tavily")
print(asyncio.run(search.ainvoke("falcon weight"))[0].id)
"""
    command = [sys.executable, "-c", code]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("web-1", 0), done.stderr


def test_processes_that_start_at_once_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "web.sqlite"
    code = f"""
import asyncio, sys
from pathlib import Path
from crag_graph.components.web_cache import WebCache
from crag_graph.notices import noticed

async def write(cache):
    await asyncio.gather(*(cache.put("p", sys.argv[1] + str(n), "q", n) for n in range(20)))

cache = WebCache(Path({str(path)!r}), 3600)
with noticed() as said:
    asyncio.run(write(cache))
assert not said, said
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", code, f"writer {n} "], stderr=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], errors
    assert len(WebCache(path, HOUR).entries()) == 40


async def test_many_searches_at_once_read_and_write_without_getting_in_each_others_way(cache: WebCache) -> None:
    source = Source(HIT)
    search = cached(source.search, cache, "tavily")
    with noticed() as said:
        await asyncio.gather(*(search.ainvoke(f"query {n % 10}") for n in range(50)))
        assert [await search.ainvoke(f"query {n}") for n in range(10)] == [[HIT]] * 10
    assert said == []
    assert len(cache.entries()) == 10


async def test_a_remembered_search_with_page_text_never_blocks_the_event_loop(cache: WebCache) -> None:
    article = Article("Falcon", "The Falcon is a drone. " * 50 + "\n\n\n== Mass ==\nIt weighs 3 kg.")
    with WikipediaServer([article]) as wiki, PageServer({"/": html("The page has a sentence of its own.")}) as site:
        settings = WebSettings()
        wikipedia = WikipediaSearch(WikipediaSettings(base_url=wiki.base_url, max_chars=500), settings)
        snippet = Document("Snippet.", id="web-1", metadata={"provider": "tavily", "url": site.origin + "/"})
        fetch = cached_pages(PageFetch(PageSettings(ports=(site.port,), allow_private=True)), cache)
        own = cached(Source(snippet).search, cache, "own")
        sources = {"wikipedia": cached(wikipedia, cache, "wikipedia"), "own": own}
        search = with_page_text(merged_search(sources, 5), fetch, 2, 500)
        await search.ainvoke("a first search loads what is loaded once")
        with blockbuster_ctx("crag_graph"):
            found = [await search.ainvoke("falcon mass"), await search.ainvoke("falcon mass")]
    assert [[hit.metadata["provider"] for hit in hits] for hits in found] == [["wikipedia", "tavily"]] * 2
    assert found[0][1].page_content == "The page has a sentence of its own."


async def test_what_is_remembered_can_be_shown_and_cleared(cache: WebCache, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "new" / "web.sqlite"
    await cached(Source(Document("x" * 200_000)).search, cache, "tavily").ainvoke("a secret plan")
    clock.now += 1
    await cached(Source(HIT, HIT).search, cache, "wikipedia").ainvoke("falcon")
    newest, oldest = cache.entries()
    assert (newest.provider, newest.asked, newest.stored) == ("wikipedia", "falcon", clock.now)
    assert (oldest.provider, oldest.asked, oldest.expired) == ("tavily", "a secret plan", False)
    assert oldest.chars > 200_000 > newest.chars > 0
    before = path.stat().st_size
    assert cache.clear("tavily") == 1
    assert path.stat().st_size < before - 100_000
    assert b"a secret plan" not in b"".join(file.read_bytes() for file in (tmp_path / "new").iterdir())
    assert [entry.provider for entry in cache.entries()] == ["wikipedia"]
    assert cache.clear() == 1
    assert cache.entries() == []


def test_only_its_owner_may_read_the_file(cache: WebCache, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "new" / "web.sqlite").stat().st_mode) == 0o600


def test_a_file_that_is_no_cache_is_named_with_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "web.sqlite"
    path.write_bytes(b"this is not a database at all, but it is long enough to be taken for one" * 20)
    with pytest.raises(ConfigurationError, match=r"web\.cache\.path: .*web\.sqlite cannot be used: .*delete it"):
        WebCache(path, HOUR)
    with pytest.raises(ConfigurationError, match=r"web\.cache\.path: .*cannot be used"):
        WebCache(tmp_path, HOUR)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="another program's database"):
        WebCache(path, HOUR)
    assert path.read_bytes() == before


async def test_a_file_that_breaks_in_use_costs_a_notice_and_not_the_search(cache: WebCache, tmp_path: Path) -> None:
    source = Source(HIT)
    search = cached(source.search, cache, "tavily")
    path = tmp_path / "new" / "web.sqlite"
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(b"scribbled over by something else, long enough to be taken for a database" * 20)
    with noticed() as said:
        assert await search.ainvoke("q") == [HIT]
    assert ["web cache was not read" in said[0], "web cache was not written" in said[1]] == [True, True]
    with pytest.raises(ConfigurationError, match="delete it"):
        cache.entries()
