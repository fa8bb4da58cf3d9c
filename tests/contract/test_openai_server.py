"""The scripted OpenAI server, seen through the clients that production code uses."""

import threading
from typing import Any

import openai
import pytest
from langchain_core.exceptions import ModelError
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, ValidationError

from crag_graph.components.http import async_client
from tests.servers.openai_server import (
    OpenAIServer,
    cut,
    failure,
    filtered,
    json_object,
    prompt,
    raw,
    refusal,
    schema_name,
    text,
    unsupported,
)

pytestmark = pytest.mark.anyio


class Mark(BaseModel):
    """One mark."""

    id: int
    good: bool


def _chat(server: OpenAIServer, **options: Any) -> ChatOpenAI:
    given = {"max_retries": 0, "timeout": 5, "stream_usage": True} | options
    return ChatOpenAI(
        model="scripted", base_url=server.base_url, api_key="k", http_async_client=async_client(5), **given
    )


async def test_text_arrives_whole_and_streamed_with_the_same_usage(openai_server: OpenAIServer) -> None:
    openai_server.replies = [text("Falcon weighs\n3 kg [1]."), text("Falcon weighs\n3 kg [1].")]
    model = _chat(openai_server)
    whole = await model.ainvoke("How heavy?")
    pieces = [piece async for piece in model.astream("How heavy?")]
    assert whole.text == "".join(piece.text for piece in pieces) == "Falcon weighs\n3 kg [1]."
    assert len([piece for piece in pieces if piece.text]) == 5
    assert whole.usage_metadata is not None
    assert [p.usage_metadata["output_tokens"] for p in pieces if p.usage_metadata] == [5]
    assert prompt(openai_server.chats[0]) == "How heavy?"


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
async def test_structured_answers_come_in_the_way_they_are_asked_for(openai_server: OpenAIServer, method: Any) -> None:
    openai_server.replies = [json_object({"id": 2, "good": True})]
    parsed = await _chat(openai_server).with_structured_output(Mark, method=method).ainvoke("judge")
    assert parsed == Mark(id=2, good=True)
    assert schema_name(openai_server.chats[0]) == "Mark"


async def test_each_way_a_structured_answer_fails_looks_as_it_does_in_the_field(openai_server: OpenAIServer) -> None:
    model = _chat(openai_server).with_structured_output(Mark, method="json_schema", include_raw=True)
    openai_server.replies = [refusal(), text('{"id": "x"}'), cut('{"id": 1, "go'), filtered()]
    refused = await model.ainvoke("judge")
    assert refused["parsed"] is None
    assert "cannot help" in str(refused["parsing_error"])
    with pytest.raises(ValidationError):
        await model.ainvoke("judge")
    with pytest.raises((openai.LengthFinishReasonError, ModelError)):
        await model.ainvoke("judge")
    with pytest.raises((openai.ContentFilterFinishReasonError, ModelError)):
        await model.ainvoke("judge")


async def test_http_errors_keep_their_status_and_their_words(openai_server: OpenAIServer) -> None:
    openai_server.replies = [unsupported("response_format"), failure(500), failure(429, retry_after=0), text("at last")]
    with pytest.raises(openai.BadRequestError, match="response_format"):
        await _chat(openai_server).ainvoke("q")
    with pytest.raises(openai.InternalServerError):
        await _chat(openai_server).ainvoke("q")
    assert (await _chat(openai_server, max_retries=1).ainvoke("q")).text == "at last"
    assert len(openai_server.chats) == 4


async def test_what_is_no_protocol_at_all_is_an_error(openai_server: OpenAIServer) -> None:
    openai_server.replies = [raw(b"<html>login</html>", content_type="text/html"), text("unused").dropped()]
    with pytest.raises(ValueError, match="Unexpected response type"):
        await _chat(openai_server).ainvoke("q")
    with pytest.raises(openai.APIConnectionError):
        await _chat(openai_server).ainvoke("q")


async def test_a_stream_can_break_in_the_middle(openai_server: OpenAIServer) -> None:
    openai_server.replies = [text("one two three four").dropped(after=2)]
    pieces = []
    with pytest.raises(Exception, match=r"incomplete|peer closed|Connection"):  # noqa: PT012
        async for piece in _chat(openai_server).astream("q"):
            pieces.append(piece.text)
    assert "".join(pieces) == "one two"


async def test_a_slow_answer_runs_into_the_clients_timeout(openai_server: OpenAIServer) -> None:
    openai_server.replies = [text("late").slow(30)]
    with pytest.raises(openai.APITimeoutError):
        await _chat(openai_server, timeout=0.2).ainvoke("q")


async def test_requests_in_flight_are_counted(openai_server: OpenAIServer) -> None:
    go = threading.Event()

    def reply(request: dict[str, Any]) -> Any:
        if len(openai_server.requests) == 3:
            go.set()
        return text(prompt(request)).held(go)

    openai_server.replies = reply
    answers = await _chat(openai_server).abatch(["a", "b", "c"])
    assert [answer.text for answer in answers] == ["a", "b", "c"]
    assert openai_server.peak == 3


async def test_a_script_that_runs_out_fails_the_call(openai_server: OpenAIServer) -> None:
    with pytest.raises(openai.InternalServerError, match="no further reply"):
        await _chat(openai_server).ainvoke("q")


async def test_the_key_is_checked_when_one_is_set() -> None:
    with OpenAIServer([text("in")], api_key="other") as server:
        with pytest.raises(openai.AuthenticationError):
            await _chat(server).ainvoke("q")
        server.api_key = "k"
        assert (await _chat(server).ainvoke("q")).text == "in"


async def test_embeddings_of_texts_that_share_words_are_close(openai_server: OpenAIServer) -> None:
    embedder = OpenAIEmbeddings(
        model="scripted",
        base_url=openai_server.base_url,
        api_key="k",
        check_embedding_ctx_length=False,
        http_async_client=async_client(5),
        max_retries=1,
    )
    openai_server.embedding_failures = [failure(429, retry_after=0)]
    one, two, three = await embedder.aembed_documents(["heavy drone", "the heavy drone", "winter tax"])
    assert sum(x * y for x, y in zip(one, two, strict=True)) > 0.7
    assert abs(sum(x * y for x, y in zip(one, three, strict=True))) < 0.7
    assert openai_server.embedded[-3:] == ["heavy drone", "the heavy drone", "winter tax"]
