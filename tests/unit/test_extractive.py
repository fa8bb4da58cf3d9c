"""The generator without a model."""

from typing import Any

import pytest

from crag_graph.components.extractive import ExtractiveGenerator
from crag_graph.errors import GenerationError
from crag_graph.state import Evidence

pytestmark = pytest.mark.anyio


def evidence(number: int, passage: str, score: float | None) -> Evidence:
    rest: dict[str, Any] = {"origin": "internal", "title": "T", "url": None, "path": "t.md", "page": None, "date": None}
    return Evidence(number=number, passage=passage, score=score, **rest)


async def answer(question: str, items: list[Evidence], max_passages: int = 3) -> str:
    return "".join([piece async for piece in ExtractiveGenerator(max_passages).generate(question, items)])


async def test_passages_are_quoted_best_first_each_with_its_number() -> None:
    text = await answer("What does it weigh?", [evidence(1, "It is grey.", 0.2), evidence(2, "It weighs 3 kg.", 0.9)])
    assert text.splitlines() == ["The documents say:", "", "- “It weighs 3 kg.” [2]", "- “It is grey.” [1]"]


async def test_only_the_best_passages_are_quoted_and_ungraded_ones_come_last() -> None:
    items = [evidence(1, "Ungraded.", None), evidence(2, "Good.", 0.9), evidence(3, "Fair.", 0.0)]
    text = await answer("q", items, max_passages=2)
    assert "[2]" in text
    assert "[3]" in text
    assert "Ungraded" not in text


async def test_a_long_passage_is_quoted_where_it_is_nearest_to_the_question() -> None:
    passage = "One is here. Two is there. Three is far. The pump weighs 3 kg. It is made of steel. Six is gone. Seven."
    text = await answer("What does the pump weigh?", [evidence(1, passage, 0.9)])
    assert "The pump weighs 3 kg." in text
    assert "Seven" not in text


async def test_bracketed_numbers_of_a_source_do_not_read_as_our_citations() -> None:
    assert "- “It weighs 3 kg(7).” [1]" in await answer("What does it weigh?", [evidence(1, "It weighs 3 kg[7].", 0.9)])


async def test_braces_dollars_and_code_are_quoted_as_they_are() -> None:
    passage = '```\n{"a": {{ n }}} $x \\frac{1}{2}\n```'
    assert '{"a": {{ n }}} $x \\frac{1}{2}' in await answer("q", [evidence(1, passage, 0.9)])


async def test_nothing_is_said_without_evidence() -> None:
    with pytest.raises(GenerationError, match="no evidence"):
        await answer("q", [])
