"""What happens when a part is down: the run goes on where it honestly can, and says so."""

import pytest

from crag_graph.errors import EvaluationError, GenerationError, RetrievalError, SearchError
from tests.graph.kit import WEB_TEXT, Found, Rewriter, Scorer, Writer, document, graph_of, hit, visited

QUESTION = {"question": "How long is the warranty?"}
DOCUMENTS = [document("The warranty is two years.", 1), document("It rains.", 2)]


def test_a_grader_that_is_down_makes_the_verdict_ambiguous_never_incorrect():
    graph = graph_of(DOCUMENTS, grader=Scorer(error=EvaluationError("no answer", component="grader")))
    result = graph.invoke(QUESTION)
    assert result["verdict"] == "ambiguous"
    assert result["grounded"] is True
    assert any("documents are ungraded: grader: no answer" in warning for warning in result["warnings"])


def test_one_ungraded_document_is_kept_counted_and_said():
    graph = graph_of(DOCUMENTS, grader=Scorer({"two years": 0.9, "rains": None}))
    result = graph.invoke(QUESTION)
    assert result["verdict"] == "correct"
    assert "1 of 2 documents are ungraded: scripted" in result["warnings"]


def test_a_strip_filter_that_is_down_lets_whole_good_documents_through():
    strips = Scorer(error=EvaluationError("no answer", component="grader"))
    writer = Writer()
    result = graph_of(DOCUMENTS, grader=Scorer({"two": 0.9}), strips=strips, writer=writer).invoke(QUESTION)
    assert [item["passage"] for item in writer.asked[0][1]] == ["The warranty is two years."]
    assert any("strips are ungraded" in warning for warning in result["warnings"])


def test_a_web_search_that_is_down_is_not_asked_again_and_the_index_answers():
    web = Found(SearchError("the quota is used up (432)", component="tavily"))
    graph = graph_of(DOCUMENTS, web, grader=Scorer({"two": 0.5}))
    result = graph.invoke(QUESTION)
    assert len(web.queries) == 1
    assert result["grounded"] is True
    assert "the web was not searched: tavily: the quota is used up (432)" in result["warnings"]


def test_a_web_search_that_is_down_without_internal_evidence_ends_in_an_abstention():
    result = graph_of([], SearchError("unreachable", component="tavily")).invoke(QUESTION)
    assert result["grounded"] is False
    assert any("unreachable" in warning for warning in result["warnings"])


def test_a_rewriter_that_is_down_leaves_the_question_itself_cut_to_the_limit():
    web = Found([hit(WEB_TEXT)])
    rewriter = Rewriter(error=GenerationError("no answer", component="rewriter"))
    long = "How long is the warranty " + "really " * 500 + "?"
    result = graph_of([], web, rewriter=rewriter).invoke({"question": long})
    assert len(web.queries[0]) <= 400
    assert web.queries[0].startswith("How long is the warranty really")
    assert any("question itself is searched" in warning for warning in result["warnings"])


def test_an_index_that_is_down_counts_as_no_documents_when_the_web_is_on():
    graph = graph_of(RetrievalError("no connection", component="index"), [hit(WEB_TEXT)])
    result = graph.invoke(QUESTION)
    assert result["sources"][0]["origin"] == "web"
    assert any("index was not searched: index: no connection" in warning for warning in result["warnings"])


def test_an_index_that_is_down_without_a_web_is_an_error():
    graph = graph_of(RetrievalError("no connection", component="index"))
    with pytest.raises(RetrievalError, match="no connection"):
        graph.invoke(QUESTION)


def test_a_generator_that_is_down_is_replaced_by_quotes_that_say_so():
    writer = Writer(error=GenerationError("no answer", component="generator"))
    result = graph_of(DOCUMENTS, writer=writer).invoke(QUESTION)
    assert result["answer"] == "Quoted [1]."
    assert any("quoted, not written" in warning for warning in result["warnings"])


def test_a_generator_that_is_down_may_be_an_error_that_keeps_the_evidence():
    writer = Writer(error=GenerationError("no answer", component="generator"))
    graph = graph_of(DOCUMENTS, writer=writer, settings={"generator": {"on_failure": "error"}})
    with pytest.raises(GenerationError) as caught:
        graph.invoke(QUESTION)
    assert caught.value.evidence[0]["passage"] == "The warranty is two years."


def test_an_answer_that_breaks_off_keeps_what_was_said_and_warns():
    writer = Writer(["Two years [1]", ", but", " not"], GenerationError("connection lost", component="generator"), 2)
    result = graph_of(DOCUMENTS, writer=writer).invoke(QUESTION)
    assert result["answer"] == "Two years [1], but"
    assert any("cut off" in warning for warning in result["warnings"])


def test_a_good_document_whose_strips_all_fail_still_gives_evidence():
    writer = Writer()
    graph_of(DOCUMENTS, grader=Scorer({"two": 0.9}), strips=Scorer(otherwise=0.0), writer=writer).invoke(QUESTION)
    assert [item["passage"] for item in writer.asked[0][1]] == ["The warranty is two years."]


def test_an_outage_is_visible_in_the_path_too():
    graph = graph_of([], SearchError("unreachable", component="tavily"))
    assert visited(graph) == ["retrieve", "evaluate_retrieval", "rewrite_query", "web_search", "refine", "generate"]
