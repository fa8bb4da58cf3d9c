"""Every path of the graph: scores × web on or off → exactly these nodes."""

import pytest
from langgraph.graph import START as START_NODE
from langgraph.graph import StateGraph

from crag_graph.rules.query import canonical_query
from crag_graph.state import CragState
from tests.graph.kit import WEB_TEXT, Found, Rewriter, Scorer, document, graph_of, hit, visited

START = ["retrieve", "evaluate_retrieval"]
ROUND = ["rewrite_query", "web_search", "refine"]
DOCUMENTS = [document("The warranty is two years.", 1), document("It rains.", 2)]


@pytest.mark.parametrize(
    ("score", "web", "strip", "nodes"),
    [
        (0.9, "good", 1.0, [*START, "refine", "generate"]),
        (0.9, "off", 1.0, [*START, "refine", "generate"]),
        (0.9, "good", 0.0, [*START, "refine", "generate"]),
        (0.5, "good", 1.0, [*START, *ROUND, "generate"]),
        (0.5, "off", 1.0, [*START, "refine", "generate"]),
        (0.5, "good", 0.0, [*START, *ROUND, *ROUND, "generate"]),
        (0.1, "good", 1.0, [*START, *ROUND, "generate"]),
        (0.1, "good", 0.0, [*START, *ROUND, *ROUND, "generate"]),
        (0.1, "empty", 1.0, [*START, *ROUND, *ROUND, "generate"]),
        (0.1, "off", 1.0, [*START, "generate"]),
        (None, "good", 1.0, [*START, *ROUND, "generate"]),
        (None, "off", 1.0, [*START, "refine", "generate"]),
    ],
)
def test_scores_and_web_decide_the_path(score, web, strip, nodes):
    answers = {"good": [hit(WEB_TEXT)], "empty": [], "off": None}
    graph = graph_of(DOCUMENTS, answers[web], grader=Scorer(otherwise=score), strips=Scorer(otherwise=strip))
    assert visited(graph) == nodes


def test_no_documents_at_all_go_to_the_web():
    assert visited(graph_of([], [hit(WEB_TEXT)])) == [*START, *ROUND, "generate"]


def test_no_documents_and_no_web_end_in_an_honest_abstention():
    result = graph_of([]).invoke({"question": "Anything?"})
    assert result["grounded"] is False
    assert result["answer"] == "I found no evidence that answers this question."
    assert result["verdict"] == "incorrect"
    assert result["usage"]["model_calls"] == 0
    assert any("web" in warning for warning in result["warnings"])


def test_a_run_may_keep_off_the_web():
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], grader=Scorer(otherwise=0.1))
    assert visited(graph, context={"web": False}) == [*START, "generate"]


def test_without_rounds_nothing_is_corrected():
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], grader=Scorer(otherwise=0.5))
    assert visited(graph, context={"max_rounds": 0}) == [*START, "refine", "generate"]


def test_the_worst_path_fits_the_usual_limit_of_25_steps():
    graph = graph_of(
        DOCUMENTS,
        lambda query: [hit("junk", hash(query))],
        grader=Scorer(otherwise=0.0),
        strips=Scorer(otherwise=0.0),
        rewriter=Rewriter([f"query {n}" for n in range(9)]),
    )
    nodes = visited(graph, context={"max_rounds": 5}, config={"recursion_limit": 25})
    assert nodes == [*START, *ROUND * 5, "generate"]


def test_no_query_is_searched_twice_and_a_rewriter_without_ideas_ends_the_rounds():
    web = Found([])
    graph = graph_of(
        DOCUMENTS, web, grader=Scorer(otherwise=0.0), rewriter=Rewriter(["warranty", "Warranty!", "warranty?"])
    )
    assert visited(graph, context={"max_rounds": 5}) == [*START, *ROUND, *ROUND, *ROUND, "generate"]
    assert web.queries == ["warranty", "How long is the warranty?"]


def test_the_search_sees_the_rewritten_query_and_everyone_else_the_question():
    web, grader, strips = Found([hit(WEB_TEXT)]), Scorer(otherwise=0.0), Scorer(otherwise=1.0)
    graph = graph_of(DOCUMENTS, web, grader=grader, strips=strips, rewriter=Rewriter(["warranty length years"]))
    graph.invoke({"question": "How long is it covered?"})
    assert web.queries == ["warranty length years"]
    assert set(grader.questions + strips.questions) == {"How long is it covered?"}


def test_an_incorrect_verdict_purges_the_internal_documents():
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], grader=Scorer({"two years": 0.2}))
    result = graph.invoke({"question": "How long is the warranty?"})
    assert [source["origin"] for source in result["sources"]] == ["web"]
    assert result["sources"][0]["url"] == "https://a.example/1"


def test_an_ambiguous_verdict_fuses_both():
    seen = []
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], grader=Scorer({"two years": 0.5}))
    for update in graph.stream({"question": "How long is the warranty?"}, stream_mode="updates"):
        seen += [node["refined_context"] for node in update.values() if "refined_context" in node]
    assert "two years" in seen[-1]
    assert WEB_TEXT in seen[-1]
    assert "It rains" not in seen[-1]


