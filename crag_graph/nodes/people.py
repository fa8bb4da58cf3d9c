"""Where a person is asked: ask_human, and the approval of queries. Both pause the run until it is resumed.

A paused run waits in the checkpointer; `graph.invoke(Command(resume=answer), config)` goes on, also in a new process.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langgraph.config import get_config
from langgraph.types import interrupt

from crag_graph.errors import ConfigurationError
from crag_graph.nodes.common import Update, open_parts
from crag_graph.policy import Policy
from crag_graph.protocols import Components
from crag_graph.rules.query import canonical_query, clean_query
from crag_graph.rules.question import is_blank
from crag_graph.state import CragState, DocumentGrade

ASK = 'resume with {"search": "other words"}, {"text": "what you know"} or "stop"'
APPROVE = "resume with true, false, or the query as it should leave (a list, where there are several)"


async def ask_human(state: CragState, kit: Components, policy: Policy) -> Update:  # noqa: ARG001
    """Read the verdict and the queries, ask → write what the person adds: `queries` or a document; or nothing more."""
    shown = {
        "kind": "insufficient",
        "question": state["question"],
        "verdict": state["verdict"],
        "reason": state["reason"],
        "queries": state["web_queries"],
        "open": [part["question"] for part in open_parts(state)],
        "answers": ASK,
    }
    match _ask("corrections.on_insufficient is ask", shown, _is_help, ASK):
        case {"search": query}:
            return _searching(state, clean_query(query, policy.max_query_chars))
        case {"text": text}:
            return _added(state, text)
        case _:
            return {"human": "stop"}


def approved(question: str, queries: list[str]) -> list[str]:
    """Show the queries before they leave; return those that may, as the person wrote them, or none."""
    shown = {"kind": "approve", "question": question, "queries": queries, "answers": APPROVE}
    match _ask("web.approve is true", shown, _is_approval, APPROVE):
        case True:
            return queries
        case str() as edited:
            return [edited]
        case list() as edited:
            return edited
        case _:
            return []


def _ask(setting: str, shown: dict[str, Any], fits: Any, wanted: str) -> Any:
    """Pause until a person answers in a form that fits; ask again when it does not.

    Raises:
        ConfigurationError: nothing would keep the paused run.
    """
    if get_config()["configurable"].get("__pregel_checkpointer", ...) is None:
        raise ConfigurationError(
            f"{setting}, but a run can only pause with a checkpointer: compile with one "
            '(graph.copy(update={"checkpointer": saver})) and give a thread_id, or change the setting'
        )
    answer = interrupt(shown)
    while not fits(answer):
        answer = interrupt({**shown, "problem": f"{answer!r} is no answer to this: {wanted}"})
    return answer


def _is_help(answer: Any) -> bool:
    if isinstance(answer, dict) and len(answer) == 1 and answer.keys() <= {"search", "text"}:
        return _is_said(next(iter(answer.values())))
    return bool(answer == "stop")


def _is_approval(answer: Any) -> bool:
    return isinstance(answer, bool) or _is_said(answer) or (isinstance(answer, list) and all(map(_is_said, answer)))


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and not is_blank(value)


def _searching(state: CragState, query: str) -> Update:
    """Search the person's words, unless they were searched before; the run then comes back to the person."""
    is_new = canonical_query(query) not in map(canonical_query, state["web_queries"])
    queries = [query] if query and is_new else []
    return {
        "human": "search",
        "actions": ["requery", "web"],
        "queries": queries,
        "web_query": queries[0] if queries else None,
        "web_queries": [*state["web_queries"], *queries],
    }


def _added(state: CragState, text: str) -> Update:
    """Make evidence of the person's text: they vouch for it, so the verdict is correct."""
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    document = Document(text, id=f"hand-{digest}", metadata={"origin": "internal", "title": "added by hand"})
    grade = DocumentGrade(id=f"hand-{digest}", score=1.0, reason="added by hand")
    return {
        "human": "text",
        "documents": [*state["documents"], document],
        "grades": [*state["grades"], grade],
        "good_docs": [*_without(state["good_docs"], document), document],
        "verdict": "correct",
        "reason": f"{state['reason']}; a person added a text",
        "parts": [
            part if part["answered"] else {**part, "grades": [*part["grades"], grade], "verdict": "correct"}
            for part in state["parts"]
        ],
    }


def _without(documents: Sequence[Document], document: Document) -> list[Document]:
    return [other for other in documents if other.id != document.id]
