"""The rewriter without a model."""

from collections.abc import Sequence
from datetime import date

import pytest

from crag_graph.components.keywords import KeywordsRewriter
from crag_graph.errors import GenerationError, RetrievalError
from crag_graph.state import Turn

pytestmark = pytest.mark.anyio


def rewriter(max_terms: int = 10, max_chars: int = 400) -> KeywordsRewriter:
    return KeywordsRewriter(max_terms, max_chars, lambda: date(2031, 5, 2))


def asked(*questions: str) -> list[Turn]:
    return [Turn(role="user", content=question) for question in questions]


async def test_the_query_keeps_names_numbers_and_content_words_in_order() -> None:
    query = await rewriter().rewrite("Who was the Bank of England's governor in 2008?", [], "")
    assert query == "Bank of England's governor 2008"


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the latest release of Zephyr?", "latest release Zephyr 2031"),
        ("What was the latest release of Zephyr in 2019?", "latest release Zephyr 2019"),
        ("How do I reset the device?", "reset device"),
        ("When did the Second World War end?", "Second World War end"),
        ("When did Tesla die?", "Tesla die"),
        ("Wie hoch ist der aktuelle Preis?", "hoch aktuelle Preis 2031"),
    ],
)
async def test_a_year_is_added_only_where_the_question_is_about_now_and_has_none(question: str, query: str) -> None:
    assert await rewriter().rewrite(question, [], "") == query


async def test_quoted_strings_stay_whole() -> None:
    assert '"status of the pump"' in await rewriter().rewrite('What does "status of the pump" mean?', [], "")


@pytest.mark.parametrize("question", ["???", "is it?", "电池的保修期多长？", "แบตเตอรี่รับประกันนานเท่าไร", "C++", "{x} $y"])
async def test_a_query_is_never_blank(question: str) -> None:
    assert (await rewriter().rewrite(question, [], "")).strip()


async def test_the_query_stays_in_the_language_of_the_question() -> None:
    assert await rewriter().rewrite("भारत की राजधानी क्या है?", [], "") == "भारत राजधानी"


async def test_every_further_query_differs_until_none_is_left() -> None:
    question = "Who designed the old bridge in Falkenau?"
    tried: list[str] = []
    while question not in tried:
        tried.append(await rewriter().rewrite(question, tried, "nothing found"))
    assert len(tried) >= 3
    assert len({query.casefold() for query in tried}) == len(tried)
    with pytest.raises(GenerationError, match="no further query"):
        await rewriter().rewrite(question, tried, "nothing found")


async def test_a_long_question_becomes_one_line_cut_at_a_word() -> None:
    question = "Explain\nthese   " + "wonderful extraordinarily complicated machineries " * 60
    query = await rewriter(max_terms=50, max_chars=40).rewrite(question, [], "")
    assert len(query) <= 40
    assert "\n" not in query
    assert all(word in question for word in query.split())


async def test_a_word_longer_than_the_limit_is_cut_hard() -> None:
    assert await rewriter(max_chars=40).rewrite("x" * 3000, [], "") == "x" * 40


async def test_the_number_of_terms_is_bounded_and_names_go_first() -> None:
    query = await rewriter(max_terms=2).rewrite("Which rivers and mountains surround Falkenau in 1912?", [], "")
    assert query == "Falkenau 1912"


async def test_a_follow_up_gets_the_names_of_the_turn_before() -> None:
    history = [*asked("How long is the Model X warranty?"), Turn(role="assistant", content="Two years, says Bob.")]
    assert await rewriter().standalone("What about its battery?", history) == "What about its battery? Model X"


async def test_a_follow_up_on_a_follow_up_reaches_the_name_two_turns_back() -> None:
    history = asked("How long is the Model X warranty?", "And its price?")
    assert await rewriter().standalone("What about its battery?", history) == "What about its battery? Model X"


async def test_without_names_a_follow_up_gets_the_content_words() -> None:
    history = asked("how long is the warranty?")
    assert await rewriter().standalone("and for used ones?", history) == "and for used ones? long warranty"


async def test_a_question_without_history_stays_as_it_is() -> None:
    assert await rewriter().standalone("What about its battery?", []) == "What about its battery?"


async def test_nothing_is_said_twice_in_a_standalone_question() -> None:
    history = asked("How heavy is the Falcon?")
    assert await rewriter().standalone("How fast is the Falcon?", history) == "How fast is the Falcon? heavy"


async def test_when_words_must_go_the_ones_common_in_the_index_go_first() -> None:
    async def counts(words: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(words, 0) | {"weather": 900, "observatory": 2}

    choosy = KeywordsRewriter(2, 400, word_counts=counts)
    assert await choosy.rewrite("which weather observatory has gauges", [], "") == "observatory gauges"
    assert (
        await KeywordsRewriter(2, 400).rewrite("which weather observatory has gauges", [], "") == "weather observatory"
    )


async def test_an_index_that_fails_leaves_a_query_without_its_counts() -> None:
    async def counts(words: Sequence[str]) -> dict[str, int]:
        raise RetrievalError("down", component="index")

    assert await KeywordsRewriter(9, 400, word_counts=counts).rewrite("weather gauges", [], "") == "weather gauges"
