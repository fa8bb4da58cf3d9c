"""One corrective round: rewrite_query, then web_search and requery side by side.

The two run in one step, so they write different keys; what requery has to say waits in `requery_warnings` for refine.
"""

import asyncio
from collections.abc import Sequence

from langchain_core.documents import Document

from crag_graph.errors import GenerationError, RetrievalError, SearchError
from crag_graph.nodes.common import Update, asked, grade, identified, open_parts
from crag_graph.nodes.people import approved
from crag_graph.notices import noticed
from crag_graph.policy import Policy
from crag_graph.protocols import Components
from crag_graph.rules.corrections import after_split, round_actions
from crag_graph.rules.fusion import unique
from crag_graph.rules.passage import passage_text
from crag_graph.rules.query import canonical_query, clean_query, clip
from crag_graph.rules.verdict import decide, decide_parts, is_good
from crag_graph.state import Action, CragState, DocumentGrade, Part


def next_actions(state: CragState, kit: Components, policy: Policy) -> tuple[Action, ...]:
    """Return what the next corrective round would do; nothing when there is to be none."""
    return round_actions(
        state["verdict"],
        policy.corrections,
        rounds=state["rounds"],
        max_rounds=policy.max_rounds,
        web=kit.web is not None and policy.web and not state["web_down"],
        parts=len(state["parts"]),
    )


