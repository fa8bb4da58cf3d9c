"""The index on a real Chroma server, started here on loopback."""

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document

from crag_graph.components.index import Index
from crag_graph.components.search.bm25 import bm25_search
from crag_graph.components.search.chroma import chroma_search
from crag_graph.components.search.hybrid import hybrid_search
from crag_graph.errors import ConfigurationError, NothingIngested, RetrievalError
from crag_graph.settings import IndexSettings
from tests.embedders import WordEmbedder
from tests.servers import Call, LoopbackServer

pytestmark = pytest.mark.anyio
BATTERY, BANANAS, PRICE = "The battery lasts twelve hours.", "Bananas are yellow.", "The pump costs 30 euro."


@pytest.fixture(scope="module")
def server_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A running `chroma run`."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder), "--port", str(port)]
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        wait_until_ready(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(f"chroma run did not start: {process.returncode}")


@pytest.fixture
def settings(server_port: int, request: pytest.FixtureRequest, tmp_path: Path) -> IndexSettings:
    """A collection of its own for each test; the path must stay unused."""
    name = f"c-{abs(hash(request.node.name))}"
    return IndexSettings(host="127.0.0.1", port=server_port, collection=name, path=str(tmp_path / "unused"))


def chunk(text: str, source: str = "a.md") -> Document:
    return Document(text, id=text, metadata={"source": source, "file_hash": "h1", "page": 2})


async def ingested(index: Index, *texts: str) -> Index:
    with index.writer(60):
        await index.add([chunk(text) for text in texts])
        await index.commit()
    return index


async def test_the_index_works_on_a_server_and_touches_no_local_folder(settings: IndexSettings, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    index = Index(settings, embedder)
    assert await index.sources() == {}
    with pytest.raises(NothingIngested, match=f"http://127.0.0.1:{settings.port}: nothing is ingested yet"):
        await chroma_search(index, embedder, 3).ainvoke("battery")
    await ingested(index, BATTERY, BANANAS, PRICE)
    fresh = Index(settings, embedder)
    assert await fresh.sources() == {"a.md": {BATTERY: "h1", BANANAS: "h1", PRICE: "h1"}}
    searches = [chroma_search(fresh, embedder, 3), bm25_search(fresh, 3)]
    for search in (*searches, hybrid_search(*searches, 60, lambda _: True)):
        first = (await search.ainvoke("The battery lasts how many hours?"))[0]
        assert (first.page_content, first.metadata["page"], first.metadata["origin"]) == (BATTERY, 2, "internal")
        assert 0 <= first.metadata["retrieval_score"] <= 1
    status = await fresh.status()
    assert (status.chunks, str(status.stored), status.fits) == (3, "words-a (64 dimensions)", True)
    await index.remove([BATTERY])
    await index.commit()
    assert len(await fresh.documents()) == 2
    await index.clear()
    with pytest.raises(NothingIngested):
        await fresh.documents()
    assert not (tmp_path / "unused").exists()


WRITE = """
import asyncio, sys
from crag_graph.settings import IndexSettings
from tests.contract.test_chroma_server import Index, WordEmbedder, ingested

port, collection, text = sys.argv[1:]
asyncio.run(ingested(Index(IndexSettings(host="127.0.0.1", port=port, collection=collection), WordEmbedder()), text))
"""


async def test_an_open_reader_finds_at_once_what_another_process_has_written(settings: IndexSettings) -> None:
    embedder = WordEmbedder()
    reader = await ingested(Index(settings, embedder), BATTERY)
    assert await reader.search_terms("green tent", 3) == []
    command = [sys.executable, "-c", WRITE, str(settings.port), settings.collection, "The tent is green."]
    await asyncio.to_thread(subprocess.run, command, check=True, cwd=Path(__file__).parents[2])
    for search in (chroma_search(reader, embedder, 1), bm25_search(reader, 1)):
        assert [each.page_content for each in await search.ainvoke("green tent")] == ["The tent is green."]


async def test_a_collection_of_another_model_is_refused_on_a_server_too(settings: IndexSettings) -> None:
    await ingested(Index(settings, WordEmbedder("words-a")), BATTERY)
    with pytest.raises(ConfigurationError, match=r"words-a \(64 dimensions\).*words-b \(64 dimensions\).*--rebuild"):
        await Index(settings, WordEmbedder("words-b")).documents()


async def test_a_second_writer_on_this_machine_is_kept_out(settings: IndexSettings) -> None:
    first, second = Index(settings, WordEmbedder()), Index(settings, WordEmbedder())
    with first.writer(), pytest.raises(ConfigurationError, match="another ingest holds this lock"), second.writer(0.05):
        pass


async def test_a_server_that_is_not_there_is_a_passing_fault_that_names_the_address() -> None:
    port = free_port()
    with pytest.raises(RetrievalError, match=f"http://127.0.0.1:{port}") as caught:
        await Index(IndexSettings(host="127.0.0.1", port=port), WordEmbedder()).documents()
    assert caught.value.transient


class _OtherServer(LoopbackServer):
    """Answers every request with a page, or never."""

    silent = False

    def answer(self, call: Call) -> None:
        if self.silent:
            self._stopping.wait()
        else:
            call.send(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html", "Connection": "close"})


async def test_a_server_that_is_no_chroma_is_reported() -> None:
    with _OtherServer() as server:
        settings = IndexSettings(host="127.0.0.1", port=int(server.origin.rsplit(":", 1)[1]))
        with pytest.raises(RetrievalError, match=server.origin):
            await Index(settings, WordEmbedder()).documents()


async def test_a_server_that_never_answers_does_not_hang_a_question() -> None:
    with _OtherServer() as server:
        server.silent = True
        settings = IndexSettings(host="127.0.0.1", port=int(server.origin.rsplit(":", 1)[1]))
        with pytest.raises(RetrievalError, match=r"no reply within 0\.2 s") as caught:
            await Index(settings, WordEmbedder(), server_timeout_s=0.2).documents()
        assert caught.value.transient
