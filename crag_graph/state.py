"""What flows through the graph: plain values only, so that any checkpointer keeps them.

No key has a reducer: a reducer doubles lists when a parent graph merges our output.
"""

from typing import Literal, NotRequired

from langchain_core.documents import Document
from typing_extensions import TypedDict

Verdict = Literal["correct", "ambiguous", "incorrect"]
Action = Literal["web", "requery", "decompose"]


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


class Part(TypedDict):
    """One part of a question that was decomposed, and what the index holds for it."""

    question: str
    verdict: Verdict
    grades: list[DocumentGrade]
    answered: bool  # a kept strip carries an answer to it
    where: Literal["internal", "web", ""]  # where that strip is from


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
    """Everything a run knows. The nodes named first write the key; nobody else does."""

    standalone_question: str | None  # retrieve: what retrieval used, when it differs from the question
    documents: list[Document]  # retrieve, requery, ask_human
    grades: list[DocumentGrade]  # evaluate_retrieval, requery, ask_human: one per document, in order
    good_docs: list[Document]  # evaluate_retrieval, requery, ask_human: at or above `lower`
    parts: list[Part]  # rewrite_query, requery, refine: of a decomposed question; empty when it has but one
    actions: list[Action]  # rewrite_query, ask_human: what this round does
    queries: list[str]  # rewrite_query, ask_human: those of this round, one per open part
    web_query: str | None  # rewrite_query, ask_human: the first of them
    web_queries: list[str]  # rewrite_query, ask_human: all that were tried, in order
    rounds: int  # rewrite_query: corrective rounds done
    web_docs: list[Document]  # web_search: of all rounds, each once
    web_down: bool  # web_search: the provider failed, or a person said no, so this run does not ask again
    requery_warnings: list[str]  # requery, beside web_search: refine adds them to `warnings`
    requery_usage: NodeUsage | None  # requery, beside web_search: the next node adds it to `usage`
    human: Literal["", "search", "text", "stop"]  # ask_human: what the person said last
    strips: list[Document]  # refine: every strip with its score and whether and why it was kept
    kept_strips: list[Document]  # refine: the strips that make the context
    refined_context: str  # refine: the kept strips recomposed, with numbered sources
    enough: bool  # refine: whether the kept strips can carry an answer, at least to a part
