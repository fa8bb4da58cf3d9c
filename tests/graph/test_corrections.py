"""Corrections that the settings ask for: the index once more, the question in its parts."""

import asyncio

import pytest
from langchain_core.runnables import RunnableLambda

from crag_graph.errors import RetrievalError
from tests.graph.kit import WEB_TEXT, ByQuestion, Found, Rewriter, Scorer, Writer, document, graph_of, hit, visited

QUESTION = {"question": "How long is the warranty?"}
POOR = document("It rains.", 1)
RICH = document("The guarantee lasts two years.", 2)
BOTH = {"corrections": {"ambiguous": ["requery", "web"], "incorrect": ["requery", "web"]}}
INDEX_ONLY = {"corrections": {"ambiguous": ["requery"], "incorrect": ["requery"]}}
PARTS = {"corrections": {"ambiguous": ["decompose", "web"], "incorrect": ["decompose", "web"]}}
START = ["retrieve", "evaluate_retrieval"]


def by_word(**answers):
    """Return a search that answers with the document whose word stands in the query."""
    return Found(lambda query: [found for word, found in answers.items() if word in query.lower()])


def final(graph, question=QUESTION, **options):
    """Return the whole state at the end of a run."""
    return list(graph.stream(question, stream_mode="values", output_keys=list(graph.channels), **options))[-1]


def test_with_default_settings_the_drawing_is_the_plain_shape():
    drawing = graph_of().get_graph().draw_mermaid()
    assert "requery" not in drawing
    assert "ask_human" not in drawing


def test_the_settings_bring_requery_into_the_drawing():
    edges = {(edge.source, edge.target) for edge in graph_of(settings=BOTH).get_graph().edges}
    assert {("rewrite_query", "requery"), ("rewrite_query", "web_search"), ("requery", "refine")} <= edges


def test_a_requery_that_finds_a_correct_document_turns_an_incorrect_verdict():
    index = by_word(warranty=POOR, guarantee=RICH)
    graph = graph_of(
        index, grader=Scorer({"two years": 0.9}), rewriter=Rewriter(["guarantee period"]), settings=INDEX_ONLY
    )
    result = final(graph)
    assert index.queries == ["How long is the warranty?", "guarantee period"]
    assert result["verdict"] == "correct"
    assert result["reason"].startswith("best of 2 scores is 0.90")
    assert [source["title"] for source in result["sources"]] == ["Doc 2"]
    assert [grade["id"] for grade in result["grades"]] == ["d1", "d2"]


def test_a_document_that_is_known_is_not_graded_again():
    grader = Scorer({"rains": 0.1})
    graph = graph_of([POOR], grader=grader, settings=INDEX_ONLY)
    graph.invoke(QUESTION)
    assert [text for call in grader.asked for text in call] == ["Doc 1\nIt rains."]


def test_the_index_is_not_searched_again_with_the_question_it_was_searched_with():
    index = Found([POOR])
    rewriter = Rewriter(["how long is the WARRANTY"])
    graph_of(index, grader=Scorer(), rewriter=rewriter, settings=INDEX_ONLY).invoke(QUESTION)
    assert index.queries == ["How long is the warranty?"]


@pytest.mark.parametrize("is_async", [True, False])
def test_the_index_and_the_web_are_searched_side_by_side(is_async):
    met = asyncio.Barrier(2)
    calls = []

    async def index(query):
        calls.append("index")
        if len(calls) > 1:  # the first call is retrieve's
            await met.wait()
        return [POOR]

    async def web(query):
        await met.wait()
        return [hit(WEB_TEXT)]

    index_search, web_search = Found([]), Found([])
    index_search.runnable, web_search.runnable = RunnableLambda(index), RunnableLambda(web)
    graph = graph_of(index_search, web_search, grader=Scorer(), settings=BOTH)
    result = asyncio.run(asyncio.wait_for(graph.ainvoke(QUESTION), 20)) if is_async else graph.invoke(QUESTION)
    assert result["sources"][0]["origin"] == "web"
    assert set(result["usage"]["by_node"]) == {*START, "rewrite_query", "web_search", "requery", "refine", "generate"}


def test_what_goes_wrong_in_requery_is_said_and_the_web_answers():
    asked = []

    def index(query):
        asked.append(query)
        if len(asked) > 1:
            raise RetrievalError("no connection", component="index")
        return [POOR]

    result = graph_of(index, [hit(WEB_TEXT)], grader=Scorer(), settings=BOTH).invoke(QUESTION)
    assert result["grounded"] is True
    assert "the index was not searched again: index: no connection" in result["warnings"]


