"""What one system did with one question: plain values that go into the JSON file."""

from typing_extensions import TypedDict

from crag_graph.state import Usage


class Scored(TypedDict):
    """A score and whether the scored text really holds the gold answer of the question's own paragraph."""

    score: float | None
    relevant: bool


class Trace(TypedDict):
    """What one system did with one question, whatever the right answer is."""

    verdict: str
    reason: str
    abstained: bool
    grounded: bool
    answer: str
    context: str  # what the answer rests on, as the model is shown it
    context_tokens: int
    web_queries: list[str]
    warnings: list[str]
    usage: Usage
    seconds: float  # wall time of the whole run


class Outcome(Trace):
    """One run of one system, judged by the gold answer."""

    retrieved: bool  # a retrieved document holds the gold answer
    found_on_web: bool  # a web document holds it
    documents: list[Scored]
    strips: list[Scored]
