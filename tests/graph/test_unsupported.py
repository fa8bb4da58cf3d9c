"""Answers from the model's memory, where the settings ask for them."""

from crag_graph.errors import GenerationError
from tests.graph.kit import Writer, document, graph_of

QUESTION = {"question": "How long is the warranty?"}


def from_memory(pieces=("Perhaps two years [1].",), index=(), **options):
    return graph_of(index, unsupported=Writer(pieces, **options)).invoke(QUESTION)


def test_an_answer_from_memory_is_marked_and_cites_nothing():
    result = from_memory()
    assert result["answer"] == "Perhaps two years."
    assert (result["grounded"], result["sources"]) == (False, [])
    assert any("nothing supports it" in warning for warning in result["warnings"])


def test_a_model_that_does_not_know_leaves_the_abstention():
    assert from_memory(["NO_EVIDENCE"])["answer"] == "I found no evidence that answers this question."


def test_a_model_that_is_down_leaves_the_abstention_and_the_reason():
    result = from_memory(error=GenerationError("no answer", component="generator"))
    assert result["answer"] == "I found no evidence that answers this question."
    assert "the answer from memory failed: generator: no answer" in result["warnings"]


def test_where_there_is_evidence_nothing_comes_from_memory():
    result = from_memory(index=[document("The warranty is two years.")])
    assert result["answer"] == "The answer is here [1]."
    assert result["warnings"] == []
