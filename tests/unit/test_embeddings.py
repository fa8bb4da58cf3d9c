"""Embedders: the local model itself, an OpenAI-protocol server on loopback, any LangChain object."""

import asyncio
import math
import threading

import pytest
from langchain_core.embeddings import Embeddings

from crag_graph.components.embeddings import LangChainEmbedder, LocalEmbedder, OpenAIEmbedder, VectorCache, known_words
from crag_graph.errors import ConfigurationError, RetrievalError
from crag_graph.settings import OpenAIEmbeddingSettings
from tests.embedders import WordEmbedder
from tests.servers.openai_server import OpenAIServer, failure, raw, text

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder()


def openai_embedder(server: OpenAIServer, **changes: object) -> OpenAIEmbedder:
    values = {"model": "small", "base_url": server.base_url, "api_key_env": None, **changes}
    return OpenAIEmbedder(OpenAIEmbeddingSettings.model_validate(values))


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def length(vector: list[float]) -> float:
    return math.sqrt(sum(x * x for x in vector))


async def test_the_local_model_puts_a_question_nearest_to_its_answer(local: LocalEmbedder) -> None:
    question, answer, other = await local.embed(
        ["How long does the battery last?", "It runs for twelve hours on one charge.", "Bananas are rich in potassium."]
    )
    assert len(question) == local.dimension == 384
    assert cosine(question, answer) > cosine(question, other) + 0.1


@pytest.mark.parametrize(
    ("question", "at_least", "at_most"),
    [
        ("How often are the bearings of the cup anemometer replaced?", 0.8, 0.95),
        ("Wie oft werden die Lager des Schalenanemometers ausgetauscht?", 0.1, 0.4),
        ("¿Cuántos puntos dejó escapar la defensa?", 0.1, 0.45),
        ("बैटरी कितने घंटे चलती है?", 0.0, 0.2),
        ("电池寿命有多长？", 0.0, 0.0),
        ("1912?", 1.0, 1.0),
    ],
)
async def test_the_local_model_knows_english_words_whole_and_few_others(
    local: LocalEmbedder, question: str, at_least: float, at_most: float
) -> None:
    assert at_least <= known_words(local, question) <= at_most
    assert known_words(WordEmbedder(), question) == 1.0


async def test_a_local_vector_does_not_depend_on_its_neighbours_or_on_repetition(local: LocalEmbedder) -> None:
    [alone] = await LocalEmbedder().embed(["The pump costs 30 euro."])
    among = await local.embed(["short", "The pump costs 30 euro.", "x " * 2000, "The pump costs 30 euro."])
    assert among[1] == among[3] == alone
    assert [round(length(vector), 5) for vector in among] == [1.0] * 4


async def test_a_remembered_vector_is_returned_instead_of_running_the_model(local: LocalEmbedder) -> None:
    known = [1.0] + [0.0] * 383
    local.remember("only the index knows this", known)
    assert await local.embed(["only the index knows this"]) == [known]


async def test_texts_embedded_at_once_get_the_vectors_they_get_alone(local: LocalEmbedder) -> None:
    asked = [f"question number {n}" for n in range(12)]
    at_once = await asyncio.gather(*(local.embed([each]) for each in asked))
    assert [vectors[0] for vectors in at_once] == await LocalEmbedder().embed(asked)


async def test_broken_characters_are_embedded_as_question_marks(
    local: LocalEmbedder, openai_server: OpenAIServer
) -> None:
    for embedder in (local, openai_embedder(openai_server)):
        broken, mended = await embedder.embed(["pump \ud835 \x00", "pump ? \x00"])
        assert broken == mended


async def test_no_texts_give_no_vectors(local: LocalEmbedder, openai_server: OpenAIServer) -> None:
    assert await local.embed([]) == []
    assert await openai_embedder(openai_server).embed([]) == []
    assert openai_server.requests == []


async def test_the_cache_asks_once_for_each_unknown_text_and_forgets_the_oldest() -> None:
    asked: list[list[str]] = []

    async def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[float(ord(each))] for each in texts]

    cache = VectorCache(size=2)
    assert await cache.complete(["a", "b", "a"], embed) == [[97.0], [98.0], [97.0]]
    assert await cache.complete(["c", "a", "b"], embed) == [[99.0], [97.0], [98.0]]
    await cache.complete(["c"], embed)
    assert asked == [["a", "b"], ["c"], ["c"]]


async def test_openai_vectors_arrive_in_order_at_unit_length_in_batches(openai_server: OpenAIServer) -> None:
    openai_server.embed = lambda content: [float(len(content)), 1.0, 0.0]
    vectors = await openai_embedder(openai_server, batch_size=2).embed(["a", "bbb", "cc", "dddd", "eeeee"])
    assert [round(x / y) for x, y, _ in vectors] == [1, 3, 2, 4, 5]
    assert [round(length(vector), 5) for vector in vectors] == [1.0] * 5
    assert [request.body["input"] for request in openai_server.requests] == [["a", "bbb"], ["cc", "dddd"], ["eeeee"]]


