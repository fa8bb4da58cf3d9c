"""From the question to a verdict: retrieve, evaluate_retrieval."""

from crag_graph.errors import GenerationError, InputError, RetrievalError
from crag_graph.nodes.common import Update, asked, grade, identified
from crag_graph.notices import noticed
from crag_graph.policy import Policy
from crag_graph.protocols import Components
from crag_graph.rules.compound import is_compound
from crag_graph.rules.fusion import unique
from crag_graph.rules.passage import passage_text
from crag_graph.rules.question import is_blank, is_followup
from crag_graph.rules.verdict import decide, is_good
from crag_graph.runtime import no_usage
from crag_graph.state import CragState, DocumentGrade


async def retrieve(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `question`, `history` → write `documents`, `standalone_question`; reset everything of an earlier run."""
    _check_input(state)
    warnings: list[str] = []
    standalone = await _standalone(state, kit, warnings)
    try:
        with noticed() as said:
            found = await kit.search.ainvoke(standalone or state["question"])
        warnings += said
    except RetrievalError as error:
        if kit.web is None or not policy.web:
            raise
        warnings.append(f"the index was not searched: {error}")
        found = []
    warnings += kit.notices()
    documents = unique(identified(found))[: policy.top_k]
    return _fresh() | {"standalone_question": standalone, "documents": documents, "warnings": warnings}


async def evaluate_retrieval(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `documents` → write `grades`, `verdict`, `reason`, `good_docs`."""
    documents, warnings = state["documents"], [*state["warnings"]]
    grades = await grade(kit.evaluator, asked(state), [passage_text(d) for d in documents], "documents", warnings)
    scores = [grade["score"] for grade in grades]
    verdict, reason = decide(scores, upper=policy.upper, lower=policy.lower, aggregate=policy.aggregate)
    if verdict == "correct" and policy.splits_ambiguous and is_compound(asked(state)):
        verdict, reason = "ambiguous", f"{reason}; but the question has parts, and one answer may not cover all"
    return {
        "grades": [DocumentGrade(id=str(d.id), **grade) for d, grade in zip(documents, grades, strict=True)],
        "verdict": verdict,
        "reason": reason,
        "good_docs": [
            d for d, score in zip(documents, scores, strict=True) if is_good(score, verdict, lower=policy.lower)
        ],
        "warnings": warnings,
    }


def _check_input(state: CragState) -> None:
    """Refuse what cannot be asked; the types are checked because callers over HTTP send any JSON."""
    question, history = state.get("question"), state.get("history") or []
    if not isinstance(question, str) or is_blank(question):
        raise InputError("the question is blank or no text: write what you want to know")
    turns = history if isinstance(history, list) else [None]
    if not all(isinstance(turn, dict) and {"role", "content"} <= turn.keys() for turn in turns):
        raise InputError('history must be a list of {"role": "user" or "assistant", "content": "..."}')


def _fresh() -> Update:
    """Return every per-run key as it is before anything is known: a thread's earlier run must not show."""
    return {
        "grades": [],
        "verdict": "incorrect",
        "reason": "",
        "good_docs": [],
        "parts": [],
        "actions": [],
        "queries": [],
        "web_query": None,
        "web_queries": [],
        "web_docs": [],
        "web_down": False,
        "requery_warnings": [],
        "requery_usage": None,
        "human": "",
        "strips": [],
        "kept_strips": [],
        "refined_context": "",
        "enough": False,
        "rounds": 0,
        "answer": "",
        "grounded": False,
        "sources": [],
        "usage": no_usage(),
    }


async def _standalone(state: CragState, kit: Components, warnings: list[str]) -> str | None:
    history = state.get("history") or []
    if not history or not is_followup(state["question"]):
        return None
    try:
        return (await kit.rewriter.standalone(state["question"], history)).strip() or None
    except GenerationError as error:
        warnings.append(f"the question is searched as typed, without the turns before it: {error}")
        return None
