"""What several nodes need."""

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document

from crag_graph.errors import EvaluationError
from crag_graph.notices import noticed
from crag_graph.protocols import Evaluator
from crag_graph.state import CragState, Grade, Part

Update = dict[str, Any]


def asked(state: CragState) -> str:
    """Return the question as it stands alone: what everything but the web is asked."""
    return state["standalone_question"] or state["question"]


def open_parts(state: CragState) -> list[Part]:
    """Return the parts of a decomposed question that nothing answers yet."""
    return [part for part in state["parts"] if not part["answered"]]


def identified(documents: Sequence[Document], origin: str = "internal") -> list[Document]:
    """Give every document the id and the origin that the rest of the graph relies on."""
    return [
        Document(
            d.page_content,
            id=d.id or hashlib.sha256(d.page_content.encode(errors="replace")).hexdigest()[:16],
            metadata={"origin": origin, **d.metadata},
        )
        for d in documents
    ]


async def grade(
    evaluator: Evaluator, question: str, texts: Sequence[str], what: str, warnings: list[str]
) -> list[Grade]:
    """Score the texts; where the evaluator is down they are ungraded, never irrelevant."""
    if not texts:
        return []
    try:
        with noticed() as said:
            grades = await evaluator.score(question, texts)
        warnings += [text for text in said if text not in warnings]
    except EvaluationError as error:
        warnings.append(f"{what} are ungraded: {error}")
        return [Grade(score=None, reason=str(error)) for _ in texts]
    ungraded = [grade["reason"] for grade in grades if grade["score"] is None]
    if ungraded:
        reasons = "; ".join(dict.fromkeys(ungraded))
        warnings.append(f"{len(ungraded)} of {len(texts)} {what} are ungraded: {reasons}")
    return grades
