"""A model server that misbehaves: the run goes on, says why, and shows nobody a traceback."""

import asyncio

import pytest

from crag_graph.components.evaluators.llm import grader
from crag_graph.components.generator import LlmGenerator, past_thinking
from crag_graph.components.llm import Model, sound
from crag_graph.components.structured import read_json
from crag_graph.errors import ConfigurationError, EvaluationError, GenerationError
from crag_graph.factory import VARIABLES
from crag_graph.prompts import load_prompt
from crag_graph.settings import LlmSettings
from tests.graph.kit import Writer, document, graph_of
from tests.servers.openai_server import grades, raw, schema_name, text

QUESTION = {"question": "How long is the warranty?"}
DOCUMENTS = [document("The warranty is two years.")]
EVIDENCE = [{"number": 1, "title": "Doc", "passage": "Two years.", "origin": "internal"}]


def model(server, **options):
    options = {"model": "m", "max_retries": 0, "timeout_s": 5} | options
    return Model(LlmSettings(base_url=server.base_url, api_key_env=None, **options))


def prompt_of(name):
    return load_prompt(name, VARIABLES[name])


def graph_over(server):
    client = model(server)
    generator = LlmGenerator(client, prompt_of("generate"))
    return graph_of(DOCUMENTS, grader=grader(client, prompt_of("grade"), 10, LlmSettings()), writer=generator)


async def streamed(graph):
    return "".join([message.text async for message, _ in graph.astream(QUESTION, stream_mode="messages")])


@pytest.mark.parametrize(
    "reply",
    [
        raw(b"<html>login</html>", content_type="text/html"),
        text('{"a":' * 20_000),
        text("no data at all"),
        text("late").dropped(),
        raw(b"null"),
    ],
)
def test_nonsense_from_every_call_ends_in_quotes_while_streaming_too(openai_server, reply):
    openai_server.replies = lambda _: reply
    assert asyncio.run(streamed(graph_over(openai_server)))
    result = graph_over(openai_server).invoke(QUESTION)
    assert result["verdict"] == "ambiguous"
    assert any("ungraded" in warning for warning in result["warnings"])


def test_a_grading_call_is_never_streamed_whatever_the_graph_is_asked_for(openai_server):
    openai_server.replies = lambda body: grades({1: 0.9}) if schema_name(body) == "grades" else text("Two years [1].")
    assert asyncio.run(streamed(graph_over(openai_server))) == "Two years [1]."
    assert [bool(chat.get("stream")) for chat in openai_server.chats] == [False, True]


def test_a_server_that_trickles_is_given_up_after_the_configured_time(openai_server):
    openai_server.replies = lambda _: text("late").slow(3)
    with pytest.raises(EvaluationError, match="in time"):
        asyncio.run(
            grader(model(openai_server, timeout_s=0.3), prompt_of("grade"), 10, LlmSettings()).score("q", ["a"])
        )


def test_half_a_surrogate_pair_is_replaced_in_answers_and_in_data(openai_server):
    openai_server.replies = lambda _: raw(
        b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
        b'"message":{"role":"assistant","content":"{\\"grades\\":[{\\"id\\":1,\\"score\\":0.5,\\"reason\\":\\"a\\ud83db\\"}]}"}}]}'
    )
    [grade] = asyncio.run(grader(model(openai_server), prompt_of("grade"), 10, LlmSettings()).score("q", ["a"]))
    assert grade == {"score": 0.5, "reason": "a\ufffdb"}
    assert sound("two \ud83d years \U0001f985") == "two \ufffd years \U0001f985"


def test_grades_in_a_bare_list_are_read(openai_server):
    openai_server.replies = lambda _: text('Here: [{"id": 1, "score": 0.9, "reason": ""}]')
    assert (
        asyncio.run(grader(model(openai_server), prompt_of("grade"), 10, LlmSettings()).score("q", ["a"]))[0]["score"]
        == 0.9
    )
    assert read_json("[1] is not data, {} is") == {}


async def collected(pieces):
    async def source():
        for piece in pieces:
            yield piece

    return "".join([piece async for piece in past_thinking(source())])


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (["<think>secret [1]</think>Two years [1]."], "Two years [1]."),
        (list("<think>a</think>\n\nB [1]"), "B [1]"),
        (["Two", " <think>"], "Two <think>"),
        (["<th", "anks>"], "<thanks>"),
        (["<think>never ends"], ""),
        (["  \n", "Yes"], "Yes"),
    ],
)
def test_thinking_aloud_never_reaches_the_reader(pieces, answer):
    assert asyncio.run(collected(pieces)) == answer


@pytest.mark.parametrize("answer", ["<think>only this", "  \n "])
def test_a_model_that_answers_with_nothing_counts_as_failed(openai_server, answer):
    openai_server.replies = lambda _: text(answer)
    generator = LlmGenerator(model(openai_server), prompt_of("generate"))

    async def run():
        return [piece async for piece in generator.generate("How long?", EVIDENCE)]

    with pytest.raises(GenerationError):
        asyncio.run(run())


@pytest.mark.parametrize("said", ["**NO_EVIDENCE**", '"NO_EVIDENCE"', "no_evidence.", "NO_EVIDENCE"])
def test_an_abstention_is_recognised_however_it_is_dressed(said):
    result = graph_of(DOCUMENTS, writer=Writer(list(said))).invoke(QUESTION)
    assert result["answer"] == "I found no evidence that answers this question."


def test_what_an_abstention_cost_is_counted(openai_server):
    openai_server.replies = lambda body: grades({1: 0.9, 2: 0.9}) if schema_name(body) else text("NO_EVIDENCE")
    generating = graph_over(openai_server).invoke(QUESTION)["usage"]["by_node"]["generate"]
    assert (generating["model_calls"], generating["tokens_in"] > 0, generating["tokens_out"] > 0) == (1, True, True)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Two years [Source 1].", "Two years [1]."),
        ("Two years [^1].", "Two years [1]."),
        ("Two years 【1】.", "Two years [1]."),
        ("Two years [1-3].", "Two years [1]."),
        ("Scores lie in [0, 1], so [1].", "Scores lie in [0, 1], so [1]."),
    ],
)
def test_citations_are_read_in_the_spellings_that_models_use(said, shown):
    result = graph_of(DOCUMENTS, writer=Writer([said])).invoke(QUESTION)
    assert result["answer"] == shown
    assert result["grounded"] is True


@pytest.mark.parametrize("url", ["ftp://nope", "localhost:9", "http://"])
def test_an_address_that_is_none_is_refused_while_building(url):
    with pytest.raises(ConfigurationError, match=r"llm.base_url"):
        Model(LlmSettings(base_url=url, api_key_env=None))


def test_a_cache_that_cannot_be_a_file_is_refused_while_building(tmp_path):
    with pytest.raises(ConfigurationError, match=r"llm.cache"):
        Model(LlmSettings(api_key_env=None, cache=str(tmp_path)))


@pytest.mark.parametrize("given", [{}, {"question": None}, {"question": 5}, {"question": "x", "history": "y"}])
def test_input_of_the_wrong_type_is_an_input_error(given):
    from crag_graph.errors import InputError

    with pytest.raises(InputError):
        graph_of(DOCUMENTS).invoke(given or {"question": None})