async def rewrite_query(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read the question, `parts`, `web_queries`, `reason` → write `actions`, `parts`, `queries`, `rounds`."""
    warnings, parts = [*state["warnings"]], state["parts"]
    actions = next_actions(state, kit, policy)
    if "decompose" in actions:
        parts = await _parts(state, kit, warnings)
        actions = after_split(actions, parts=len(parts))
    looks_up_parts = "decompose" in actions
    queries = [] if looks_up_parts or not actions else await _queries(state, kit, policy, warnings)
    return {
        "parts": parts,
        "actions": list(actions) if queries or looks_up_parts else [],
        "queries": queries,
        "web_query": queries[0] if queries else None,
        "web_queries": [*state["web_queries"], *queries],
        "rounds": state["rounds"] + 1,
        "warnings": warnings,
    }


async def web_search(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `queries` → write `web_docs`, and `web_down` when the provider fails or a person says no."""
    if kit.web is None or not state["queries"]:
        return {}
    queries, update = state["queries"], Update()
    if policy.approve:
        queries = approved(state["question"], queries)
        if queries != state["queries"]:
            update = _resent(state, queries)
    warnings = [*state["warnings"]]
    if not queries:
        warnings.append("the web was not searched: a person kept the query from leaving")
    found, down = await _searched(kit, queries, warnings)
    web_docs = unique([*state["web_docs"], *identified(found, origin="web")])
    await _grade_pages(web_docs[len(state["web_docs"]) :], state, kit, warnings)
    return update | {
        "web_docs": web_docs,
        "web_down": down or not queries,
        "warnings": warnings,
    }


async def requery(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `queries` or `parts` → write `documents`, `grades`, `verdict`, `reason`, `good_docs`, `parts`."""
    warnings: list[str] = []
    if "decompose" in state["actions"]:
        looked_up = [part["question"] for part in state["parts"]]
        found = await asyncio.gather(*(_looked_up(kit, question, policy, warnings) for question in looked_up))
        update = await _by_part(state, dict(enumerate(found)), kit, policy, warnings)
    else:
        known = canonical_query(asked(state))
        new = [query for query in state["queries"] if canonical_query(query) != known]
        found = await asyncio.gather(*(_looked_up(kit, query, policy, warnings) for query in new))
        documents = unique(document for some in found for document in some)
        if state["parts"]:
            still_open = [n for n, part in enumerate(state["parts"]) if not part["answered"]]
            update = await _by_part(state, dict.fromkeys(still_open, documents), kit, policy, warnings)
        else:
            update = await _as_whole(state, documents, kit, policy, warnings)
    return {**update, "requery_warnings": warnings}


async def _parts(state: CragState, kit: Components, warnings: list[str]) -> list[Part]:
    """Return the parts of the question; none when it has but one."""
    try:
        questions = await kit.rewriter.decompose(asked(state))
    except GenerationError as error:
        warnings.append(f"the question is not split into its parts: {error}")
        return []
    if len(questions) < 2:
        return []
    return [Part(question=question, verdict="incorrect", grades=[], answered=False, where="") for question in questions]


async def _queries(state: CragState, kit: Components, policy: Policy, warnings: list[str]) -> list[str]:
    """Return one new query for the question, or for each of its open parts; fewer where nothing new can be said."""
    tried = state["web_queries"]
    why = (
        "no search result held enough evidence" if tried else f"the documents at hand do not suffice: {state['reason']}"
    )

    async def drafted(question: str) -> list[str]:
        try:
            query = clean_query(await kit.rewriter.rewrite(question, tried, why), policy.max_query_chars)
        except GenerationError as error:
            warnings.append(f"the question itself is searched: {error}")
            query = ""
        return [query, clip(question, policy.max_query_chars)]

    questions = [part["question"] for part in open_parts(state)] or [asked(state)]
    queries: list[str] = []
    for candidates in await asyncio.gather(*map(drafted, questions)):
        known = {canonical_query(earlier) for earlier in [*tried, *queries]}
        queries += [query for query in candidates if query and canonical_query(query) not in known][:1]
    return queries


def _resent(state: CragState, queries: list[str]) -> Update:
    """Return what the state says of a round's queries once a person has changed them."""
    before = [query for query in state["web_queries"] if query not in state["queries"]]
    return {"queries": queries, "web_query": queries[0] if queries else None, "web_queries": [*before, *queries]}


async def _searched(kit: Components, queries: Sequence[str], warnings: list[str]) -> tuple[list[Document], bool]:
    """Return what all queries brought, and whether the provider failed."""

    async def search(query: str) -> list[Document] | None:
        try:
            return await kit.web.ainvoke(query) if kit.web else None
        except SearchError as error:
            said = f"the web was not searched: {error}"
            warnings.extend([] if said in warnings else [said])
            return None

    with noticed() as said:
        results = await asyncio.gather(*map(search, queries))
    warnings += [text for text in said if text not in warnings]
    return [document for result in results for document in result or []], None in results


async def _grade_pages(pages: Sequence[Document], state: CragState, kit: Components, warnings: list[str]) -> None:
    """Write into new web documents their best grade for what is open, where grading costs no model call."""
    if kit.web_evaluator is None:
        return
    texts = [passage_text(page) for page in pages]
    for question in [part["question"] for part in open_parts(state)] or [asked(state)]:
        grades = await grade(kit.web_evaluator, question, texts, "web documents", warnings)
        for page, item in zip(pages, grades, strict=True):
            if item["score"] is not None:
                page.metadata["grade"] = max(item["score"], page.metadata.get("grade", 0.0))


async def _looked_up(kit: Components, query: str, policy: Policy, warnings: list[str]) -> list[Document]:
    try:
        with noticed() as said:
            found = await kit.search.ainvoke(query)
    except RetrievalError as error:
        warnings.append(f"the index was not searched again: {error}")
        return []
    warnings += [text for text in said if text not in warnings]
    return unique(identified(found))[: policy.top_k]


async def _as_whole(
    state: CragState, found: Sequence[Document], kit: Components, policy: Policy, warnings: list[str]
) -> Update:
    """Grade what is new for the question, and decide the verdict anew from all grades."""
    documents = unique([*state["documents"], *found])
    new = documents[len(state["documents"]) :]
    grades = [*state["grades"], *await _graded(asked(state), new, kit, warnings)]
    scores = [item["score"] for item in grades]
    verdict, reason = decide(scores, upper=policy.upper, lower=policy.lower, aggregate=policy.aggregate)
    good = [d for d, score in zip(documents, scores, strict=True) if is_good(score, verdict, lower=policy.lower)]
    return {"documents": documents, "grades": grades, "verdict": verdict, "reason": reason, "good_docs": good}


async def _by_part(
    state: CragState, found: dict[int, list[Document]], kit: Components, policy: Policy, warnings: list[str]
) -> Update:
    """Grade for each part what was found for it and what is at hand, and decide the verdict from those of the parts."""

    async def judged(number: int, part: Part) -> Part:
        known = {item["id"] for item in part["grades"]}
        candidates = unique([*found.get(number, []), *state["good_docs"]]) if number in found else []
        new = [document for document in candidates if document.id not in known]
        grades = [*part["grades"], *await _graded(part["question"], new, kit, warnings)]
        scores = [item["score"] for item in grades]
        verdict, _ = decide(scores, upper=policy.upper, lower=policy.lower, aggregate=policy.aggregate)
        return {**part, "grades": grades, "verdict": verdict}

    parts = await asyncio.gather(*(judged(number, part) for number, part in enumerate(state["parts"])))
    by_id = {str(d.id): d for some in [state["documents"], *found.values()] for d in some}
    best = _best([*state["grades"], *(item for part in parts for item in part["grades"])])
    good = {
        item["id"]
        for part in parts
        for item in part["grades"]
        if is_good(item["score"], part["verdict"], lower=policy.lower)
    }
    verdict, reason = decide_parts([(part["question"], part["verdict"]) for part in parts])
    return {
        "parts": list(parts),
        "documents": list(by_id.values()),
        "grades": [best[id_] for id_ in by_id],
        "verdict": verdict,
        "reason": reason,
        "good_docs": [document for id_, document in by_id.items() if id_ in good],
    }


def _best(grades: Sequence[DocumentGrade]) -> dict[str, DocumentGrade]:
    """Return the highest grade of every document; ungraded is below all others."""
    rising = sorted(grades, key=lambda item: -1.0 if item["score"] is None else item["score"])
    return {item["id"]: item for item in rising}


async def _graded(
    question: str, documents: Sequence[Document], kit: Components, warnings: list[str]
) -> list[DocumentGrade]:
    texts = [passage_text(document) for document in documents]
    grades = await grade(kit.evaluator, question, texts, "documents", warnings)
    return [DocumentGrade(id=str(d.id), **item) for d, item in zip(documents, grades, strict=True)]
