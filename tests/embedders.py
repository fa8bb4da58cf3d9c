"""An embedder for tests of what is stored: real vectors, no model, a record of what it was asked."""

from collections.abc import Sequence

from crag_graph.errors import RetrievalError
from tests.servers.openai_server import word_vector


class WordEmbedder:
    """Texts that share words lie close. `fails_after` calls, every further one fails."""

    def __init__(self, name: str = "words-a", dimension: int = 64, fails_after: int | None = None) -> None:
        self.name = name
        self.fingerprint = f"{name}-1"
        self.dimension = dimension
        self.embedded: list[str] = []
        self._calls_left = fails_after

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self._calls_left is not None:
            if self._calls_left == 0:
                raise RetrievalError("out of service", component="embeddings", transient=True)
            self._calls_left -= 1
        self.embedded.extend(texts)
        return [word_vector(text, self.dimension) for text in texts]