async def test_the_dimension_is_asked_for_when_set_and_else_learnt(openai_server: OpenAIServer) -> None:
    learning, asking = openai_embedder(openai_server), openai_embedder(openai_server, dimensions=32)
    assert (learning.dimension, asking.dimension) == (0, 32)
    await learning.embed(["a"])
    await asking.embed(["a"])
    assert learning.dimension == 32
    assert [request.body.get("dimensions") for request in openai_server.requests] == [None, 32]
    assert openai_embedder(openai_server, model="text-embedding-3-large").dimension == 3072


async def test_models_and_sizes_have_fingerprints_of_their_own_and_servers_do_not(openai_server: OpenAIServer) -> None:
    made = [
        openai_embedder(openai_server),
        openai_embedder(openai_server, model="large"),
        openai_embedder(openai_server, dimensions=8),
    ]
    assert len({embedder.fingerprint for embedder in made}) == 3
    assert openai_embedder(openai_server, base_url="http://127.0.0.1:9/v1").fingerprint == made[0].fingerprint


async def test_a_missing_key_is_named_before_anything_is_sent(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"MY_KEY.*embeddings\.openai\.api_key_env"):
        openai_embedder(openai_server, api_key_env="MY_KEY")
    assert openai_server.requests == []


async def test_the_key_is_sent_and_a_wrong_one_is_no_passing_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer(api_key="right") as server:
        monkeypatch.setenv("MY_KEY", "right")
        assert len(await openai_embedder(server, api_key_env="MY_KEY").embed(["a"])) == 1
        monkeypatch.setenv("MY_KEY", "wrong-secret")
        with pytest.raises(RetrievalError, match="401") as caught:
            await openai_embedder(server, api_key_env="MY_KEY").embed(["a"])
        assert not caught.value.transient
        assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize(("status", "transient"), [(400, False), (404, False), (429, True), (500, True), (503, True)])
async def test_http_errors_say_whether_a_later_try_may_help(
    openai_server: OpenAIServer, status: int, transient: bool
) -> None:
    openai_server.embedding_failures = [failure(status, retry_after=0) for _ in range(9)]
    with pytest.raises(RetrievalError, match=f"embeddings: .*{status}") as caught:
        await openai_embedder(openai_server).embed(["a"])
    assert caught.value.transient is transient


async def test_a_brief_outage_is_waited_out(openai_server: OpenAIServer) -> None:
    openai_server.embedding_failures = [failure(429, retry_after=0), failure(503, retry_after=0)]
    assert len(await openai_embedder(openai_server).embed(["a"])) == 1


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b'{"data": null}', b'{"data": [{"embedding": "x"}]}'])
async def test_a_reply_that_is_not_of_the_protocol_is_reported(openai_server: OpenAIServer, body: bytes) -> None:
    openai_server.embedding_failures = [raw(body, content_type="text/html" if body[:1] == b"<" else "application/json")]
    with pytest.raises(RetrievalError, match="embeddings: "):
        await openai_embedder(openai_server).embed(["a"])


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], []])
async def test_a_vector_without_direction_is_refused(openai_server: OpenAIServer, vector: list[float]) -> None:
    openai_server.embed = lambda _: vector
    with pytest.raises(RetrievalError, match="embeddings: "):
        await openai_embedder(openai_server).embed(["a"])


async def test_a_server_that_never_answers_is_left_after_the_time_limit(openai_server: OpenAIServer) -> None:
    openai_server.embedding_failures = [text("late").held(threading.Event()) for _ in range(9)]
    with pytest.raises(RetrievalError, match="in time") as caught:
        await openai_embedder(openai_server, timeout_s=0.1).embed(["a"])
    assert caught.value.transient


async def test_a_server_that_is_not_there_is_a_passing_fault() -> None:
    with OpenAIServer() as server:
        embedder = openai_embedder(server)
    with pytest.raises(RetrievalError, match="cannot be reached") as caught:
        await embedder.embed(["a"])
    assert caught.value.transient


def test_one_embedder_serves_several_event_loops(openai_server: OpenAIServer) -> None:
    embedder = openai_embedder(openai_server)
    for word in ("a", "b", "c"):
        assert len(asyncio.run(embedder.embed([word]))) == 1
    assert openai_server.embedded == ["a", "b", "c"]


class Letters(Embeddings):
    """Counts two letters."""

    model = "letters-1"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if "fail" in texts:
            raise KeyError("vendor trouble")
        if "down" in texts:
            raise ConnectionError("no route")
        return [[each.count("a") * 3.0, each.count("b") * 4.0] for each in texts if each != "lost"]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def test_any_langchain_embeddings_serve_as_an_embedder() -> None:
    embedder = LangChainEmbedder(Letters())
    assert (embedder.name, embedder.dimension) == ("Letters:letters-1", 0)
    assert await embedder.embed(["aaa", "ab"]) == [[1.0, 0.0], pytest.approx([0.6, 0.8])]
    assert embedder.dimension == 2


@pytest.mark.parametrize(
    ("word", "message", "transient"),
    [("fail", "vendor trouble", False), ("down", "no route", True), ("lost", "0 vectors", False), ("x", "zero", False)],
)
async def test_whatever_a_langchain_object_raises_or_returns_is_translated(
    word: str, message: str, transient: bool
) -> None:
    with pytest.raises(RetrievalError, match=f"embeddings: Letters:letters-1: .*{message}") as caught:
        await LangChainEmbedder(Letters()).embed([word])
    assert caught.value.transient is transient
