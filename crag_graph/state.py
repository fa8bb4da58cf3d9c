"""What flows through the graph: plain values only, so that any checkpointer keeps them.

No key has a reducer: a reducer doubles lists when a parent graph merges our output.
"""

from typing import Literal, NotRequired

from langchain_core.documents import Document
from typing_extensions import TypedDict

Verdict = Literal["correct", "ambiguous", "incorrect"]


class Turn(TypedDict):
    """One earlier turn of the conversation."""

    role: Literal["user", "assistant"]
    content: str


class Grade(TypedDict):
    """What an evaluator says of one text.

    `score` is in [0, 1]; None means *ungraded*, which is not the same as irrelevant.
    """

    score: float | None
    reason: str


class DocumentGrade(Grade):
    """The grade of the document with this id."""

    id: str


class Evidence(TypedDict):
    """One numbered source: the kept strips of one document, recomposed in their original order."""

    number: int
    origin: Literal["internal", "web"]
    title: str
    url: str | None
    path: str | None
    page: int | None
    date: str | None
    passage: str
    score: float | None


class NodeUsage(TypedDict):
    """What one node cost, summed over its visits."""

    model_calls: int
    tokens_in: int
    tokens_out: int
    seconds: float


class Usage(NodeUsage):
    """What the run cost, in total and per node."""

    by_node: dict[str, NodeUsage]


class CragInput(TypedDict):
    """What a caller gives."""

    question: str
    history: NotRequired[list[Turn]]


class CragOutput(TypedDict):
    """What a caller, or a parent graph, gets back."""

    answer: str
    grounded: bool  # the answer cites at least one piece of checked evidence
    verdict: Verdict
    reason: str  # the numbers and thresholds behind the verdict, as a sentence
    sources: list[Evidence]  # only those cited
    warnings: list[str]  # every degradation of this run
    usage: Usage


class CragState(CragInput, CragOutput):
    """Everything a run knows. The node named first writes the key; nobody else does."""

    standalone_question: str | None  # retrieve: what retrieval used, when it differs from the question
    documents: list[Document]  # retrieve
    grades: list[DocumentGrade]  # evaluate_retrieval: one per document, in order
    good_docs: list[Document]  # evaluate_retrieval: at or above `lower`
    web_query: str | None  # rewrite_query: the one in use
    web_queries: list[str]  # rewrite_query: all that were tried, in order
    rounds: int  # rewrite_query: corrective rounds done
    web_docs: list[Document]  # web_search: of all rounds, each once
    web_down: bool  # web_search: the provider failed, so asking again in this run is pointless
    strips: list[Document]  # refine: every strip with its score and whether and why it was kept
    kept_strips: list[Document]  # refine: the strips that make the context
    refined_context: str  # refine: the kept strips recomposed, with numbered sources
    enough: bool  # refine: whether the kept strips can carry an answer
