"""What was found on the web, remembered for a while in one SQLite file that several processes may share.

A search is known by its provider and the canonical form of its query, a page by its canonical address. Only what was
found is kept: "nothing found" and failures may be otherwise tomorrow. A file that stops working while it is used makes
searches slower, never wrong: it is a notice.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.fetch import Fetch
from crag_graph.components.main_text import Page
from crag_graph.errors import ConfigurationError
from crag_graph.notices import notice
from crag_graph.protocols import Search
from crag_graph.rules.query import canonical_query, canonical_url

_TABLE = """CREATE TABLE IF NOT EXISTS found (
    provider TEXT, key TEXT, asked TEXT, value TEXT, stored REAL, PRIMARY KEY (provider, key)
) WITHOUT ROWID"""
_BUSY_S = 5  # how long to wait for another writer


class Entry(NamedTuple):
    """One remembered search or page, as shown to a person; `stored` is in seconds since the epoch."""

    provider: str
    asked: str
    stored: float
    chars: int
    expired: bool


class WebCache:
    """Remembers JSON values by provider and key for `ttl_s` seconds.

    Raises:
        ConfigurationError: the file cannot be used; the message says what to do.
    """

    def __init__(self, path: Path, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._ttl_s = ttl_s
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # what was asked is nobody else's business
            with self._opened() as database:
                names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
                if names and "found" not in names:
                    raise ConfigurationError(f"web.cache.path: {path} is another program's database: name another file")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"web.cache.path: {path} cannot be used: {error}; delete it, name another file, or write null"
            ) from error

    async def get(self, provider: str, key: str) -> Any:
        """Return what is remembered; None when nothing is, or no longer."""
        now = self._clock()
        try:
            row = await asyncio.to_thread(self._get, provider, key, now)
        except sqlite3.Error as error:
            notice(f"the web cache was not read: {error} ({self._path})")
            return None
        return json.loads(row) if row else None

    async def put(self, provider: str, key: str, asked: str, value: Any) -> None:
        """Remember a JSON value; `asked` is how a person would recognise it. What has expired is deleted."""
        text = json.dumps(value, ensure_ascii=False)
        try:
            await asyncio.to_thread(self._put, (provider, key, asked, text, self._clock()))
        except sqlite3.Error as error:
            notice(f"the web cache was not written: {error} ({self._path})")

    def entries(self) -> list[Entry]:
        """Return everything in the file, newest first.

        Raises:
            ConfigurationError: the file is damaged.
        """
        now = self._clock()
        rows = self._managed("SELECT provider, asked, stored, length(value) FROM found ORDER BY stored DESC")
        return [
            Entry(provider, asked, stored, chars, expired=not now - self._ttl_s < stored <= now)
            for provider, asked, stored, chars in rows
        ]

    def clear(self, provider: str | None = None) -> int:
        """Forget everything, or what one provider found, and wipe it from the file; return how many entries.

        Raises:
            ConfigurationError: the file is damaged.
        """
        rows = self._managed("DELETE FROM found WHERE provider = coalesce(?, provider) RETURNING 1", (provider,))
        self._managed("VACUUM")
        return len(rows)

    def _get(self, provider: str, key: str, now: float) -> str | None:
        with self._opened() as database:
            row = database.execute(
                "SELECT value FROM found WHERE provider = ? AND key = ? AND stored > ? AND stored <= ?",
                (provider, key, now - self._ttl_s, now),
            ).fetchone()
        return row[0] if row else None

    def _put(self, row: tuple[str, str, str, str, float]) -> None:
        with self._opened() as database:
            database.execute("DELETE FROM found WHERE stored <= ?", (row[-1] - self._ttl_s,))
            database.execute("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?, ?)", row)

    def _managed(self, statement: str, values: tuple[str | None, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._opened() as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"web.cache.path: {self._path} cannot be used: {error}; if it is damaged, delete it"
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open a connection of its own for each use: connections belong to one thread, and cost little."""
        with closing(sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)) as database:
            yield database


def cached(search: Search, cache: WebCache, provider: str, scope: str = "") -> Search:
    """Ask the cache before the provider. `scope` holds whatever else decides the result, such as its settings."""

    async def search_or_remember(query: str) -> list[Document]:
        key = _digest(scope, canonical_query(query))
        remembered = await cache.get(provider, key)
        if remembered is not None:
            return [Document(**hit) for hit in remembered]
        found = await search.ainvoke(query)
        if found:
            hits = [{"page_content": hit.page_content, "id": hit.id, "metadata": hit.metadata} for hit in found]
            await cache.put(provider, key, query, hits)
        return found

    return RunnableLambda(search_or_remember, name=provider)


def cached_pages(fetch: Fetch, cache: WebCache) -> Fetch:
    """Ask the cache before the web."""

    async def fetch_or_remember(url: str) -> Page:
        key = _digest(canonical_url(url))
        remembered = await cache.get("page", key)
        if remembered is not None:
            return Page(*remembered)
        page = await fetch(url)
        await cache.put("page", key, url, page)
        return page

    return fetch_or_remember


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
