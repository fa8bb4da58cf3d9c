"""Grading, picking strips and writing the query in one call, and the prefilter that spares calls."""

import asyncio
from datetime import UTC, datetime

import pytest

from crag_graph.components.evaluators.llm import grader, strip_filter
from crag_graph.components.evaluators.one_pass import (
    ONE_PASS,
    Memory,
    OnePassEvaluator,
    OnePassRewriter,
    OnePassStrips,
    reveals,
)
from crag_graph.components.evaluators.prefilter import Prefiltered
from crag_graph.components.llm import Model
from crag_graph.components.structured import StructuredModel
from crag_graph.factory import VARIABLES
from crag_graph.policy import cut_by
from crag_graph.prompts import load_prompt
from crag_graph.rules.passage import strip_text
from crag_graph.settings import LlmSettings, RefineSettings
from tests.graph.kit import Rewriter, Scorer, document, graph_of, hit
from tests.servers.openai_server import grades, helpful, json_object, prompt, schema_name, text

QUESTION = "How long is the Falcon warranty?"
DOCUMENT = document(
    "The Falcon warranty is two years. It covers water. It began in May. It rains. It snows.", title="Terms"
)


def answer(score=0.9, strips=(1,), query="Falcon guarantee length", **more):
    item = {"id": 1, "reason": "r", "score": score, "helpful_strips": list(strips)} | more
    return json_object({"documents": [item], "search_query": query})


@pytest.fixture
def components(openai_server, monkeypatch):
    """The three one-pass components over a scripted server, as the factory puts them together."""
    monkeypatch.setenv("TEST_MODEL_KEY", "x")
    settings = LlmSettings(base_url=openai_server.base_url, api_key_env="TEST_MODEL_KEY", max_retries=0)
    model = Model(settings)

    def prompt_of(name):
        return load_prompt(name, VARIABLES[name])

    memory = Memory()
    structured = StructuredModel(model, "one_pass", ONE_PASS, "json_schema")
    graded = grader(model, prompt_of("grade"), 10, settings)
    strips = strip_filter(model, prompt_of("strips"), 40, settings)
    cut, now = cut_by(RefineSettings()), lambda: datetime(2031, 5, 2, tzinfo=UTC)
    evaluator = OnePassEvaluator(structured, prompt_of("one_pass"), cut, graded, memory, 10, now)
    return evaluator, OnePassStrips(memory, strips), OnePassRewriter(memory, Rewriter(["two-step query"]))


def graph(components, web=None):
    evaluator, strips, rewriter = components
    return graph_of([DOCUMENT], web, grader=evaluator, strips=strips, rewriter=rewriter)


def test_one_call_does_for_documents_strips_and_query(components, openai_server):
    openai_server.replies = [answer(strips=[1])]
    states = list(graph(components).stream({"question": QUESTION}, stream_mode="values", output_keys=["kept_strips"]))
    [kept] = states[-1]["kept_strips"]
    assert kept.page_content.startswith("The Falcon warranty is two years.")
    assert len(openai_server.chats) == 1
    assert "Friday, 02 May 2031" in prompt(openai_server.chats[0])
    assert "[1] Terms\n(1) The Falcon warranty" in prompt(openai_server.chats[0])


def test_more_documents_than_one_call_takes_are_graded_in_calls_at_one_time(components, openai_server):
    evaluator, _, _ = components
    items = [{"id": n, "reason": "r", "score": n / 10, "helpful_strips": []} for n in range(1, 11)]
    openai_server.replies = lambda _: json_object({"documents": items, "search_query": "q"}).slow(0.3)
    grades = asyncio.run(evaluator.score(QUESTION, [f"Text {n}." for n in range(20)]))
    assert [grade["score"] for grade in grades] == [n / 10 for n in range(1, 11)] * 2
    assert (len(openai_server.chats), openai_server.peak) == (2, 2)


