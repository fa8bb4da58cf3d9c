"""What goes wrong when folders are ingested, again and again: into a real index, with a made-up embedder."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from crag_graph.components.index import Index
from crag_graph.errors import ConfigurationError, InputError, NothingIngested, RetrievalError
from crag_graph.ingest.run import Summary, ingest
from crag_graph.settings import IndexSettings, IngestSettings, Settings

pytestmark = pytest.mark.anyio
PLAIN = Settings(ingest=IngestSettings(chunk_chars=100, chunk_overlap=0))


class HashEmbedder:
    """Gives every text a vector of its own, counts, and can fail from some text on."""

    name, fingerprint, dimension = "hash", "1", 16

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.fail_at: int | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fail_at is not None and len(self.embedded) + len(texts) > self.fail_at:
            raise RetrievalError("the model went away", component="embedder", transient=True)
        self.embedded += texts
        return [[byte - 127.5 for byte in hashlib.md5(text.encode()).digest()] for text in texts]


class Library:
    """An index in a folder of its own, and what is ingested into it."""

    def __init__(self, folder: Path) -> None:
        self.docs = folder / "docs"
        self.docs.mkdir()
        self.embedder = HashEmbedder()
        self.store = folder / "index"
        self.index = self.reopened()

    def reopened(self) -> Index:
        return Index(IndexSettings(path=str(self.store)), self.embedder)

    def write(self, name: str, text: str) -> Path:
        path = self.docs / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    async def ingest(self, *paths: Path, **options: Any) -> tuple[Summary, int]:
        """Return the summary and the number of texts that were embedded."""
        before = len(self.embedder.embedded)
        summary = await ingest(paths or [self.docs], self.index, options.pop("settings", PLAIN), **options)
        return summary, len(self.embedder.embedded) - before

    async def texts(self) -> list[str]:
        try:
            documents = await self.index.documents()
        except NothingIngested:
            return []
        return sorted(document.page_content for document in documents)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def paragraphs(*numbers: int) -> str:
    return "\n\n".join(f"Paragraph {n} ".ljust(80, "x") for n in numbers)


def counts(summary: Summary) -> tuple[int, int, int, int, int]:
    keys = ("added", "updated", "unchanged", "removed", "chunks")
    return tuple(summary[key] for key in keys)  # type: ignore[literal-required, return-value]


async def test_a_second_run_adds_and_embeds_nothing(library: Library) -> None:
    library.write("a.md", "# A\n" + paragraphs(1, 2, 3))
    library.write("sub/b.txt", "Other text.")
    first, embedded = await library.ingest()
    assert (counts(first), embedded) == ((2, 0, 0, 0, 4), 4)
    library.index = library.reopened()
    second, embedded = await library.ingest()
    assert (counts(second), embedded) == ((0, 0, 2, 0, 4), 0)
    assert len(set(await library.texts())) == 4


async def test_a_file_whose_bytes_are_the_same_is_left_as_it_is_stored(library: Library) -> None:
    path = library.write("a.txt", "Text.")
    await library.ingest()
    ((id_, file_hash),) = (await library.index.sources())[str(path)].items()
    await library.index.remove([id_])
    other = Document("Not from the file.", id=id_, metadata={"source": str(path), "file_hash": file_hash})
    await library.index.add([other])
    assert counts((await library.ingest())[0]) == (0, 0, 1, 0, 1)
    assert await library.texts() == ["Not from the file."]


async def test_text_that_was_cut_from_a_file_is_gone(library: Library) -> None:
    path = library.write("a.md", paragraphs(*range(10)))
    await library.ingest()
    path.write_text(paragraphs(3, 4))
    summary, embedded = await library.ingest()
    assert (counts(summary), embedded) == ((0, 1, 0, 0, 2), 0)
    assert await library.texts() == [paragraphs(3), paragraphs(4)]
    path.unlink()
    assert counts((await library.ingest())[0]) == (0, 0, 0, 0, 0)
    assert len(await library.texts()) == 2  # only --sync removes files
    assert counts((await library.ingest(sync=True))[0]) == (0, 0, 0, 1, 0)
    assert await library.texts() == []


async def test_a_file_of_several_batches_is_updated_as_a_small_one_is(library: Library) -> None:
    path = library.write("a.txt", paragraphs(*range(700)))
    summary, _ = await library.ingest()
    assert counts(summary) == (1, 0, 0, 0, 700)
    path.write_text(paragraphs(*range(1, 350), 1000))
    summary, embedded = await library.ingest()
    assert (counts(summary), embedded) == ((0, 1, 0, 0, 350), 1)
    assert len(await library.texts()) == 350
    assert counts((await library.ingest())[0]) == (0, 0, 1, 0, 350)


async def test_an_interrupted_run_is_taken_up_where_it_ended(library: Library) -> None:
    library.write("a.txt", paragraphs(*range(600)))
    library.embedder.fail_at = 300
    with pytest.raises(RetrievalError, match="the model went away"):
        await library.ingest()
    stored = len(library.embedder.embedded)
    assert 0 < stored <= 300
    library.embedder.fail_at = None
    library.index = library.reopened()
    summary, embedded = await library.ingest()
    assert (counts(summary), embedded) == ((0, 1, 0, 0, 600), 600 - stored)
    assert len(await library.texts()) == 600


async def test_a_run_that_was_killed_is_taken_up_and_its_lock_is_free(library: Library) -> None:
    path = library.write("a.txt", paragraphs(*range(600)))
    script = f"""