def test_with_the_web_off_requery_goes_on_alone():
    path = visited(graph_of([POOR], grader=Scorer(), settings=BOTH))
    assert path == [*START, *["rewrite_query", "requery", "refine"] * 2, "generate"]


COMPOUND = {"question": "Price of the Falcon and warranty of the Heron?"}
PRICE = document("The Falcon costs 900 euros.", 1)
OTHER = document("Falcons are birds.", 3)
WARRANTY = hit("The Heron has a warranty of five years.")


def compound_graph(web, writer=None, settings=PARTS, internal=PRICE):
    index = Found(lambda query: [internal, OTHER] if "falcon" in query.lower() else [OTHER])
    graph = graph_of(
        index, web, grader=ByQuestion(), strips=ByQuestion(), rewriter=Rewriter(), writer=writer, settings=settings
    )
    return graph, index


def test_of_two_parts_one_is_found_in_the_index_and_one_on_the_web():
    web, writer = Found([WARRANTY]), Writer(["900 euros [1], five years [2]."])
    graph, index = compound_graph(web, writer)
    result = final(graph, COMPOUND)
    assert index.queries == [COMPOUND["question"], "Price of the Falcon", "warranty of the Heron"]
    assert web.queries == ["warranty of the Heron"]
    assert [(part["answered"], part["where"]) for part in result["parts"]] == [(True, "internal"), (True, "web")]
    assert result["verdict"] == "ambiguous"
    assert [source["origin"] for source in result["sources"]] == ["internal", "web"]
    assert writer.missing == []


def test_the_strips_of_a_part_are_judged_by_its_question():
    strips = ByQuestion()
    index = Found(lambda query: [PRICE] if "falcon" in query.lower() else [])
    graph_of(index, [WARRANTY], grader=ByQuestion(), strips=strips, rewriter=Rewriter(), settings=PARTS).invoke(
        COMPOUND
    )
    assert set(strips.questions) == {"Price of the Falcon", "warranty of the Heron"}


def test_a_part_that_is_found_nowhere_is_named():
    writer = Writer(["900 euros [1]."])
    graph, _ = compound_graph(Found([]), writer)
    result = graph.invoke(COMPOUND)
    assert result["grounded"] is True
    assert "nothing was found for this part: warranty of the Heron" in result["warnings"]
    assert writer.missing == ["warranty of the Heron"]


def test_parts_that_are_all_in_the_index_leave_the_web_alone():
    web = Found([WARRANTY])
    both = document("The Falcon costs 900 euros. The Heron has a warranty of five years.", 1)
    graph, _ = compound_graph(web, Writer(["All [1]."]), internal=both)
    result = final(graph, COMPOUND)
    assert web.queries == []
    assert [part["where"] for part in result["parts"]] == ["internal", "internal"]


def test_a_correct_verdict_on_one_part_does_not_hide_the_other():
    grader = Scorer({"euros": 0.9})
    graph = graph_of(
        [PRICE], [WARRANTY], grader=grader, strips=ByQuestion(), rewriter=Rewriter(), writer=Writer(["x [1] [2]"]),
        settings=PARTS,
    )  # fmt: skip
    assert visited(graph, COMPOUND["question"])[2] == "rewrite_query"


def test_a_question_of_one_part_takes_the_other_actions_at_once():
    web = Found([hit(WEB_TEXT)])
    graph = graph_of([POOR], web, grader=Scorer(), settings=PARTS)
    assert visited(graph) == [*START, "rewrite_query", "web_search", "refine", "generate"]


def test_nothing_found_for_any_part_is_an_honest_abstention():
    graph, _ = compound_graph(Found([hit("Junk.")]), internal=OTHER)
    result = graph.invoke(COMPOUND)
    assert result["grounded"] is False
    assert result["sources"] == []
    assert [w for w in result["warnings"] if w.startswith("nothing was found for this part")] != []


def test_no_provider_is_asked_twice_for_the_same_query():
    web = Found([hit("Junk.")])
    settings = {
        "corrections": {
            "ambiguous": ["decompose", "requery", "web"],
            "incorrect": ["decompose", "requery", "web"],
            "max_rounds": 5,
        }
    }
    graph, index = compound_graph(web, settings=settings, internal=OTHER)
    graph.invoke(COMPOUND)
    assert len(web.queries) == len({query.casefold() for query in web.queries})
    assert len(index.queries) == len({query.casefold() for query in index.queries})
