"""A model that fills no schema is asked for a plain yes or no, and that is remembered."""

import asyncio

import pytest

from crag_graph.components.evaluators.llm import grader
from crag_graph.components.evaluators.yes_no import OrYesNo
from crag_graph.components.llm import Model
from crag_graph.errors import EvaluationError
from crag_graph.factory import VARIABLES
from crag_graph.notices import notice
from crag_graph.prompts import load_prompt
from crag_graph.settings import LlmSettings
from tests.graph.kit import document, graph_of
from tests.servers.openai_server import failure, prompt, text


def evaluator(server):
    model = Model(LlmSettings(base_url=server.base_url, api_key_env=None, model="m", max_retries=0))

    def prompt_of(name):
        return load_prompt(name, VARIABLES[name])

    return OrYesNo(grader(model, prompt_of("grade"), 10, LlmSettings()), model, prompt_of("yes_no"))


def reply(body):
    asked = prompt(body)
    if "yes or no" not in asked:
        return text("I cannot write JSON.")
    return text("Yes, it does." if "two years" in asked else "**No**")


def scores(found):
    return [grade["score"] for grade in found]


def test_a_model_without_any_structure_still_grades_by_yes_and_no(openai_server):
    openai_server.replies = reply
    judge = evaluator(openai_server)
    assert scores(asyncio.run(judge.score("How long?", ["It rains.", "It is two years."]))) == [0.0, 1.0]
    tried = len(openai_server.chats)
    assert scores(asyncio.run(judge.score("How long?", ["It is two years."]))) == [1.0]
    assert len(openai_server.chats) == tried + 1


@pytest.mark.parametrize(("said", "score"), [("<think>no</think> yes", 1.0), ("perhaps", None), ("NO.", 0.0)])
def test_what_is_neither_yes_nor_no_is_ungraded(openai_server, said, score):
    openai_server.replies = lambda body: text(said) if "yes or no" in prompt(body) else text("prose")
    assert scores(asyncio.run(evaluator(openai_server).score("q", ["a"]))) == [score]


def test_an_outage_is_not_taken_for_inability(openai_server):
    openai_server.replies = lambda _: failure(500)
    with pytest.raises(EvaluationError, match="500"):
        asyncio.run(evaluator(openai_server).score("q", ["a"]))


def test_what_an_evaluator_notices_reaches_the_warnings():
    class Disagreeing:
        async def score(self, question, texts):
            notice("sources disagree")
            return [{"score": 0.9, "reason": "r"} for _ in texts]

    result = graph_of([document("The warranty is two years.")], grader=Disagreeing()).invoke({"question": "How long?"})
    assert "sources disagree" in result["warnings"]
