"""Where a person is asked: what they see, what they may say, and that the run survives the wait."""

import os
import subprocess
import sys
import textwrap

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from crag_graph.errors import ConfigurationError
from tests.graph.kit import WEB_TEXT, ByQuestion, Found, Rewriter, Scorer, Writer, document, graph_of, hit

QUESTION = {"question": "How long is the warranty?"}
ASK = {"corrections": {"on_insufficient": "ask", "max_rounds": 1}}
APPROVE = {"web": {"approve": True}}
CONFIG = {"configurable": {"thread_id": "1"}}


def kept(graph):
    return graph.copy(update={"checkpointer": InMemorySaver()})


def asking(index=(), web=None, **scripted):
    scripted = {"grader": Scorer({"two years": 0.9}), "strips": Scorer({"years": 0.9})} | scripted
    return kept(graph_of(index, web, settings=ASK, **scripted))


def shown(result):
    return result["__interrupt__"][0].value


def test_a_person_sees_what_was_tried():
    graph = asking([document("It rains.")], [hit("Junk.")])
    asked = shown(graph.invoke(QUESTION, CONFIG))
    assert asked["question"] == QUESTION["question"]
    assert asked["verdict"] == "incorrect"
    assert asked["reason"] == "best of 1 scores is 0.00, below lower 0.30"
    assert asked["queries"] == ["first query"]
    assert '{"search": "other words"}' in asked["answers"]


def test_search_this_instead_goes_to_the_index_and_the_web():
    index = Found(lambda query: [document("The guarantee is two years.", 2)] if "guarantee" in query else [])
    web = Found([hit("Junk.")])
    graph = asking(index, web)
    graph.invoke(QUESTION, CONFIG)
    result = graph.invoke(Command(resume={"search": "guarantee period"}), CONFIG)
    assert index.queries == [QUESTION["question"], "guarantee period"]
    assert web.queries == ["first query", "guarantee period"]
    assert result["verdict"] == "correct"
    assert result["sources"][0]["title"] == "Doc 2"


def test_search_this_instead_goes_to_the_index_alone_when_the_web_is_off():
    index = Found(lambda query: [document("The guarantee is two years.", 2)] if "guarantee" in query else [])
    graph = asking(index)
    graph.invoke(QUESTION, CONFIG)
    assert graph.invoke(Command(resume={"search": "guarantee period"}), CONFIG)["grounded"] is True


def test_words_that_were_searched_before_are_not_searched_again():
    web = Found([hit("Junk.")])
    graph = asking([], web)
    graph.invoke(QUESTION, CONFIG)
    again = graph.invoke(Command(resume={"search": "First, query!"}), CONFIG)
    assert web.queries == ["first query"]
    assert shown(again)["kind"] == "insufficient"


def test_a_text_that_a_person_adds_becomes_evidence():
    graph = asking([document("It rains.")], [hit("Junk.")])
    graph.invoke(QUESTION, CONFIG)
    result = graph.invoke(Command(resume={"text": "It is two years, says the manual."}), CONFIG)
    assert result["grounded"] is True
    assert result["verdict"] == "correct"
    assert [(s["origin"], s["title"], s["passage"]) for s in result["sources"]] == [
        ("internal", "added by hand", "It is two years, says the manual.")
    ]


def test_a_text_counts_although_no_filter_sees_the_answer_in_it():
    graph = asking()
    graph.invoke(QUESTION, CONFIG)
    assert graph.invoke(Command(resume={"text": "See the label."}), CONFIG)["grounded"] is True


def test_stop_is_an_honest_abstention():
    graph = asking([], [hit("Junk.")])
    graph.invoke(QUESTION, CONFIG)
    result = graph.invoke(Command(resume="stop"), CONFIG)
    assert result["grounded"] is False
    assert result["answer"] == "I found no evidence that answers this question."


@pytest.mark.parametrize("answer", ["go on", 7, {"search": " "}, {"find": "x"}, {"search": "a", "text": "b"}])
def test_an_answer_that_does_not_fit_is_asked_again(answer):
    graph = asking()
    graph.invoke(QUESTION, CONFIG)
    again = graph.invoke(Command(resume=answer), CONFIG)
    assert "is no answer to this" in shown(again)["problem"]
    assert graph.invoke(Command(resume="stop"), CONFIG)["grounded"] is False


def test_a_part_that_is_open_is_shown_and_can_be_filled_in_by_hand():
    settings = {"corrections": {"ambiguous": ["decompose"], "incorrect": ["decompose"], "on_insufficient": "ask"}}
    index = Found(lambda query: [document("The Falcon costs 900 euros.")] if "Falcon" in query else [])
    writer = Writer(["900 euros [1], three years [2]."])
    graph = kept(graph_of(index, grader=ByQuestion(), strips=ByQuestion(), writer=writer, settings=settings))
    asked = shown(graph.invoke({"question": "Price of the Falcon and warranty of the Heron?"}, CONFIG))
    assert asked["open"] == ["warranty of the Heron"]
    result = graph.invoke(Command(resume={"text": "The Heron has three years."}), CONFIG)
    assert len(result["sources"]) == 2
    assert writer.missing == []


