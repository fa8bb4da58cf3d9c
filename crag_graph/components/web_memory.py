"""Web evidence that carried an answer, kept in a collection of its own until it expires.

What is kept is the passage that was cited, with `url`, `title`, `date`, `provider`, and when it was `retrieved` and
`expires` (ISO, UTC). Its origin stays the web, wherever it comes back. It lies beside the user's documents and never
among them; a memory that fails costs a notice and a search, never an answer.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.index import Index
from crag_graph.components.search.hybrid import fuse
from crag_graph.errors import ConfigurationError, NothingIngested, RetrievalError
from crag_graph.notices import notice
from crag_graph.protocols import Search
from crag_graph.rules.query import canonical_url, host_allowed

_FIELDS = ("url", "title", "date", "provider")
_WAIT_S = 5  # how long to wait for another writer: the answer is written already, and someone waits for its end
_PAUSE_S = 0.05


class WebMemory:
    """Remembers web evidence for `days`; `search` is how `index` is searched. Nothing is created by a look.

    Of what is remembered only `allow`ed hosts count, and none that `deny` names: the settings of today hold.
    """

    def __init__(
        self,
        index: Index,
        search: Search,
        days: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> None:
        self._index = index
        self._search = search
        self._lasts = timedelta(days=days)
        self._clock = clock
        self._allow = allow
        self._deny = deny

    async def remember(self, evidence: Sequence[Document]) -> None:
        """Store passages of web pages, for `days` from now; what has expired is deleted.

        Raises:
            RetrievalError: the index or the embedder failed.
            ConfigurationError: another writer holds the index, or another embedder made this collection.
        """
        now = self._clock()
        entries = [self._entry(document, now) for document in evidence]
        async with self._writing():
            expired = [entry for entry in await self.entries() if self.expired(entry)]
            await self._index.remove([str(entry.id) for entry in expired])
            await self._index.add(entries)
            await self._index.commit()

    async def recall(self, question: str) -> list[Document]:
        """Return what fits the question and has not expired, best first."""
        try:
            found = await self._search.ainvoke(question)
        except NothingIngested:
            return []
        except (RetrievalError, ConfigurationError) as error:
            notice(f"remembered web evidence was not searched: {error} (crag cache clear --evidence forgets it)")
            return []
        return [document for document in found if not self.expired(document) and self._is_wanted(document)]

    async def entries(self) -> list[Document]:
        """Return everything that is stored, also what has expired and is not deleted yet.

        Raises:
            ConfigurationError: the collection holds something else, which must be neither shown nor deleted.
        """
        try:
            stored = await self._index.documents()
        except NothingIngested:
            return []
        if not all("expires" in entry.metadata for entry in stored):
            raise ConfigurationError(
                "web.remember.collection: holds documents that are not remembered web evidence: name another collection"
            )
        return stored

    def expired(self, entry: Document) -> bool:
        """Tell whether it is too old; a clock that was set back makes nothing last longer."""
        retrieved, expires = (str(entry.metadata.get(key, "")) for key in ("retrieved", "expires"))
        return not retrieved <= _iso(self._clock()) < expires

    async def forget(self, provider: str | None = None) -> int:
        """Delete everything, or what one provider found; return how many passages."""
        if provider is None:
            status = await self._index.status()
            if status.fits:  # vectors of another embedder can be dropped, but not looked at
                await self.entries()
            await self._index.clear()
            return status.chunks
        ids = [str(entry.id) for entry in await self.entries() if entry.metadata.get("provider") == provider]
        if ids:
            async with self._writing():
                await self._index.remove(ids)
                await self._index.commit()
        return len(ids)

    def _is_wanted(self, entry: Document) -> bool:
        if not (self._allow or self._deny):  # a folder that stands in for the web has addresses without a host
            return True
        return host_allowed(str(entry.metadata["url"]), self._allow, self._deny)

    def _entry(self, document: Document, now: datetime) -> Document:
        metadata = {key: document.metadata[key] for key in _FIELDS if document.metadata.get(key)}
        parts = canonical_url(str(metadata["url"])), str(metadata.get("title", "")), document.page_content
        digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
        lasts = {"retrieved": _iso(now), "expires": _iso(now + self._lasts)}
        return Document(document.page_content, id=f"web-{digest}", metadata={"origin": "web", **metadata, **lasts})

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """Keep other writers out; taking and leaving the lock touches files, so both happen in a thread.

        Who waits does so here: threads that wait are missing to the one that writes.
        """
        held = ExitStack()
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                await asyncio.to_thread(held.enter_context, self._index.writer(wait_s=0))
                break
            except ConfigurationError:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(_PAUSE_S)
        try:
            yield
        finally:
            await asyncio.to_thread(held.close)


def with_memory(search: Search, memory: WebMemory, rrf_k: int) -> Search:
    """Search the user's index and the memory side by side, fused by rank; equal ranks go to the user's documents.

    Raises (when called):
        RetrievalError: the index failed, and nothing is remembered that fits.
    """

    async def search_both(question: str) -> list[Document]:
        own, recalled = await asyncio.gather(_found(search, question), memory.recall(question))
        if isinstance(own, RetrievalError):
            if not recalled:
                raise own
            notice(f"the index was not searched: {own}")
            return recalled
        return fuse([own, recalled], rrf_k) if recalled else own

    return RunnableLambda(search_both, name="with_memory")


async def _found(search: Search, question: str) -> list[Document] | RetrievalError:
    try:
        return await search.ainvoke(question)
    except RetrievalError as error:
        return error


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