def test_web_results_that_are_all_junk_never_reach_the_generator():
    graph = graph_of([], [hit("Buy shoes now."), hit("Cookies, cookies.", 2)], strips=Scorer(otherwise=0.0))
    result = graph.invoke({"question": "How long is the warranty?"})
    assert result["grounded"] is False
    assert result["sources"] == []


def test_web_results_are_graded_like_documents_where_that_costs_no_model_call():
    strips = Scorer(otherwise=1.0)
    pages = [hit(WEB_TEXT), hit("Buy shoes now.", 2), hit("Cannot be graded.", 3)]
    grader = Scorer({"five years": 0.9, "Cannot": None})
    graph = graph_of([], pages, strips=strips, web_grader=grader)
    graph.invoke({"question": "How long is the warranty?"})
    assert [text for call in strips.asked for text in call] == [f"W\n{WEB_TEXT}", "W\nCannot be graded."]


def test_a_grade_of_a_page_is_in_the_state_and_is_asked_for_once():
    grader = Scorer(otherwise=0.1)
    graph = graph_of([], [hit("Buy shoes now.")], web_grader=grader)
    state = list(graph.stream({"question": "Why?"}, stream_mode="values", output_keys=list(graph.channels)))[-1]
    assert state["web_docs"][0].metadata["grade"] == 0.1
    assert len([text for call in grader.asked for text in call]) == 1
    assert state["grounded"] is False


WEB, INDEX = ["web_search", "refine"], ["requery", "refine"]


@pytest.mark.parametrize(
    ("actions", "web", "nodes"),
    [
        (["web"], True, ["rewrite_query", *WEB] * 2),
        (["requery"], True, ["rewrite_query", *INDEX] * 2),
        (["requery"], False, ["rewrite_query", *INDEX] * 2),
        (["requery", "web"], True, ["rewrite_query", "requery", *WEB] * 2),
        (["requery", "web"], False, ["rewrite_query", *INDEX] * 2),
        (["decompose"], True, ["rewrite_query", *INDEX]),
        (["decompose", "web"], True, ["rewrite_query", *INDEX, "rewrite_query", *WEB]),
        (["decompose", "web"], False, ["rewrite_query", *INDEX]),
        (["decompose", "requery", "web"], True, ["rewrite_query", *INDEX, "rewrite_query", *WEB]),
        ([], True, []),
    ],
)
def test_the_listed_actions_decide_the_rounds_of_a_compound_question(actions, web, nodes):
    settings = {"corrections": {"ambiguous": actions, "incorrect": actions}}
    graph = graph_of(DOCUMENTS, [hit("junk")] if web else None, grader=Scorer(), strips=Scorer(), settings=settings)
    went = visited(graph, "Price of the Falcon and warranty of the Heron?")
    assert sorted(went) == sorted([*START, *nodes, "generate"])
    assert [n for n in went if n not in ("requery", "web_search")] == [
        *START, *[n for n in nodes if n in ("rewrite_query", "refine")], "generate",
    ]  # fmt: skip


@pytest.mark.parametrize("actions", [["requery", "web"], ["decompose", "web"], ["decompose", "requery", "web"]])
@pytest.mark.parametrize("question", ["Why?", "Price of the Falcon and warranty of the Heron?"])
def test_a_grader_always_at_0_and_a_search_always_junk_end_in_an_abstention_within_25_steps(actions, question):
    corrections = {"ambiguous": actions, "incorrect": actions, "max_rounds": 5}
    numbers = iter(range(1000))
    web = Found(lambda query: [hit(f"junk {next(numbers)}", next(numbers))])
    index = Found(lambda query: [document(f"junk {next(numbers)}", next(numbers))])
    graph = graph_of(
        index, web, grader=Scorer(), strips=Scorer(), rewriter=Rewriter([f"query {n}" for n in range(30)]),
        settings={"corrections": corrections},
    )  # fmt: skip
    parent = StateGraph(CragState)
    parent.add_node("crag", graph)
    parent.add_edge(START_NODE, "crag")
    result = parent.compile().invoke({"question": question}, {"recursion_limit": 25})
    assert result["answer"] == "I found no evidence that answers this question."
    assert (result["grounded"], result["sources"]) == (False, [])
    for queries in (web.queries, index.queries):
        assert len(queries) == len({canonical_query(query) for query in queries})


def test_a_strip_that_was_judged_in_one_round_is_not_judged_again():
    strips = Scorer({"five": 0.1}, otherwise=0.0)
    graph = graph_of([], lambda query: [hit(WEB_TEXT, 1), hit(f"About {query}.", len(query))], strips=strips)
    graph.invoke({"question": "How long is the warranty?"})
    judged = [text for call in strips.asked for text in call]
    assert len(judged) == len(set(judged)) == 3
