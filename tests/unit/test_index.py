"""The internal index on a real embedded Chroma."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import chromadb
import pytest
from langchain_core.documents import Document

from crag_graph.components.chroma_client import ChromaConnection
from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.index import Index
from crag_graph.errors import ConfigurationError, NothingIngested, RetrievalError
from crag_graph.rules.passage import passage_text
from crag_graph.settings import IndexSettings
from tests.embedders import WordEmbedder

pytestmark = pytest.mark.anyio

BATTERY, BANANAS, PRICE = "The battery lasts twelve hours.", "Bananas are yellow.", "The pump costs 30 euro."


def chunk(text: str, source: str = "a.md", **metadata: str | int) -> Document:
    return Document(text, id=f"id-{source}-{text}", metadata={"source": source, "file_hash": "h1", **metadata})


def index_at(
    folder: Path, embedder: WordEmbedder | LocalEmbedder | None = None, collection: str = "documents"
) -> Index:
    return Index(IndexSettings(path=str(folder / "index"), collection=collection), embedder or WordEmbedder())


async def ingested(index: Index, *texts: str) -> Index:
    with index.writer():
        await index.add([chunk(text) for text in texts or (BATTERY, BANANAS, PRICE)])
        await index.commit()
    return index


async def texts_near(index: Index, question: str, k: int = 3, dimension: int = 64) -> list[str]:
    [vector] = await WordEmbedder(dimension=dimension).embed([question])
    return [document.page_content for document in await index.search(vector, k)]


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def open_chroma(folder: Path) -> chromadb.ClientAPI:
    return chromadb.PersistentClient(str(folder / "index"), chromadb.Settings(anonymized_telemetry=False))


async def test_the_nearest_chunk_comes_first_with_all_its_metadata(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    await index.add([chunk(BATTERY, title="Manual", heading="Power", page=3, date="2024-05-01"), chunk(BANANAS)])
    await index.commit()
    [vector] = await WordEmbedder().embed(["How many hours lasts the battery?"])
    first, second = await index.search(vector, 5)
    assert first.page_content == BATTERY
    assert second.page_content == BANANAS
    score = first.metadata.pop("retrieval_score")
    assert first.metadata == {
        "origin": "internal", "source": "a.md", "file_hash": "h1",
        "title": "Manual", "heading": "Power", "page": 3, "date": "2024-05-01",
    }  # fmt: skip
    assert 0 <= second.metadata["retrieval_score"] < score <= 1


async def test_what_is_embedded_is_the_passage_with_its_title_and_heading(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    document = chunk("It weighs 3 kg.", title="Falcon", heading="Specs")
    await index_at(tmp_path, embedder).add([document])
    assert embedder.embedded == [passage_text(document)] == ["Falcon › Specs\nIt weighs 3 kg."]


@pytest.mark.parametrize("call", ["search", "search_terms", "documents"])
async def test_asking_before_anything_is_ingested_says_so_and_creates_nothing(tmp_path: Path, call: str) -> None:
    index = index_at(tmp_path)
    ask = {
        "search": lambda: index.search([1.0] * 64, 3),
        "search_terms": lambda: index.search_terms("battery", 3),
        "documents": index.documents,
    }[call]
    with pytest.raises(NothingIngested, match="nothing is ingested yet; run: crag ingest PATH") as caught:
        await ask()
    assert not caught.value.transient
    assert is_empty(tmp_path)


async def test_looking_at_an_index_creates_nothing(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert await index.sources() == {}
    status = await index.status()
    assert (status.chunks, status.stored, status.unfinished, status.fits) == (0, None, False, True)
    await index.commit()
    await index.clear()
    assert is_empty(tmp_path)


async def test_a_folder_that_was_only_locked_holds_nothing(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    with index.writer():
        pass
    with pytest.raises(NothingIngested):
        await index.documents()
    assert not (tmp_path / "index" / "chroma.sqlite3").exists()


async def test_adding_again_embeds_nothing_and_adds_no_copy(tmp_path: Path) -> None:
    await ingested(index_at(tmp_path))
    embedder = WordEmbedder()
    again = await ingested(index_at(tmp_path, embedder))
    assert embedder.embedded == []
    found = await texts_near(again, "battery", 10)
    assert sorted(found) == sorted([BATTERY, BANANAS, PRICE])


async def test_the_same_chunk_twice_in_one_call_is_stored_once(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path), BATTERY, BATTERY)
    assert [document.page_content for document in await index.documents()] == [BATTERY]


async def test_a_stored_chunk_takes_over_new_metadata_without_being_embedded(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    index = await ingested(index_at(tmp_path, embedder), BATTERY)
    changed = chunk(BATTERY)
    changed.metadata["file_hash"] = "h2"
    await index.add([changed])
    await index.commit()
    assert await index.sources() == {"a.md": {changed.id: "h2"}}
    assert embedder.embedded == [BATTERY]


async def test_sources_tell_the_chunks_of_each_file(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    await index.add([chunk(BATTERY), chunk(PRICE), chunk(BANANAS, "b.md")])
    assert await index.sources() == {
        "a.md": {f"id-a.md-{BATTERY}": "h1", f"id-a.md-{PRICE}": "h1"},
        "b.md": {f"id-b.md-{BANANAS}": "h1"},
    }


async def test_more_chunks_than_one_statement_can_name_are_all_read(tmp_path: Path) -> None:
    await ingested(index_at(tmp_path, WordEmbedder(dimension=2)), BATTERY)
    collection = open_chroma(tmp_path).get_collection("documents", embedding_function=None)
    for start in range(0, 33_000, 5_000):
        ids = [f"row-{n}" for n in range(start, start + 5_000)]
        rows = {
            "embeddings": [[0.6, 0.8]] * 5_000,
            "documents": ["x"] * 5_000,
            "metadatas": [{"source": "b.md"}] * 5_000,
        }
        collection.add(ids=ids, **rows)
    index = index_at(tmp_path, WordEmbedder(dimension=2))
    await index.commit()
    assert len((await index.sources())["b.md"]) == 35_000
    assert len({document.id for document in await index.documents()}) == 35_001
    assert (await index.search_terms("battery", 1))[0].page_content == BATTERY


async def test_removed_chunks_are_found_no_more(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    await index.remove([str(chunk(BATTERY).id), "unknown"])
    await index.commit()
    assert BATTERY not in await texts_near(index, BATTERY)
    assert await index.search_terms("battery", 3) == []


async def test_when_the_last_chunk_is_removed_nothing_is_ingested(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path), BATTERY)
    await index.remove([str(chunk(BATTERY).id)])
    await index.commit()
    with pytest.raises(NothingIngested):
        await index.documents()
    await ingested(index_at(tmp_path, WordEmbedder("words-b", 32)), PRICE)


async def test_progress_counts_every_chunk(tmp_path: Path) -> None:
    done: list[int] = []
    await index_at(tmp_path).add([chunk(f"text number {n}") for n in range(300)], done.append)
    assert sum(done) == 300
    assert len(done) > 1


async def test_terms_are_ranked_and_only_shared_terms_count(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    found = await index.search_terms("What does the pump cost?", 3)
    assert [document.page_content for document in found] == [PRICE]
    assert 0 < found[0].metadata["retrieval_score"] < 1
    assert await index.search_terms("zebra", 3) == []
    assert await index.search_terms("???", 3) == []


async def test_term_search_reads_the_files_of_the_last_ingest(tmp_path: Path) -> None:
    await ingested(index_at(tmp_path))
    [files] = (tmp_path / "index" / "bm25" / "documents").iterdir()
    vocabulary = files / "vocab.index.json"
    vocabulary.write_text(vocabulary.read_text().replace("batteri", "zebra"))
    [found] = await index_at(tmp_path).search_terms("zebra", 3)
    assert found.page_content == BATTERY


async def test_damaged_term_files_are_replaced_by_the_texts(tmp_path: Path) -> None:
    await ingested(index_at(tmp_path))
    [files] = (tmp_path / "index" / "bm25" / "documents").iterdir()
    (files / "ids.json").write_text("[")
    [found] = await index_at(tmp_path).search_terms("battery", 3)
    assert found.page_content == BATTERY


async def test_only_the_term_files_of_the_last_ingest_are_kept(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path), BATTERY)
    other = await ingested(index_at(tmp_path, collection="documents-2"), BANANAS)
    await ingested(index, PRICE)
    assert len(list((tmp_path / "index" / "bm25" / "documents").iterdir())) == 1
    assert [document.page_content for document in await other.search_terms("bananas", 3)] == [BANANAS]


async def test_clearing_drops_one_collection_and_keeps_the_folder_and_the_others(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path), BATTERY)
    other = await ingested(index_at(tmp_path, collection="documents-2"), BANANAS)
    before = (tmp_path / "index" / "chroma.sqlite3").stat().st_ino
    await index.clear()
    with pytest.raises(NothingIngested):
        await index.documents()
    assert [document.page_content for document in await other.documents()] == [BANANAS]
    assert (tmp_path / "index" / "chroma.sqlite3").stat().st_ino == before


async def test_rebuilding_twice_in_one_process_works(tmp_path: Path) -> None:
    for embedder in (WordEmbedder("words-a"), WordEmbedder("words-b", 32), WordEmbedder("words-a")):
        index = index_at(tmp_path, embedder)
        with index.writer():
            await index.clear()
            await index.add([chunk(BATTERY)])
            await index.commit()
        assert await texts_near(index, "battery", dimension=embedder.dimension) == [BATTERY]


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("length", [0.01, 1.0, 400.0])
async def test_scores_lie_between_0_and_1_best_first_whatever_the_space_and_length(
    tmp_path: Path, space: str, length: float
) -> None:
    client = open_chroma(tmp_path)
    collection = client.create_collection(
        "documents", configuration={"hnsw": {"space": space}}, embedding_function=None
    )
    directions = {"same": [1.0, 0.0], "near": [0.8, 0.6], "across": [0.0, 1.0], "against": [-1.0, 0.0]}
    collection.add(
        ids=list(directions),
        documents=list(directions),
        embeddings=[[x * length for x in v] for v in directions.values()],
    )
    found = await index_at(tmp_path, WordEmbedder(dimension=2)).search([1.0, 0.0], 10)
    scores = [document.metadata["retrieval_score"] for document in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    if length == 1.0:
        assert [document.id for document in found] == ["same", "near", "across", "against"]
        assert scores[0] > scores[1] > scores[2] > scores[3]


async def test_the_local_embedder_gets_the_vectors_of_what_was_found(tmp_path: Path) -> None:
    embedder = LocalEmbedder()
    await ingested(index_at(tmp_path, embedder))
    [question] = await embedder.embed(["How long does the battery last?"])
    reader = _Counting()
    index = index_at(tmp_path, reader)
    passages = [passage_text(document) for document in await index.search(question, 3)]
    assert len(await reader.embed(passages)) == 3
    await reader.embed([passage_text(document) for document in await index.search_terms("battery", 3)])
    assert reader.run == []
    for taken_over, computed in zip(await reader.embed(passages), await embedder.embed(passages), strict=True):
        assert taken_over == pytest.approx(computed, abs=1e-6)


class _Counting(LocalEmbedder):
    """Counts the texts that the model really ran."""

    def __init__(self) -> None:
        super().__init__()
        self.run: list[str] = []

    def _run(self, text: str) -> list[float]:
        self.run.append(text)
        return super()._run(text)


async def test_two_first_questions_at_once_open_the_index_once(tmp_path: Path) -> None:
    await ingested(index_at(tmp_path))
    connection = _CountingConnection(IndexSettings(path=str(tmp_path / "index")))
    found = await asyncio.gather(*(asyncio.to_thread(connection.collection) for _ in range(8)))
    assert {collection.name for collection in found} == {"documents"}
    assert connection.opened == 1


class _CountingConnection(ChromaConnection):
    opened = 0

    def _connect(self) -> Any:
        self.opened += 1
        return super()._connect()


async def test_questions_at_once_find_what_each_asked_for(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    asked = [BATTERY, BANANAS, PRICE] * 10
    vectors = await WordEmbedder().embed(asked)
    found = await asyncio.gather(*(index.search(vector, 1) for vector in vectors))
    assert [documents[0].page_content for documents in found] == asked


IN_ANOTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from tests.unit.test_index import chunk, index_at

async def main(folder, act, text):
    index = index_at(Path(folder))
    with index.writer():
        if act == "rebuild":
            await index.clear()
        if act == "remove":
            await index.remove([chunk(text).id])
        else:
            await index.add([chunk(text)])
            await index.commit()

asyncio.run(main(*sys.argv[1:]))
"""


