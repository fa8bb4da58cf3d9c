"""The internal index: chunks with their vectors in Chroma, and their terms beside it.

A chunk's id must change whenever its `passage_text` does: what is stored under an id is never embedded again.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from langchain_core.documents import Document

from crag_graph.components import index_mark
from crag_graph.components.chroma_client import ChromaConnection, location, relevance, state, translated
from crag_graph.components.index_mark import IndexStatus
from crag_graph.components.term_index import TermIndex, TermStore
from crag_graph.errors import ConfigurationError, NothingIngested, RetrievalError
from crag_graph.protocols import Embedder
from crag_graph.rules.passage import passage_text
from crag_graph.settings import IndexSettings

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 10_000  # rows read at a time: Chroma names each in one SQL statement, which takes 32,766 at most
_BATCH = 128  # chunks embedded and stored at a time: what an interrupted ingest loses at most


@runtime_checkable
class VectorMemory(Protocol):
    """An embedder that takes over vectors which the index has already."""

    def remember(self, text: str, vector: list[float]) -> None: ...


class Index:
    """One Chroma collection, embedded (`index.path`) or on a server (`index.host`).

    Nothing is opened or created before it is needed. What another process ingests is seen from its `commit` on.
    Every method raises RetrievalError when Chroma fails, and ConfigurationError when another embedder made the index.
    """

    def __init__(self, settings: IndexSettings, embedder: Embedder, server_timeout_s: float = 60) -> None:
        self.warnings: list[str] = []  # what a reader should know, as of the last use
        self._where = location(settings)
        self._settings = settings
        self._embedder = embedder
        self._timeout_s = None if settings.host is None else server_timeout_s
        self._chroma = ChromaConnection(settings)
        self._terms = TermStore(Path(self._where) / "bm25" / settings.collection if settings.host is None else None)

    async def search(self, vector: Sequence[float], k: int) -> list[Document]:
        """Return the `k` chunks nearest to `vector`, best first, with `retrieval_score` in [0, 1].

        Raises:
            NothingIngested: there is no chunk.
        """
        return await self._run(self._search, list(vector), k)

    async def search_terms(self, question: str, k: int) -> list[Document]:
        """Return the `k` best chunks by BM25, best first, with `retrieval_score` in (0, 1).

        Raises:
            NothingIngested: there is no chunk.
        """
        return await self._run(self._search_terms, question, k)

    async def word_counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return in how many chunks each word occurs; all 0 where nothing is ingested."""
        return await self._run(self._word_counts, words)

    async def documents(self) -> list[Document]:
        """Return all chunks.

        Raises:
            NothingIngested: there is no chunk.
        """
        return await self._run(lambda: self._fetch_all(self._filled()))

    async def sources(self) -> dict[str, dict[str, str]]:
        """Return the file hash per chunk id per source path; {} when nothing is ingested."""
        return await self._run(self._sources)

    async def status(self) -> IndexStatus:
        """Return what is stored and what is configured; creates nothing, and does not refuse a mismatch."""
        return await self._run(self._status)

    @contextmanager
    def writer(self, wait_s: float = 10) -> Iterator[None]:
        """Keep every other writer on this machine out; blocks for up to `wait_s` seconds.

        Raises:
            ConfigurationError: another writer holds the lock, or it cannot be written.
        """
        from filelock import FileLock, Timeout

        path = self._lock_path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path, thread_local=False)  # taken and left in a thread, not always the same one
            lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise ConfigurationError(
                f"{path}: another ingest holds this lock; run again when it has ended (waited {wait_s:g} s)"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written: {error}; check index.path") from error
        try:
            yield
        finally:
            lock.release()

    async def add(self, chunks: Sequence[Document], progress: Callable[[int], None] | None = None) -> None:
        """Store chunks by id; only those not stored yet are embedded. `progress` gets the size of each batch done.

        Raises:
            RetrievalError: the embedder or Chroma failed; batches done before stay.
        """
        unique = list({chunk.id: chunk for chunk in chunks}.values())
        size = await self._run(self._batch_size) if unique else _BATCH
        for start in range(0, len(unique), size):
            batch = unique[start : start + size]
            missing = await self._run(self._update_stored, batch)
            if missing:
                vectors = await self._embedder.embed([passage_text(chunk) for chunk in missing])
                await self._run(self._store, missing, vectors)
            if progress:
                progress(len(batch))

    async def remove(self, ids: Sequence[str]) -> None:
        """Delete chunks; ids that are not stored are passed over."""
        size = await self._run(self._batch_size) if ids else _BATCH
        for start in range(0, len(ids), size):
            await self._run(self._delete, list(ids[start : start + size]))

    async def commit(self) -> None:
        """Declare the ingest clean: write who made the vectors, the revision and the BM25 files."""
        await self._run(self._commit)

    async def clear(self) -> None:
        """Drop the collection, whoever made it; the folder and other collections stay."""
        await self._run(self._clear)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def translating() -> T:
            with translated(self._settings):
                return work(*args, **kwargs)

        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.to_thread(translating)
        except TimeoutError as error:
            message = f"{self._where}: no reply within {self._timeout_s:g} s"
            raise RetrievalError(message, component="index", transient=True) from error

    # From here on everything blocks, and runs in a thread.

    def _filled(self, dimension: int = 0) -> Any:
        collection = self._chroma.collection()
        if collection is None or not collection.count():
            raise NothingIngested(f"{self._where}: nothing is ingested yet; run: crag ingest PATH", component="index")
        self._check(collection, dimension)
        return collection

    def _check(self, collection: Any, dimension: int = 0) -> None:
        index_mark.check(collection, index_mark.configured(self._embedder, dimension), self._where)
        self.warnings = index_mark.doubts(collection.metadata or {}, self._where)

    def _search(self, vector: list[float], k: int) -> list[Document]:
        collection = self._filled(len(vector))
        found = self._nearest(collection, vector, k)
        if None in found["documents"]:  # another process has removed chunks whose vectors are still in memory here
            self._chroma.reopen()
            collection = self._filled(len(vector))
            found = self._nearest(collection, vector, k)
        space = collection.configuration_json["hnsw"]["space"]
        return self._read(found, [relevance(space, distance) for distance in found["distances"]])

    def _nearest(self, collection: Any, vector: list[float], k: int) -> dict[str, Any]:
        include = ["documents", "metadatas", "distances", *self._vectors()]
        found = collection.query(query_embeddings=[vector], n_results=k, include=include)
        return {column: found[column][0] for column in ("ids", *include)}

    def _search_terms(self, question: str, k: int) -> list[Document]:
        collection = self._filled()
        term_index = self._terms.current(state(collection), lambda: self._build_terms(collection))
        scores = dict(term_index.top(question, k))
        if not scores:
            return []
        found = {str(document.id): document for document in self._fetch(collection, list(scores))}
        for id_, document in found.items():
            document.metadata["retrieval_score"] = scores[id_]
        return [found[id_] for id_ in scores if id_ in found]  # a chunk may have been removed since the last commit

    def _word_counts(self, words: Sequence[str]) -> dict[str, int]:
        collection = self._chroma.collection()
        if collection is None or not collection.count():
            return dict.fromkeys(words, 0)
        return self._terms.current(state(collection), lambda: self._build_terms(collection)).counts(words)

    def _fetch(self, collection: Any, ids: list[str]) -> list[Document]:
        return self._read(collection.get(ids=ids, include=["documents", "metadatas", *self._vectors()]))

    def _fetch_all(self, collection: Any) -> list[Document]:
        pages = _pages(collection, ["documents", "metadatas"])
        return [document for page in pages for document in self._read(page)]

    def _vectors(self) -> list[str]:
        return ["embeddings"] if isinstance(self._embedder, VectorMemory) else []

    def _read(self, columns: Any, scores: Sequence[float] | None = None) -> list[Document]:
        """Return one document per row; a row without a text, as other programs may store, is left out."""
        documents = []
        for row, text in enumerate(columns["documents"]):
            if text is None:
                continue
            metadata = {"origin": "internal", **(columns["metadatas"][row] or {})}
            if scores:
                metadata["retrieval_score"] = scores[row]
            document = Document(text, id=columns["ids"][row], metadata=metadata)
            if columns.get("embeddings") is not None and isinstance(self._embedder, VectorMemory):
                self._embedder.remember(passage_text(document), columns["embeddings"][row].tolist())
            documents.append(document)
        return documents

    def _build_terms(self, collection: Any) -> TermIndex:
        documents = self._fetch_all(collection)
        return TermIndex([str(each.id) for each in documents], [passage_text(each) for each in documents])

    def _sources(self) -> dict[str, dict[str, str]]:
        collection = self._chroma.collection()
        found: dict[str, dict[str, str]] = {}
        if collection is not None:
            self._check(collection)
            pages = _pages(collection, ["metadatas"])
            for id_, metadata in (row for page in pages for row in zip(page["ids"], page["metadatas"], strict=True)):
                if metadata and "source" in metadata:  # a record without a source was not put here by `crag ingest`
                    found.setdefault(str(metadata["source"]), {})[id_] = str(metadata.get("file_hash", ""))
        return found

    def _status(self) -> IndexStatus:
        collection = self._chroma.collection()
        return IndexStatus(
            location=self._where,
            chunks=collection.count() if collection else 0,
            stored=index_mark.stored(collection) if collection else None,
            configured=index_mark.configured(self._embedder),
            unfinished=bool(collection and (collection.metadata or {}).get("crag_unfinished")),
        )

    def _writable(self) -> Any:
        """Return the collection, made when missing, after noting in it that a change has begun."""
        collection = self._chroma.collection()
        if collection is None:
            return self._chroma.create(index_mark.begun(index_mark.configured(self._embedder)))
        self._check(collection)
        index_mark.describe(collection, {**(collection.metadata or {}), "crag_unfinished": True})
        return collection

    def _batch_size(self) -> int:
        self._writable()
        self._terms.forget()
        return min(_BATCH, self._chroma.batch_size())

    def _update_stored(self, batch: list[Document]) -> list[Document]:
        """Renew the metadata of the chunks that are stored, and return the others."""
        collection = self._writable()
        stored = set(collection.get(ids=[chunk.id for chunk in batch], include=[])["ids"])
        known = [chunk for chunk in batch if chunk.id in stored]
        if known:
            collection.update(ids=[chunk.id for chunk in known], metadatas=[chunk.metadata for chunk in known])
        return [chunk for chunk in batch if chunk.id not in stored]

    def _store(self, chunks: list[Document], vectors: list[list[float]]) -> None:
        self._writable().upsert(
            ids=[chunk.id for chunk in chunks],
            embeddings=vectors,
            documents=[chunk.page_content for chunk in chunks],
            metadatas=[chunk.metadata for chunk in chunks],
        )

    def _delete(self, ids: list[str]) -> None:
        self._writable().delete(ids=ids)

    def _commit(self) -> None:
        collection = self._chroma.collection()
        if collection is None:
            return
        ids = sorted(collection.get(include=[])["ids"])
        if not ids:
            self._clear()
            return
        revision = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
        self._terms.save(revision, lambda: self._build_terms(collection))
        index_mark.describe(collection, index_mark.finished(collection, revision))
        self._terms.keep_only(revision)

    def _clear(self) -> None:
        self._chroma.drop()
        self._terms.keep_only("")

    def _lock_path(self) -> Path:
        if self._settings.host is None:
            return Path(self._where) / "writer.lock"
        name = hashlib.sha256(f"{self._where}/{self._settings.collection}".encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"crag-{name}.lock"


def _pages(collection: Any, include: list[str]) -> Iterator[Any]:
    """Yield all rows of a collection, a page of them at a time."""
    for offset in range(0, collection.count(), _PAGE):
        yield collection.get(include=include, limit=_PAGE, offset=offset)
