"""Bringing the index in line with files and folders."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from langchain_core.documents import Document
from typing_extensions import TypedDict

from crag_graph.components.index import Index
from crag_graph.errors import InputError
from crag_graph.ingest.chunks import chunk
from crag_graph.ingest.loaders import find_files, parse, read_bytes
from crag_graph.settings import IngestSettings, Settings

FileProgress = Callable[[str, int, int], None]
ChunkProgress = Callable[[int, int], None]

_TOGETHER = 256  # chunks of small files that are stored at once
_FORMAT = 1  # goes up when the same file would give other chunks than before


class Note(TypedDict):
    """Something about one file that a person should know."""

    path: str
    reason: str


class Summary(TypedDict):
    """What became of the files, in numbers of files; `chunks` is how many of their chunks are stored now.

    A file that failed may also count as removed: when it has changed, what it said before is no longer stored.
    """

    added: int
    updated: int
    unchanged: int
    removed: int
    chunks: int
    failed: list[Note]
    warnings: list[Note]


async def ingest(
    paths: Sequence[str | Path],
    index: Index,
    settings: Settings,
    *,
    sync: bool = False,
    rebuild: bool = False,
    progress: FileProgress | None = None,
    chunk_progress: ChunkProgress | None = None,
) -> Summary:
    """Store what is new or changed in files and folders; what has vanished from a changed file is removed.

    With `rebuild`, the collection is dropped first, whoever made it. With `sync`, files at or below the paths that are
    gone are removed, too. A file that cannot be read is reported and does not stop the others. A run that was
    interrupted is taken up where it ended.

    `progress` is told path, number and count of the files; `chunk_progress` the number of chunks that are stored and
    of those that are ready to be.

    Raises:
        InputError: a path does not exist.
        ConfigurationError: another ingest is running, or another embedder made the index.
        RetrievalError: the embedder or the store failed; what was stored before stays.
    """
    roots = [_absolute(path) for path in paths]
    with index.writer():
        if rebuild:
            await index.clear()
        work = _Ingest(index, await index.sources(), settings.ingest, chunk_progress)
        present = await asyncio.to_thread(_present, roots, work.stored if sync else {})
        files, closed, passed = await asyncio.to_thread(find_files, present)
        for folder, reason in closed.items():
            work.summary["failed"].append(Note(path=str(folder), reason=reason))
        if passed:
            kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(passed.items()))
            where = ", ".join(map(str, present))
            work.summary["warnings"].append(Note(path=where, reason=f"passed over, no reader knows them: {kinds}"))
        for number, path in enumerate(files, start=1):
            if progress:
                progress(str(path), number, len(files))
            await work.take(path)
        await work.store()
        if sync:
            await work.remove_gone(roots)
        if work.stored or work.summary["chunks"]:
            await index.commit()
    return work.summary


class _Ingest:
    """One run: takes file after file, and stores them in groups."""

    def __init__(
        self,
        index: Index,
        stored: Mapping[str, Mapping[str, str]],
        settings: IngestSettings,
        chunk_progress: ChunkProgress | None,
    ) -> None:
        self.stored = stored
        self.summary = Summary(added=0, updated=0, unchanged=0, removed=0, chunks=0, failed=[], warnings=[])
        self._index = index
        self._settings = settings
        self._chunk_progress = chunk_progress
        self._ready: list[Document] = []
        self._stale: list[str] = []
        self._made = 0
        self._done = 0

    async def take(self, path: Path) -> None:
        """Read one file, unless it is stored as it is."""
        stored = self.stored.get(str(path), {})
        current = True
        try:
            raw = await asyncio.to_thread(read_bytes, path, self._settings.max_file_mb)
            digest = await asyncio.to_thread(_digest, raw, self._settings)
            current = _is_complete(stored, digest)
            if current:
                self.summary["unchanged"] += 1
                self.summary["chunks"] += len(stored)
                return
            chunks, warnings = await asyncio.to_thread(_chunks, path, raw, self._settings)
        except InputError as error:
            self.summary["failed"].append(Note(path=str(path), reason=str(error)))
            if stored and not current:  # what the file said before is not in it any more
                self._stale += stored
                self.summary["removed"] += 1
            return
        for item in chunks:
            item.metadata["file_hash"] = _mark(digest, len(chunks))
        self.summary["updated" if stored else "added"] += 1
        self.summary["chunks"] += len(chunks)
        self.summary["warnings"] += [Note(path=str(path), reason=warning) for warning in warnings]
        self._ready += chunks
        self._made += len(chunks)
        self._stale += stored.keys() - {item.id for item in chunks}
        if len(self._ready) >= _TOGETHER:
            await self.store()

    async def store(self) -> None:
        """Store what is ready. New chunks come first: an interruption leaves too much, never too little."""
        await self._index.add(self._ready, self._note_stored)
        await self._index.remove(self._stale)
        self._ready, self._stale = [], []

    async def remove_gone(self, roots: Sequence[Path]) -> None:
        """Remove the stored files at or below `roots` that are not on the disk any more."""
        below = [source for source in self.stored if _is_below(source, roots)]
        gone = await asyncio.to_thread(lambda: [source for source in below if _is_gone(source)])
        await self._index.remove([id_ for source in gone for id_ in self.stored[source]])
        self.summary["removed"] += len(gone)

    def _note_stored(self, count: int) -> None:
        self._done += count
        if self._chunk_progress:
            self._chunk_progress(self._done, self._made)


def _absolute(path: str | Path) -> Path:
    """Return one spelling for a path, so that no file is stored under two; links stay as they are named."""
    return Path(os.path.abspath(Path(path).expanduser()))


def _chunks(path: Path, raw: bytes, settings: IngestSettings) -> tuple[list[Document], tuple[str, ...]]:
    loaded = parse(path, raw)
    return chunk(loaded, settings), loaded.warnings


def _digest(raw: bytes, settings: IngestSettings) -> str:
    """Return a hash of everything that a file's chunks depend on."""
    how = f"{_FORMAT} {settings.chunk_chars} {settings.chunk_overlap}\n"
    return hashlib.sha256(how.encode() + raw).hexdigest()[:32]


def _mark(digest: str, count: int) -> str:
    """Return the `file_hash` of a chunk: what the file was, and how many chunks it has."""
    return f"{digest}-{count}"


def _is_complete(stored: Mapping[str, str], digest: str) -> bool:
    """Tell whether all chunks of a file are stored and none besides them."""
    return set(stored.values()) == {_mark(digest, len(stored))}


def _present(roots: Iterable[Path], stored: Iterable[str]) -> list[Path]:
    """Return the roots that exist; the others must at least be known from what is stored."""
    present, known = [], list(stored)
    for root in roots:
        if os.path.exists(root):
            present.append(root)
        elif not any(_is_below(source, [root]) for source in known):
            raise InputError(f"{root}: no such file or folder")
    return present


def _is_below(source: str, roots: Iterable[Path]) -> bool:
    return any(Path(source).is_relative_to(root) for root in roots)


def _is_gone(source: str) -> bool:
    """Tell whether a file does not exist; one that cannot be looked at may."""
    try:
        os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