def elsewhere(folder: Path, act: str, text: str) -> None:
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(folder), act, text]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])


async def test_an_open_index_does_not_return_what_another_process_is_removing(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    assert BATTERY in await texts_near(index, BATTERY)
    elsewhere(tmp_path, "remove", BATTERY)
    assert sorted(await texts_near(index, BATTERY, 2)) == sorted([BANANAS, PRICE])


async def test_an_open_index_finds_what_another_process_has_ingested(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    other_reader = index_at(tmp_path)
    assert "The tent is green." not in await texts_near(other_reader, "green tent")
    await index.search_terms("tent", 3)
    elsewhere(tmp_path, "add", "The tent is green.")
    for reader in (index, other_reader):
        assert (await texts_near(reader, "The tent is green."))[0] == "The tent is green."
        assert [each.page_content for each in await reader.search_terms("tent", 3)] == ["The tent is green."]


async def test_an_open_index_follows_a_rebuild_by_another_process(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    elsewhere(tmp_path, "rebuild", "The tent is green.")
    assert await texts_near(index, "battery") == ["The tent is green."]
    assert await index.search_terms("battery", 3) == []


async def test_an_open_index_notices_that_its_folder_was_deleted_and_made_anew(tmp_path: Path) -> None:
    index = await ingested(index_at(tmp_path))
    (tmp_path / "index").rename(tmp_path / "old")
    with pytest.raises(NothingIngested):
        await index.documents()
    elsewhere(tmp_path, "add", "The tent is green.")
    assert await texts_near(index, "battery") == ["The tent is green."]


async def test_a_second_writer_waits_then_names_the_lock(tmp_path: Path) -> None:
    first, second = index_at(tmp_path), index_at(tmp_path)
    with first.writer(), pytest.raises(ConfigurationError, match=r"writer\.lock: another ingest"), second.writer(0.05):
        pass
    with second.writer(0.05):
        pass


async def test_a_second_writer_goes_on_when_the_first_has_ended(tmp_path: Path) -> None:
    first, second = index_at(tmp_path), index_at(tmp_path)

    def write_second() -> str:
        with second.writer(30):
            return "written"

    with first.writer():
        waiting = asyncio.create_task(asyncio.to_thread(write_second))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == "written"


async def test_a_file_in_the_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("not a folder")
    with pytest.raises(ConfigurationError, match=r"cannot be written.*check index\.path"), index_at(tmp_path).writer():
        pass


async def test_a_database_that_is_not_one_is_reported(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "chroma.sqlite3").write_text("this is no database " * 1000)
    with pytest.raises(RetrievalError, match=str(tmp_path / "index")) as caught:
        await index_at(tmp_path).documents()
    assert not caught.value.transient
