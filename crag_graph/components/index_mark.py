"""The mark of who made the vectors of an index, and what follows from it.

It lies in the metadata: `crag_embedder`, `crag_fingerprint` and `crag_dimension`; beside it the revision of the
last clean ingest (`crag_revision`) and, from the first change of an ingest to its end, `crag_unfinished`. A
collection that something else made has no mark, and is trusted with a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crag_graph.errors import ConfigurationError
from crag_graph.protocols import Embedder


@dataclass(frozen=True)
class Identity:
    """Who makes, or made, the vectors. `dimension` is 0 while it is not known."""

    name: str
    fingerprint: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension or 'unknown'} dimensions)"

    def fits(self, other: "Identity") -> bool:
        """Tell whether vectors of both lie in one space, as far as is known."""
        same_model = (self.name, self.fingerprint) == (other.name, other.fingerprint)
        return same_model and _fits(self.dimension, other.dimension)


@dataclass(frozen=True)
class IndexStatus:
    """What `crag doctor` shows. `stored` is None for an index without a mark, and when nothing is ingested."""

    location: str
    chunks: int
    stored: Identity | None
    configured: Identity
    unfinished: bool

    @property
    def fits(self) -> bool:
        """Tell whether questions are embedded by the model that embedded the chunks, as far as is known."""
        return self.stored is None or self.stored.fits(self.configured)


def configured(embedder: Embedder, dimension: int = 0) -> Identity:
    """Return who makes vectors now; `dimension` as measured, when it was."""
    return Identity(embedder.name, embedder.fingerprint, dimension or embedder.dimension)


def stored(collection: Any) -> Identity | None:
    """Return who made the vectors of a collection; None when it has no mark."""
    metadata = collection.metadata or {}
    if "crag_embedder" not in metadata:
        return None
    size = int(metadata.get("crag_dimension", 0)) or vector_size(collection)
    return Identity(str(metadata["crag_embedder"]), str(metadata["crag_fingerprint"]), size)


def begun(now: Identity) -> dict[str, Any]:
    """Return the metadata of a new collection while its first ingest runs."""
    return {"crag_embedder": now.name, "crag_fingerprint": now.fingerprint, "crag_unfinished": True}


def finished(collection: Any, revision: str) -> dict[str, Any]:
    """Return the metadata of a collection after a clean ingest; one without a mark gets none now."""
    metadata = {**(collection.metadata or {}), "crag_revision": revision}
    metadata.pop("crag_unfinished", None)
    if "crag_embedder" in metadata:
        metadata["crag_dimension"] = vector_size(collection)
    return metadata


def describe(collection: Any, metadata: dict[str, Any]) -> None:
    """Replace the metadata, if it differs; older collections have their distance function in it, which is fixed."""
    if metadata != collection.metadata:
        collection.modify(metadata={key: value for key, value in metadata.items() if not key.startswith("hnsw:")})


def vector_size(collection: Any) -> int:
    """Return the length of the stored vectors; 0 when there are none."""
    vectors = collection.get(limit=1, include=["embeddings"])["embeddings"]
    return len(vectors[0]) if len(vectors) else 0


def check(collection: Any, now: Identity, where: str) -> None:
    """Refuse an index whose vectors another model made.

    Raises:
        ConfigurationError: names both models and the way out.
    """
    made_by = stored(collection)
    if made_by is None:
        made_by = Identity("a model it does not name", "", vector_size(collection))
        fits = _fits(made_by.dimension, now.dimension)
    else:
        fits = made_by.fits(now)
    if not fits:
        raise ConfigurationError(
            f"{where}: made with {made_by}, but {now} is configured; "
            "change the embeddings settings, or rebuild: crag ingest --rebuild PATH"
        )


def doubts(metadata: Mapping[str, object], where: str) -> list[str]:
    """Return what a reader of this collection should know."""
    found = []
    if "crag_embedder" not in metadata:
        found.append(f"{where}: does not say which model made it; to be sure, rebuild: crag ingest --rebuild PATH")
    if metadata.get("crag_unfinished"):
        found.append(f"{where}: the last ingest did not finish; run crag ingest again")
    return found


def _fits(size: int, other: int) -> bool:
    return len({size, other} - {0}) < 2
