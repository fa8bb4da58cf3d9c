"""Measures one index: `python -m crag_graph.measure.bench.index_size CHUNKS` prints its figures as JSON.

Vectors are fake (drawn from a hash of the text): nearness means nothing, but storing and searching cost what they cost.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from langchain_core.documents import Document

from crag_graph.components.index import Index
from crag_graph.factory.indexes import search_of
from crag_graph.measure.bench.made_up import page, question
from crag_graph.measure.bench.scaling import IndexSize, index_size
from crag_graph.settings import IndexSettings, RetrieveSettings

_QUERIES = 50


class FakeEmbedder:
    """Unit vectors drawn from a hash of each text."""

    name = "fake"
    fingerprint = "fake-384"
    dimension = 384

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order."""
        return [_vector(text, self.dimension) for text in texts]


def _vector(text: str, dimension: int) -> list[float]:
    import numpy

    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    drawn = numpy.random.default_rng(seed).standard_normal(dimension)
    vector: list[float] = (drawn / numpy.linalg.norm(drawn)).tolist()
    return vector


async def measure(chunks: int, folder: Path) -> IndexSize:
    """Build an index of so many chunks, then search it as the graph does."""
    embedder = FakeEmbedder()
    settings = IndexSettings(path=str(folder))
    index = Index(settings, embedder)
    started = time.perf_counter()
    await index.add([_chunk(n) for n in range(chunks)])
    await index.commit()
    built = time.perf_counter() - started
    search = search_of(index, embedder, RetrieveSettings())
    await search.ainvoke(question(0))  # loads the vectors and terms
    seconds = []
    for n in range(_QUERIES):
        started = time.perf_counter()
        await search.ainvoke(question(n * 61 % chunks))
        seconds.append(time.perf_counter() - started)
    return index_size(chunks, built, await asyncio.to_thread(_resident_mb), seconds)


def _chunk(number: int) -> Document:
    made = page(number, "index")
    metadata = {"origin": "internal", "source": f"{made.id}.md", "title": made.article}
    return Document(made.text, id=made.id, metadata=metadata)


def _resident_mb() -> float:
    """Return the resident set of this process; its peak where the system tells no more."""
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="crag-size-") as folder:
        sys.stdout.write(json.dumps(asyncio.run(measure(int(sys.argv[1]), Path(folder)))))


if __name__ == "__main__":
    main()
