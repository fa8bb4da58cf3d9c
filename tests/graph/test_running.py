"""How the graph runs: sync and async, streams, threads, contexts, parents."""

import asyncio
import json
import operator
from typing import Annotated

import pytest
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from crag_graph.errors import InputError
from crag_graph.state import CragInput, CragOutput
from tests.graph.kit import WEB_TEXT, Found, Scorer, Writer, document, graph_of, hit

QUESTION = {"question": "How long is the warranty?"}
DOCUMENTS = [document("The warranty is two years.", source="a.md")]
ANSWER = "The answer is here [1]."


def tokens(stream):
    return "".join(message.text for message, _ in stream)


def test_sync_and_async_callers_get_the_same_answer():
    graph = graph_of(DOCUMENTS)
    assert graph.invoke(QUESTION)["answer"] == asyncio.run(graph.ainvoke(QUESTION))["answer"] == ANSWER


def test_the_output_is_the_narrow_contract_and_plain_json():
    result = graph_of(DOCUMENTS).invoke(QUESTION)
    assert set(result) == set(CragOutput.__annotations__)
    assert json.loads(json.dumps(result)) == result


def test_both_message_streams_carry_exactly_the_answer():
    graph = graph_of(DOCUMENTS)

    async def collect():
        return [part async for part in graph.astream(QUESTION, stream_mode="messages")]

    parts = list(graph.stream(QUESTION, stream_mode="messages"))
    assert tokens(parts) == tokens(asyncio.run(collect())) == ANSWER
    assert {metadata["langgraph_node"] for _, metadata in parts} == {"generate"}


def test_an_invented_citation_never_shows_up_in_the_stream():
    graph = graph_of(DOCUMENTS, writer=Writer(["Two years [", "7]", "[1]", " see https://ma", "de.up/x ok"]))
    streamed = tokens(graph.stream(QUESTION, stream_mode="messages"))
    result = graph.invoke(QUESTION)
    assert streamed == result["answer"] == "Two years[1] see  ok"
    assert [source["number"] for source in result["sources"]] == [1]
    assert "[7], https://made.up/x" in result["warnings"][-1]


def test_an_abstention_is_streamed_too():
    graph = graph_of([])
    assert tokens(graph.stream(QUESTION, stream_mode="messages")) == graph.invoke(QUESTION)["answer"]


def test_a_generator_that_abstains_is_replaced_by_the_fixed_sentence():
    graph = graph_of(DOCUMENTS, writer=Writer(["NO", "_EVID", "ENCE"]))
    result = graph.invoke(QUESTION)
    assert result["answer"] == "I found no evidence that answers this question."
    assert result["grounded"] is False
    assert result["warnings"] == ["the evidence was judged to be enough, but the model found no answer in it"]
    assert tokens(graph.stream(QUESTION, stream_mode="messages")) == result["answer"]


def test_an_answer_that_cites_nothing_does_not_count_as_grounded():
    result = graph_of(DOCUMENTS, writer=Writer(["Two years."])).invoke(QUESTION)
    assert result["answer"] == "Two years."
    assert result["grounded"] is False
    assert "cites none" in result["warnings"][-1]


def test_a_second_question_on_a_thread_sees_nothing_of_the_first():
    graph = graph_of(
        lambda q: DOCUMENTS if "warranty" in q else [],
        [hit(WEB_TEXT)],
        grader=Scorer({"two years": 0.9}),
    ).copy(update={"checkpointer": InMemorySaver()})
    config = {"configurable": {"thread_id": "1"}}
    first = graph.invoke(QUESTION, config)
    second = graph.invoke({"question": "Who sells it?"}, config)
    state = graph.get_state(config).values
    assert first["sources"][0]["origin"] == "internal"
    assert second["sources"][0]["origin"] == "web"
    assert second["usage"]["by_node"].keys() == {
        "retrieve", "evaluate_retrieval", "rewrite_query", "web_search", "refine", "generate",
    }  # fmt: skip
    assert (state["documents"], state["rounds"]) == ([], 1)