def test_an_answer_that_is_good_enough_bothers_nobody():
    assert "__interrupt__" not in asking([document("It is two years.")]).invoke(QUESTION, CONFIG)


def test_a_query_is_shown_before_it_leaves():
    web = Found([hit(WEB_TEXT)])
    graph = kept(graph_of([], web, settings=APPROVE))
    asked = shown(graph.invoke(QUESTION, CONFIG))
    assert (asked["kind"], asked["queries"]) == ("approve", ["first query"])
    assert web.queries == []
    assert graph.invoke(Command(resume=True), CONFIG)["grounded"] is True
    assert web.queries == ["first query"]


def test_a_query_may_be_kept_from_leaving():
    web = Found([hit(WEB_TEXT)])
    graph = kept(graph_of([], web, settings=APPROVE))
    graph.invoke(QUESTION, CONFIG)
    result = graph.invoke(Command(resume=False), CONFIG)
    assert web.queries == []
    assert result["grounded"] is False
    assert any("a person kept the query from leaving" in warning for warning in result["warnings"])


def test_a_query_may_be_edited_and_the_edited_one_is_remembered():
    web = Found([hit(WEB_TEXT)])
    graph = kept(graph_of([], web, settings=APPROVE))
    graph.invoke(QUESTION, CONFIG)
    graph.invoke(Command(resume="harmless words"), CONFIG)
    assert web.queries == ["harmless words"]
    assert graph.get_state(CONFIG).values["web_queries"] == ["harmless words"]


def test_while_a_query_waits_the_index_is_searched_once():
    index = Found([document("It rains.")])
    both = {"ambiguous": ["requery", "web"], "incorrect": ["requery", "web"]}
    graph = kept(graph_of(index, [hit(WEB_TEXT)], grader=Scorer(), settings=APPROVE | {"corrections": both}))
    graph.invoke(QUESTION, CONFIG)
    result = graph.invoke(Command(resume=True), CONFIG)
    assert index.queries == [QUESTION["question"], "first query"]
    assert result["sources"][0]["origin"] == "web"


@pytest.mark.parametrize(
    ("settings", "name"), [(ASK, "corrections.on_insufficient is ask"), (APPROVE, "web.approve is true")]
)
@pytest.mark.parametrize("config", [None, CONFIG])
def test_without_a_checkpointer_the_error_says_what_is_missing(settings, name, config):
    graph = graph_of([], [hit("Junk.")], strips=Scorer(), settings=settings)
    with pytest.raises(ConfigurationError, match=rf"{name}, but a run can only pause with a checkpointer"):
        graph.invoke(QUESTION, config)


class Parent(TypedDict):
    question: str
    answer: str


def test_inside_a_parent_the_parents_checkpointer_keeps_the_run():
    parent = StateGraph(Parent)
    parent.add_node("crag", graph_of([], [hit("Junk.")], strips=Scorer({"years": 0.9}), settings=ASK))
    parent.add_edge(START, "crag")
    parent.add_edge("crag", END)
    graph = parent.compile(checkpointer=InMemorySaver())
    assert shown(graph.invoke(QUESTION, CONFIG))["kind"] == "insufficient"
    result = graph.invoke(Command(resume={"text": "It is two years."}), CONFIG)
    assert result["answer"] == "The answer is here [1]."


RESUME = textwrap.dedent(
    """
    import sys
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.types import Command
    from tests.graph.kit import Scorer, document, graph_of, hit

    graph = graph_of([document("It rains.")], [hit("Junk.")], grader=Scorer(), strips=Scorer({"years": 0.9}),
                     settings={"corrections": {"on_insufficient": "ask", "max_rounds": 1}})
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        graph = graph.copy(update={"checkpointer": saver})
        config = {"configurable": {"thread_id": "1"}}
        result = graph.invoke(Command(resume={"text": "It is two years."}), config)
    print(result["answer"], result["sources"][0]["title"], result["usage"]["by_node"].keys() >= {"ask_human"})
    """
)


def test_a_question_to_a_person_survives_a_restart(tmp_path):
    path = str(tmp_path / "threads.sqlite")
    graph = graph_of([document("It rains.")], [hit("Junk.")], grader=Scorer(), strips=Scorer(), settings=ASK)
    with SqliteSaver.from_conn_string(path) as saver:
        asked = graph.copy(update={"checkpointer": saver}).invoke(QUESTION, CONFIG)
    assert shown(asked)["kind"] == "insufficient"
    environment = os.environ | {"LANGGRAPH_STRICT_MSGPACK": "true"}
    command = [sys.executable, "-W", "error", "-c", RESUME, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The answer is here [1]. added by hand True"
    assert done.stderr == ""


def test_asking_again_and_again_never_meets_the_step_limit():
    graph = kept(graph_of([], [hit("Junk.")], strips=Scorer(), rewriter=Rewriter(), settings=ASK))
    graph.invoke(QUESTION, CONFIG)
    for number in range(12):
        again = graph.invoke(Command(resume={"search": f"words {number}"}), CONFIG | {"recursion_limit": 25})
        assert shown(again)["kind"] == "insufficient"
