"""The connection to Chroma, embedded or as a server, kept fresh; and the translation of what Chroma raises."""

import logging
import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from crag_graph.errors import ConfigurationError, RetrievalError
from crag_graph.settings import IndexSettings

_CONNECT_TIMEOUT_S = 5
_COSINE = {"hnsw": {"space": "cosine"}}
_opening = threading.Lock()  # one for the process: Chroma's table of open engines is not made for threads


def location(settings: IndexSettings) -> str:
    """Return where the index lies, as people write it."""
    if settings.host is None:
        return str(Path(settings.path).expanduser())
    return f"{'https' if settings.ssl else 'http'}://{settings.host}:{settings.port}"


class ChromaConnection:
    """One collection of one Chroma store. Opened at first use; blocking, and safe to use from several threads."""

    def __init__(self, settings: IndexSettings) -> None:
        self._chromadb = _chromadb()  # here and not in a thread: numpy does not survive two imports at once
        self._settings = settings
        self._database = Path(settings.path).expanduser() / "chroma.sqlite3"
        self._client: Any = None
        self._inode: int | None = None
        self._loaded: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def collection(self) -> Any:
        """Return the collection as it is now, or None; creates nothing.

        An open embedded client sees what another process has changed in the metadata but not in the vectors, so it is
        replaced when the database file, the collection or its revision is another one than it loaded.
        """
        if self._settings.host is not None:
            return self._get()
        with self._lock:
            inode = self._database.stat().st_ino if self._database.exists() else None
            if inode != self._inode:
                self._client, self._inode, self._loaded = None, inode, None
            collection = self._get() if inode else None
            if collection is not None:
                if self._loaded not in (None, state(collection)):
                    self._client = None
                    collection = self._get()
                self._loaded = state(collection)
            return collection

    def reopen(self) -> None:
        """Have the next use read everything from the store again."""
        with self._lock:
            self._client = None

    def create(self, metadata: dict[str, Any]) -> Any:
        """Make the collection, and the store when there is none."""
        return self._connected().create_collection(
            self._settings.collection, metadata=metadata, configuration=_COSINE, embedding_function=None
        )

    def drop(self) -> None:
        """Delete the collection; the store stays."""
        if self.collection() is not None:
            self._connected().delete_collection(self._settings.collection)

    def batch_size(self) -> int:
        """Return how many records the store takes at a time."""
        size: int = self._connected().get_max_batch_size()
        return size

    def _get(self) -> Any:
        try:
            return self._connected().get_collection(self._settings.collection, embedding_function=None)
        except self._chromadb.errors.NotFoundError:
            return None

    def _connected(self) -> Any:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> Any:
        """Return a client that has nothing of the index in memory yet."""
        settings, chromadb = self._settings, self._chromadb
        if settings.host is not None:
            return _server_client(settings.host, settings.port, settings.ssl)
        with _opening:
            # Clients of one folder share one engine, and its vectors stay as they were when it opened.
            chromadb.api.client.SharedSystemClient.clear_system_cache()
            return chromadb.PersistentClient(location(settings), chromadb.Settings(anonymized_telemetry=False))


@cache
def _server_client(host: str, port: int, ssl: bool) -> Any:
    """Return the one client of this process for a server: Chroma cannot close the connections of a client."""
    # Nor does it know a time limit: a dead address would hang for minutes.
    socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    chromadb = _chromadb()
    return chromadb.HttpClient(host, port, ssl, settings=chromadb.Settings(anonymized_telemetry=False))


def state(collection: Any) -> tuple[str, str]:
    """Return what changes with every clean ingest: collection id and revision."""
    return str(collection.id), str((collection.metadata or {}).get("crag_revision", ""))


def relevance(space: str, distance: float) -> float:
    """Map a distance to [0, 1], nearest highest. Distances: 1 - cosine, squared l2, or 1 - inner product (ip).

    >>> relevance("cosine", 0.0), relevance("cosine", 2.0), relevance("l2", 1.0), relevance("ip", 1.0)
    (1.0, 0.0, 0.5, 0.5)
    """
    if space == "cosine":
        return min(max(1 - distance / 2, 0.0), 1.0)
    if space == "l2":
        return 1 / (1 + distance)
    return (1 + math.tanh((1 - distance) / 2)) / 2


@contextmanager
def translated(settings: IndexSettings) -> Iterator[None]:
    """Turn whatever Chroma raises into a RetrievalError that names the index."""
    try:
        yield
    except Exception as error:
        # A reply that is not Chroma's own, such as a proxy's error page, is raised as a bare Exception.
        vendor = type(error) is Exception or type(error).__module__.split(".")[0] in ("chromadb", "httpx", "httpcore")
        if not (vendor or isinstance(error, OSError | ValueError)):
            raise
        reason = str(error).strip() or type(error).__name__
        raise RetrievalError(
            f"{location(settings)}: {reason}", component="index", transient=_may_pass(error)
        ) from error


def _may_pass(error: Exception) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"TransportError", "ConnectionError", "TimeoutError", "RateLimitError"})


def _chromadb() -> Any:
    try:
        import chromadb
        import chromadb.api.client
        import chromadb.errors
    except RuntimeError as error:  # raised when Python's sqlite3 is too old
        raise ConfigurationError(
            "Chroma cannot run on this Python: its sqlite3 is older than 3.35; use a newer Python build"
        ) from error
    # Some versions log an error for every event that they were told not to send.
    logging.getLogger("chromadb.telemetry").setLevel(logging.CRITICAL)
    return chromadb