import asyncio, os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_ingest import *

class Dying(HashEmbedder):
    async def embed(self, texts):
        if len(self.embedded) >= 200:
            os._exit(9)
        return await super().embed(texts)

index = Index(IndexSettings(path={str(library.store)!r}), Dying())
asyncio.run(ingest([{str(path)!r}], index, PLAIN))
"""
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=False)
    assert killed.returncode == 9
    stored = sum(map(len, (await library.index.sources()).values()))
    assert 0 < stored < 600
    summary, embedded = await library.ingest()
    assert (counts(summary), embedded) == ((0, 1, 0, 0, 600), 600 - stored)
    assert len(await library.texts()) == 600


async def test_an_interrupted_update_is_finished_by_the_next_run(library: Library) -> None:
    path = library.write("a.txt", paragraphs(*range(200)))
    await library.ingest()
    path.write_text(paragraphs(*range(100, 500)))
    library.embedder.fail_at = len(library.embedder.embedded) + 130
    with pytest.raises(RetrievalError):
        await library.ingest()
    library.embedder.fail_at = None
    assert counts((await library.ingest())[0]) == (0, 1, 0, 0, 400)
    assert await library.texts() == sorted(paragraphs(n) for n in range(100, 500))


async def test_one_bad_file_never_stops_the_rest(library: Library) -> None:
    for name in ("a.md", "m.txt", "z.jsonl"):
        library.write(name, '"Good text."')
    (library.docs / "b.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (library.docs / "c.txt").symlink_to(library.docs / "nowhere")
    library.write("ignored.bin", "x")
    summary, _ = await library.ingest()
    assert counts(summary) == (3, 0, 0, 0, 3)
    assert [(Path(each["path"]).name, each["reason"]) for each in summary["failed"]] == [
        ("b.txt", "binary content, or text in an unknown encoding"),
        ("c.txt", "cannot be read: no such file"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
async def test_a_folder_without_permission_is_reported(library: Library) -> None:
    library.write("closed/a.md", "Text.")
    (library.docs / "closed").chmod(0)
    summary, _ = await library.ingest()
    assert summary["failed"] == [{"path": str(library.docs / "closed"), "reason": "cannot be read: Permission denied"}]


async def test_files_that_are_named_must_be_readable_and_paths_must_exist(library: Library) -> None:
    odd = library.write("odd.bin", "x")
    summary, _ = await library.ingest(odd)
    assert "unsupported format '.bin'" in summary["failed"][0]["reason"]
    with pytest.raises(InputError, match=r"missing\.md: no such file or folder"):
        await library.ingest(library.docs / "missing.md")


async def test_a_file_that_cannot_be_read_any_more_is_not_quoted_any_more(library: Library) -> None:
    path = library.write("a.json", '{"text": "Old."}')
    await library.ingest()
    path.write_text('{"text": ')
    summary, _ = await library.ingest()
    assert counts(summary) == (0, 0, 0, 1, 0)
    assert summary["failed"][0]["reason"].startswith("not JSON")
    assert await library.texts() == []


async def test_a_file_that_is_out_of_reach_stays_stored(library: Library) -> None:
    path = library.write("a.txt", "Text.")
    await library.ingest()
    small = Settings(ingest=IngestSettings(chunk_chars=100, chunk_overlap=0, max_file_mb=1e-6))
    summary, _ = await library.ingest(settings=small, sync=True)
    assert (counts(summary), len(summary["failed"])) == ((0, 0, 0, 0, 0), 1)
    path.unlink()
    library.docs.rename(library.docs.with_name("elsewhere"))
    library.docs.mkdir()
    library.write("b.txt", "Other.")
    assert counts((await library.ingest(library.docs / "b.txt", sync=True))[0]) == (1, 0, 0, 0, 1)
    assert await library.texts() == ["Other.", "Text."]


async def test_a_folder_that_is_gone_can_be_synced_away(library: Library) -> None:
    library.write("sub/a.txt", "Text.")
    library.write("sub2/b.txt", "Other.")
    await library.ingest()
    shutil.rmtree(library.docs / "sub")
    with pytest.raises(InputError, match="no such file or folder"):
        await library.ingest(library.docs / "sub")
    assert counts((await library.ingest(library.docs / "sub", sync=True))[0]) == (0, 0, 0, 1, 0)
    assert await library.texts() == ["Other."]


async def test_one_file_is_stored_once_however_it_is_named(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library.write("a.txt", "Text.")
    await library.ingest()
    monkeypatch.chdir(library.docs)
    for name in (Path("a.txt"), Path("."), Path("../docs/a.txt"), path):
        assert counts((await library.ingest(name))[0]) == (0, 0, 1, 0, 1)
    assert list(await library.index.sources()) == [str(path)]


async def test_the_same_text_twice_is_stored_twice(library: Library) -> None:
    library.write("a.md", "# A\nSame.\n# A\nSame.")
    library.write("b.md", "# A\nSame.\n# A\nSame.")
    await library.ingest()
    assert await library.texts() == ["Same."] * 4


async def test_other_chunk_sizes_apply_to_unchanged_files_too(library: Library) -> None:
    library.write("a.txt", paragraphs(1, 2))
    await library.ingest()
    wider = Settings(ingest=IngestSettings(chunk_chars=200, chunk_overlap=0))
    summary, _ = await library.ingest(settings=wider)
    assert counts(summary) == (0, 1, 0, 0, 1)
    assert await library.texts() == [paragraphs(1, 2)]


async def test_text_that_no_encoder_takes_is_mended_and_warned_about_once(library: Library) -> None:
    path = library.write("a.json", r'{"a": "lone \ud835 surrogate", "b": "nul \u0000 byte", "c": "😀"}')
    summary, _ = await library.ingest()
    assert summary["warnings"] == [{"path": str(path), "reason": "2 unreadable characters replaced"}]
    assert await library.texts() == ["a: lone \ufffd surrogate\nb: nul \ufffd byte\nc: 😀"]
    assert len(await library.index.search([1.0] * 16, 1)) == 1


async def test_front_matter_of_any_shape_is_stored(library: Library) -> None:
    library.write("a.md", "---\ntags: [a, b]\nauthor:\ndate: 2024-03-05 07:30:00\nextra: {x: 1}\npages: []\n---\nText.")
    await library.ingest()
    (document,) = await library.index.documents()
    metadata = {key: document.metadata[key] for key in ("tags", "date", "extra")}
    assert metadata == {"tags": '["a", "b"]', "date": "2024-03-05", "extra": '{"x": 1}'}
    assert not {"author", "pages", "page"} & document.metadata.keys()


async def test_progress_is_told_per_file_and_per_batch(library: Library) -> None:
    library.write("a.txt", paragraphs(*range(300)))
    library.write("b.txt", "Text.")
    files: list[tuple[str, int, int]] = []
    chunks: list[tuple[int, int]] = []
    await library.ingest(
        progress=lambda path, done, total: files.append((Path(path).name, done, total)),
        chunk_progress=lambda stored, ready: chunks.append((stored, ready)),
    )
    assert files == [("a.txt", 1, 2), ("b.txt", 2, 2)]
    assert len(chunks) > 2
    assert chunks == sorted(chunks)
    assert chunks[-1] == (301, 301)


async def test_two_hundred_files_are_ingested_in_one_run(library: Library) -> None:
    for number in range(200):
        library.write(f"{number:03}.md", f"# Note {number}\n\nText of note {number}.\n")
    assert counts((await library.ingest())[0]) == (200, 0, 0, 0, 200)
    (library.docs / "007.md").write_text("# Note 7\n\nChanged.\n")
    (library.docs / "008.md").unlink()
    summary, embedded = await library.ingest(sync=True)
    assert (counts(summary), embedded) == ((0, 1, 198, 1, 199), 1)


async def test_a_folder_without_anything_to_read_makes_no_index(library: Library) -> None:
    assert counts((await library.ingest())[0]) == (0, 0, 0, 0, 0)
    assert not (library.store / "chroma.sqlite3").exists()


async def test_a_second_ingest_is_told_about_the_first(library: Library) -> None:
    library.write("a.txt", "Text.")
    other = library.reopened()
    with other.writer(), pytest.raises(ConfigurationError, match="another ingest"), library.index.writer(wait_s=0):
        pass
    assert counts((await library.ingest())[0]) == (1, 0, 0, 0, 1)
