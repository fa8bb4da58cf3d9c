"""Web evidence that carried an answer is kept beside the user's documents, comes back as what it is, and expires."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from typer.testing import CliRunner

from crag_graph import build_graph
from crag_graph.cli import app
from crag_graph.components.index import Index
from crag_graph.components.search.chroma import chroma_search
from crag_graph.components.web_cache import WebCache
from crag_graph.components.web_memory import WebMemory, with_memory
from crag_graph.errors import ConfigurationError, NothingIngested
from crag_graph.factory import build_embedder, build_index, build_memory
from crag_graph.ingest.run import ingest
from crag_graph.notices import noticed
from crag_graph.settings import IndexSettings, Settings
from tests.embedders import WordEmbedder
from tests.servers.openai_server import grades, helpful, prompt, schema_name, text
from tests.servers.tavily_server import found, hit

QUESTION = "How long is the warranty of the Osprey kite?"
URL = "https://kites.example/osprey"
ON_THE_WEB = "The warranty of the Osprey kite is seven years."
OWN = "# Warranty\n\nThe Falcon drone has a warranty of two years. It covers the battery.\n"


class Clock:
    """A clock that stands still until it is moved."""

    now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def settings(tmp_path, openai_server, tavily_server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    return Settings.model_validate(
        {
            "index": {"path": str(tmp_path / "index")},
            "llm": {"base_url": openai_server.base_url, "max_retries": 0},
            "web": {
                "tavily": {"base_url": tavily_server.origin, "max_retries": 0},
                "remember": {"collection": "from-the-web"},
            },
        }
    )


@pytest.fixture
def ingested(tmp_path, settings):
    file = tmp_path / "warranty.md"
    file.write_text(OWN, encoding="utf-8")
    asyncio.run(ingest([file], build_index(settings, build_embedder(settings)), settings))
    return settings


def answer_with(said: str):
    """Grade what names the kite well and all else badly, as a good model would; write `said`."""

    def reply(body):
        asked = prompt(body)
        match schema_name(body):
            case "grades":
                texts = re.split(r"^\[\d+\]", asked.rsplit("Passages (", 1)[1], flags=re.M)[1:]
                return grades({n: 0.9 if "seven years" in part else 0.0 for n, part in enumerate(texts, 1)})
            case "helpful":
                return helpful(1)
            case _:
                return text("osprey kite warranty" if "search engine" in asked else said)

    return reply


def ask(settings, question=QUESTION):
    return asyncio.run(build_graph(settings).ainvoke({"question": question}))


def stored(settings) -> list[Document]:
    memory = build_memory(settings, build_embedder(settings))
    assert memory
    return asyncio.run(memory.entries())


def own(settings) -> list[tuple[str | None, str]]:
    documents = asyncio.run(build_index(settings, build_embedder(settings)).documents())
    return sorted((document.id, document.page_content) for document in documents)


@pytest.fixture
def remembering(ingested, openai_server, tavily_server):
    """The settings of an application that has answered once from the web."""
    openai_server.replies = answer_with("Seven years [1].")
    tavily_server.replies = [found(hit(URL, ON_THE_WEB, "Osprey", published_date="2029-05-02"))]
    before = own(ingested)
    result = ask(ingested)
    assert (result["grounded"], result["warnings"], len(tavily_server.requests)) == (True, [], 1)
    assert own(ingested) == before
    return ingested


def test_the_same_question_is_answered_without_a_search_the_second_time(remembering, tavily_server):
    result = ask(remembering)
    assert len(tavily_server.requests) == 1
    assert (result["verdict"], result["grounded"], result["warnings"]) == ("correct", True, [])
    [source] = result["sources"]
    assert (source["origin"], source["url"], source["path"]) == ("web", URL, None)
    assert "seven years" in source["passage"]
    [entry] = stored(remembering)
    assert {"provider", "title", "retrieved", "expires"} <= set(entry.metadata)
    assert entry.metadata["provider"] == "tavily"


def test_a_page_of_a_host_that_is_denied_by_now_is_not_recalled(remembering):
    denied = remembering.web.model_copy(update={"deny_domains": ("kites.example",), "use": "off"})
    assert ask(remembering.model_copy(update={"web": denied}))["sources"] == []


def test_once_it_has_expired_the_web_is_searched_again(remembering, tavily_server):
    tavily_server.replies = [found(hit(URL, ON_THE_WEB))]
    embedder = build_embedder(remembering)
    past = Clock()
    past.now = datetime.now(UTC) - timedelta(days=31)
    index = Index(remembering.index.model_copy(update={"collection": "from-the-web"}), embedder)
    asyncio.run(WebMemory(index, chroma_search(index, embedder, 5), 30, past).remember(stored(remembering)))
    assert ask(remembering)["sources"][0]["url"] == URL
    assert len(tavily_server.requests) == 2
    assert [entry.metadata["expires"] > datetime.now(UTC).isoformat() for entry in stored(remembering)] == [True]


def test_without_documents_of_ones_own_the_memory_answers_and_the_missing_index_is_said(
    settings, openai_server, tavily_server
):
    openai_server.replies = answer_with("Seven years [1].")
    tavily_server.replies = [found(hit(URL, ON_THE_WEB))]
    ask(settings)
    result = ask(settings)
    assert (len(tavily_server.requests), result["sources"][0]["url"]) == (1, URL)
    assert any("crag ingest" in warning for warning in result["warnings"])


def test_an_answer_that_cites_nothing_leaves_nothing_behind(ingested, openai_server, tavily_server, tmp_path):
    openai_server.replies = answer_with("Seven years, I think.")
    tavily_server.replies = [found(hit(URL, ON_THE_WEB))]
    assert ask(ingested)["grounded"] is False
    assert stored(ingested) == []


def test_nothing_is_kept_unless_it_is_asked_for(ingested, openai_server, tavily_server):
    off = Settings.model_validate(ingested.model_dump() | {"web": ingested.web.model_dump() | {"remember": {}}})
    openai_server.replies = answer_with("Seven years [1].")
    tavily_server.replies = lambda _: found(hit(URL, ON_THE_WEB))
    assert ask(off)["grounded"] is True
    assert stored(ingested) == []
    assert ask(off)["grounded"] is True
    assert len(tavily_server.requests) == 2


def test_a_memory_that_cannot_be_written_is_a_warning(ingested, openai_server, tavily_server):
    openai_server.replies = answer_with("Seven years [1].")
    tavily_server.replies = [found(hit(URL, ON_THE_WEB))]
    with build_index(ingested, build_embedder(ingested)).writer():
        result = ask(ingested)
    assert result["grounded"] is True
    assert ["was not remembered" in warning for warning in result["warnings"]] == [True]


def test_one_command_shows_and_one_removes_what_is_remembered(remembering, tmp_path):
    config = tmp_path / "crag.yaml"
    config.write_text(remembering.model_dump_json(), encoding="utf-8")
    before = own(remembering)
    shown = json.loads(crag("cache", "show", "--evidence", "--json", "--config", config))
    assert [(entry["provider"], entry["what"], entry["expired"]) for entry in shown["entries"]] == [
        ("tavily", URL, False)
    ]
    assert "tavily" in crag("cache", "show", "--evidence", "--config", config)
    assert json.loads(crag("cache", "clear", "--evidence", "--provider", "x", "--json", "-c", config))["removed"] == 0
    assert json.loads(crag("cache", "clear", "--evidence", "--json", "--config", config))["removed"] == 1
    assert "0 passages" in crag("cache", "show", "--evidence", "--config", config)
    assert stored(remembering) == []
    assert own(remembering) == before


def test_searches_are_shown_and_cleared_and_a_look_creates_nothing(tmp_path, monkeypatch):
    path = tmp_path / "new" / "web.sqlite"
    monkeypatch.setenv("CRAG_WEB__REMEMBER__COLLECTION", "from-the-web")
    monkeypatch.setenv("CRAG_INDEX__PATH", str(tmp_path / "index"))
    assert "web.cache.path is null" in crag("cache", "show", "--config", "offline")
    monkeypatch.setenv("CRAG_WEB__CACHE__PATH", str(path))
    for flags in ([], ["--evidence"]):
        for command in ("show", "clear"):
            crag("cache", command, "--config", "offline", *flags)
    assert list(tmp_path.iterdir()) == []
    cache = WebCache(path, 3600)
    asyncio.run(cache.put("tavily", "k1", "falcon weight", [1]))
    asyncio.run(cache.put("page", "k2", "https://a.org", [1]))
    shown = json.loads(crag("cache", "show", "--provider", "page", "--json", "--config", "offline"))
    assert [entry["what"] for entry in shown["entries"]] == ["https://a.org"]
    assert "falcon weight" in crag("cache", "show", "--config", "offline")
    assert "1 search or page forgotten" in crag("cache", "clear", "--provider", "page", "--config", "offline")
    assert [entry.provider for entry in cache.entries()] == ["tavily"]
    crag("cache", "clear", "--config", "offline")
    assert cache.entries() == []


def crag(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def page(words: str, url: str = URL) -> Document:
    return Document(words, metadata={"url": url, "provider": "tavily", "title": "Kites", "retrieval_score": 0.5})


def memory_at(folder: Path, clock: Clock, embedder: WordEmbedder | None = None) -> WebMemory:
    embedder = embedder or WordEmbedder()
    index = Index(IndexSettings(path=str(folder / "index"), collection="from-the-web"), embedder)
    return WebMemory(index, chroma_search(index, embedder, 5), 30, clock)


@pytest.mark.anyio
async def test_what_has_expired_is_never_returned_and_leaves_with_the_next_entry(tmp_path):
    clock = Clock()
    memory = memory_at(tmp_path, clock)
    assert await memory.recall("kite warranty") == []
    assert not (tmp_path / "index").exists()
    await memory.remember([page("The kite warranty is seven years.")])
    clock.now += timedelta(days=30) - timedelta(seconds=1)
    assert len(await memory.recall("kite warranty")) == 1
    clock.now += timedelta(seconds=1)
    assert await memory.recall("kite warranty") == []
    await memory.remember([page("The pump costs 30 euro.", "https://b.org")])
    assert [entry.metadata["url"] for entry in await memory.entries()] == ["https://b.org"]


@pytest.mark.anyio
async def test_a_passage_found_again_is_kept_once_and_lasts_from_then(tmp_path):
    clock = Clock()
    memory = memory_at(tmp_path, clock)
    await memory.remember([page("The kite warranty is seven years.")])
    clock.now += timedelta(days=20)
    await memory.remember([page("The kite warranty is seven years.", URL + "?utm_source=x")])
    clock.now += timedelta(days=20)
    assert len(await memory.recall("kite warranty")) == len(await memory.entries()) == 1


@pytest.mark.anyio
async def test_many_answers_at_once_are_all_remembered_and_nothing_blocks_the_event_loop(tmp_path):
    memory = memory_at(tmp_path, Clock())
    with blockbuster_ctx():
        await asyncio.gather(*(memory.remember([page(f"Kite {n}.", f"https://a.org/{n}")]) for n in range(10)))
        assert await memory.recall("kite") != []
    assert len(await memory.entries()) == 10


@pytest.mark.anyio
async def test_a_memory_of_another_embedder_is_a_notice_until_it_is_forgotten(tmp_path):
    clock = Clock()
    await memory_at(tmp_path, clock).remember([page("The kite warranty is seven years.")])
    memory = memory_at(tmp_path, clock, WordEmbedder("words-b"))
    with noticed() as said:
        assert await memory.recall("kite warranty") == []
    assert "crag cache clear --evidence" in said[0]
    assert await memory.forget() == 1
    with noticed() as said:
        assert await memory.recall("kite warranty") == []
    assert said == []


@pytest.mark.anyio
async def test_a_collection_of_something_else_is_neither_read_nor_emptied(tmp_path):
    memory = memory_at(tmp_path, Clock())
    other = Index(IndexSettings(path=str(tmp_path / "index"), collection="from-the-web"), WordEmbedder())
    await other.add([Document("The kite is red.", id="mine", metadata={"source": "mine.md"})])
    await other.commit()
    assert await memory.recall("kite") == []
    for work in (memory.remember([page("The kite is blue.")]), memory.forget(), memory.forget("tavily")):
        with pytest.raises(ConfigurationError, match="name another collection"):
            await work
    assert len(await other.documents()) == 1


@pytest.mark.anyio
async def test_a_failing_index_is_raised_only_where_nothing_is_remembered(tmp_path):
    async def fail(_: str) -> list[Document]:
        raise NothingIngested("empty", component="index")

    memory = memory_at(tmp_path, Clock())
    search = with_memory(RunnableLambda(fail), memory, 60)
    with pytest.raises(NothingIngested):
        await search.ainvoke("kite warranty")
    await memory.remember([page("The kite warranty is seven years.")])
    with noticed() as said:
        assert [d.metadata["origin"] for d in await search.ainvoke("kite warranty")] == ["web"]
    assert said == ["the index was not searched: index: empty"]


def test_the_collection_of_the_documents_is_refused():
    with pytest.raises(ValueError, match=r"web.remember.collection is index.collection"):
        Settings.model_validate({"web": {"remember": {"collection": "documents"}}})