def test_on_the_web_path_only_the_web_strips_need_a_call_of_their_own(components, openai_server):
    openai_server.replies = lambda body: answer(0.0, []) if schema_name(body) == "one_pass" else helpful(1)
    run = graph(components, [hit("The Falcon warranty is five years.")])
    result = run.invoke({"question": QUESTION})
    assert result["sources"][0]["origin"] == "web"
    assert [schema_name(chat) for chat in openai_server.chats] == ["one_pass", "helpful"]


def test_a_query_with_a_word_that_only_the_documents_have_is_not_used(components, openai_server):
    openai_server.replies = lambda body: (
        answer(0.0, [], "Falcon warranty covers water") if schema_name(body) == "one_pass" else helpful(1)
    )
    states = graph(components, [hit("x")]).stream({"question": QUESTION}, stream_mode="updates")
    queries = [step["rewrite_query"]["web_query"] for step in states if "rewrite_query" in step]
    assert queries[0] == "two-step query"


def test_a_model_that_cannot_fill_the_schema_is_asked_in_two_steps(components, openai_server):
    replies = {"one_pass": text("no idea"), "grades": grades({1: 0.8}), "helpful": helpful(1)}
    openai_server.replies = lambda body: replies[schema_name(body)]
    result = graph(components).invoke({"question": QUESTION})
    assert result["verdict"] == "correct"
    assert result["warnings"] == []
    assert [schema_name(chat) for chat in openai_server.chats] == ["one_pass", "grades", "helpful"]


@pytest.mark.parametrize("bad", [{"score": 85}, {"id": 7}, {"id": None}, {"score": None}])
def test_a_document_without_a_usable_grade_is_graded_in_two_steps(components, openai_server, bad):
    openai_server.replies = lambda body: answer(**bad) if schema_name(body) == "one_pass" else grades({1: 0.4})
    evaluator, _, _ = components
    assert asyncio.run(evaluator.score(QUESTION, ["Terms\nTwo years."]))[0]["score"] == 0.4


def test_strips_named_with_nonsense_are_simply_not_picked(components, openai_server):
    openai_server.replies = [answer(helpful_strips=["x", 99, None, 1])]
    evaluator, strips, _ = components
    text_of = "Terms\nOne here. Two here. Three here. Four here. Five here."
    asyncio.run(evaluator.score(QUESTION, [text_of]))
    shown = [
        strip_text("Terms", "", part)
        for part in ("One here. Two here. Three here.", "Three here. Four here. Five here.")
    ]
    assert [grade["score"] for grade in asyncio.run(strips.score(QUESTION, shown))] == [1.0, 0.0]


def test_words_of_the_question_and_new_words_may_leave_but_not_those_of_the_documents():
    assert not reveals("Falcon guarantee", QUESTION, "The Falcon warranty")
    assert reveals("Falcon Nightjar", QUESTION, "project Nightjar")


@pytest.mark.parametrize(("score", "asked", "result"), [(0.01, 0, 0.0), (0.99, 0, 1.0), (0.5, 1, 0.6), (None, 1, 0.6)])
def test_only_what_the_prefilter_is_unsure_about_reaches_the_costly_evaluator(score, asked, result):
    costly = Scorer(otherwise=0.6)
    prefiltered = Prefiltered(Scorer(otherwise=score), costly, 0.02, 0.98)
    assert asyncio.run(prefiltered.score("q", ["a"]))[0]["score"] == result
    assert len(costly.asked) == asked


def test_prefiltered_grades_stay_in_order():
    cheap = Scorer({"a": 0.99, "b": 0.5, "c": 0.0, "d": 0.5})
    costly = Scorer({"b": 0.3, "d": 0.7})
    grades_ = asyncio.run(Prefiltered(cheap, costly, 0.02, 0.98).score("q", ["a", "b", "c", "d"]))
    assert [grade["score"] for grade in grades_] == [1.0, 0.3, 0.0, 0.7]
    assert costly.asked == [["b", "d"]]