def test_a_followup_is_searched_with_what_it_leans_on_and_a_full_question_as_typed():
    search = Found(DOCUMENTS)
    history = [{"role": "user", "content": "How long is the Model X warranty?"}]
    graph = graph_of(search)
    graph.invoke({"question": "What about its battery?", "history": history})
    graph.invoke({"question": "Who repairs the Model Y?", "history": history})
    graph.invoke({"question": "What about its battery?"})
    assert search.queries == [
        "What about its battery? (How long is the Model X warranty?)",
        "Who repairs the Model Y?",
        "What about its battery?",
    ]


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b"])
def test_a_blank_question_is_refused_before_any_call(blank):
    search = Found(DOCUMENTS)
    with pytest.raises(InputError, match="blank"):
        graph_of(search).invoke({"question": blank})
    assert search.queries == []


def test_the_run_context_changes_one_run_only():
    graph = graph_of(DOCUMENTS, grader=Scorer(otherwise=0.6))
    assert graph.invoke(QUESTION)["verdict"] == "ambiguous"
    assert graph.invoke(QUESTION, context={"upper": 0.6})["verdict"] == "correct"
    assert graph.invoke(QUESTION)["verdict"] == "ambiguous"


def test_a_context_that_turns_the_thresholds_around_is_refused():
    with pytest.raises(InputError, match="lower"):
        graph_of(DOCUMENTS).invoke(QUESTION, context={"lower": 0.9})


def test_the_context_schema_describes_and_bounds_its_fields():
    schema = graph_of().get_context_jsonschema()["properties"]
    assert schema["upper"]["description"]
    assert {"maximum": 1, "minimum": 0, "type": "number"} in schema["upper"]["anyOf"]


class ParentState(TypedDict):
    question: str
    answer: str
    documents: Annotated[list[Document], operator.add]
    warnings: Annotated[list[str], operator.add]


class ParentContext(TypedDict):
    upper: str


def parent_of(graph, context_schema=None):
    parent = StateGraph(ParentState, context_schema=context_schema)
    parent.add_node("crag", graph)
    parent.add_node("again", graph)
    parent.add_edge(START, "crag")
    parent.add_edge("crag", "again")
    parent.add_edge("again", END)
    return parent.compile()


def test_as_a_node_of_a_parent_with_adding_lists_nothing_doubles():
    given = [document("mine", 8), document("mine too", 9)]
    result = parent_of(graph_of(DOCUMENTS)).invoke({**QUESTION, "documents": given, "warnings": ["before"]})
    assert result["answer"] == ANSWER
    assert result["documents"] == given
    assert result["warnings"] == ["before"]


def test_inside_a_parent_with_a_context_of_its_own_everything_is_as_configured():
    result = parent_of(graph_of(DOCUMENTS), ParentContext).invoke(QUESTION, context={"upper": "not ours"})
    assert result["answer"] == ANSWER


@pytest.mark.parametrize("levels", [1, 2])
def test_embedded_graphs_stream_exactly_the_answers_sync_and_async(levels):
    graph = parent_of(graph_of(DOCUMENTS))
    if levels == 2:
        outer = StateGraph(ParentState)
        outer.add_node("inner", graph)
        outer.add_edge(START, "inner")
        graph = outer.compile()

    async def collect():
        return [part async for _, part in graph.astream(QUESTION, stream_mode="messages", subgraphs=True)]

    sync = [part for _, part in graph.stream(QUESTION, stream_mode="messages", subgraphs=True)]
    assert tokens(sync) == tokens(asyncio.run(collect())) == ANSWER * 2


def test_two_runs_at_once_do_not_mix_their_usage():
    graph = graph_of(DOCUMENTS)

    async def both():
        return await asyncio.gather(*(graph.ainvoke(QUESTION) for _ in range(8)))

    for result in asyncio.run(both()):
        assert set(result["usage"]["by_node"]) == {"retrieve", "evaluate_retrieval", "refine", "generate"}


def test_a_question_with_every_template_character_goes_through_unchanged():
    wild = 'Answer like {this}: {{x}} ${HOME} $name %s {% if a %} \\frac{1}{2} {"rows": [1]}'
    grader = Scorer(otherwise=0.9)
    graph_of(DOCUMENTS, grader=grader).invoke({"question": wild})
    assert grader.questions == [wild]


def test_the_input_schema_names_the_question():
    assert set(graph_of().get_input_jsonschema()["properties"]) == set(CragInput.__annotations__)
