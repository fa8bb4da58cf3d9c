"""A real model behind a server we did not write: protocol, streaming and schemas, never judgement."""

from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from crag_graph.components.http import async_client
from tests import real_model as model

pytestmark = pytest.mark.anyio


class Answer(BaseModel):
    """Whether a text helps."""

    id: Literal[1, 2, 3]
    helps: Literal["yes", "no"]


def _chat(base_url: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="smollm2",
        base_url=base_url,
        api_key="unused",
        temperature=0,
        max_retries=0,
        timeout=60,
        stream_usage=True,
        http_async_client=async_client(60),
        **options,
    )


async def test_a_real_model_streams_pieces_and_its_usage(real_model: str) -> None:
    pieces = [piece async for piece in _chat(real_model, max_completion_tokens=12).astream("Count: one, two, three,")]
    assert len([piece for piece in pieces if piece.text]) > 3
    usages = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    assert [usage["output_tokens"] for usage in usages] == [12]
    assert {piece.response_metadata.get("finish_reason") for piece in pieces} >= {"length"}


async def test_a_real_model_fills_a_schema(real_model: str) -> None:
    structured = _chat(real_model, max_completion_tokens=60).with_structured_output(Answer, method="json_schema")
    answer = await structured.ainvoke("Text 2 says: 'Falcon weighs 3 kg.' Does it help with: How heavy is Falcon?")
    assert isinstance(answer, Answer)


def test_weights_that_are_not_the_expected_ones_are_deleted(tmp_path: Path) -> None:
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"something else")
    with pytest.raises(SystemExit, match="deleted"):
        model.fetch(weights)
    assert not weights.exists()
