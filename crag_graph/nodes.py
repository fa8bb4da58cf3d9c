"""The steps of the graph, in the order they run: each reads the state, asks rules and components, returns an update.

`kit` holds the components, `policy` the numbers in force for this run.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.documents import Document

from crag_graph.errors import EvaluationError, GenerationError, InputError, RetrievalError, SearchError
from crag_graph.policy import Policy
from crag_graph.prompts import ABSTAIN
from crag_graph.protocols import Components
from crag_graph.rules.citations import Citations
from crag_graph.rules.enough import is_enough
from crag_graph.rules.fusion import fuse, recompose, render, unique
from crag_graph.rules.keep import FLAG, choose, estimate_tokens
from crag_graph.rules.passage import heading_line, passage_text, strip_text
from crag_graph.rules.query import canonical_query, clean_query, clip
from crag_graph.rules.question import is_blank, is_followup
from crag_graph.rules.strips import strips as cut
from crag_graph.rules.verdict import decide, is_good
from crag_graph.runtime import no_usage, say
from crag_graph.state import CragState, DocumentGrade, Evidence, Grade

Update = dict[str, Any]


async def retrieve(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `question`, `history` → write `documents`, `standalone_question`; reset everything of an earlier run."""
    if is_blank(state["question"]):
        raise InputError("the question is blank: write what you want to know")
    warnings: list[str] = []
    standalone = await _standalone(state, kit, warnings)
    try:
        found = await kit.search.ainvoke(standalone or state["question"])
    except RetrievalError as error:
        if kit.web is None or not policy.web:
            raise
        warnings.append(f"the index was not searched: {error}")
        found = []
    warnings += kit.notices()
    return {
        "standalone_question": standalone,
        "documents": unique(_identified(found))[: policy.top_k],
        "grades": [],
        "verdict": "incorrect",
        "reason": "",
        "good_docs": [],
        "web_query": None,
        "web_queries": [],
        "web_docs": [],
        "web_down": False,
        "strips": [],
        "kept_strips": [],
        "refined_context": "",
        "enough": False,
        "rounds": 0,
        "answer": "",
        "grounded": False,
        "sources": [],
        "warnings": warnings,
        "usage": no_usage(),
    }


async def evaluate_retrieval(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `documents` → write `grades`, `verdict`, `reason`, `good_docs`."""
    documents, warnings = state["documents"], [*state["warnings"]]
    grades = await _grade(kit.evaluator, _asked(state), [passage_text(d) for d in documents], "documents", warnings)
    scores = [grade["score"] for grade in grades]
    verdict, reason = decide(scores, upper=policy.upper, lower=policy.lower, aggregate=policy.aggregate)
    return {
        "grades": [DocumentGrade(id=str(d.id), **grade) for d, grade in zip(documents, grades, strict=True)],
        "verdict": verdict,
        "reason": reason,
        "good_docs": [
            d for d, score in zip(documents, scores, strict=True) if is_good(score, verdict, lower=policy.lower)
        ],
        "warnings": warnings,
    }


async def rewrite_query(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read the question, `web_queries`, `reason` → write `web_query` (None: nothing new to try), `rounds`."""
    question, tried, warnings = _asked(state), state["web_queries"], [*state["warnings"]]
    why = (
        "no search result held enough evidence" if tried else f"the documents at hand do not suffice: {state['reason']}"
    )
    try:
        query = clean_query(await kit.rewriter.rewrite(question, tried, why), policy.max_query_chars)
    except GenerationError as error:
        warnings.append(f"the question itself is searched: {error}")
        query = ""
    known = {canonical_query(earlier) for earlier in tried}
    candidates = [query, clip(question, policy.max_query_chars)]
    new = next((q for q in candidates if q and canonical_query(q) not in known), None)
    return {
        "web_query": new,
        "web_queries": [*tried, new] if new else tried,
        "rounds": state["rounds"] + 1,
        "warnings": warnings,
    }


async def web_search(state: CragState, kit: Components, policy: Policy) -> Update:  # noqa: ARG001
    """Read `web_query` → write `web_docs`, and `web_down` when the provider fails."""
    if kit.web is None or state["web_query"] is None:
        return {}
    try:
        found = await kit.web.ainvoke(state["web_query"])
    except SearchError as error:
        return {"web_down": True, "warnings": [*state["warnings"], f"the web was not searched: {error}"]}
    return {"web_docs": unique([*state["web_docs"], *_identified(found, origin="web")])}


async def refine(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `verdict`, `good_docs`, `web_docs` → write `strips`, `kept_strips`, `refined_context`, `enough`."""
    warnings = [*state["warnings"]]
    documents = fuse(state["verdict"], state["good_docs"], state["web_docs"])
    strips = [strip for index, document in enumerate(documents) for strip in _cut(document, index, policy)]
    await _score_strips(strips, _asked(state), state["strips"], kit, warnings)
    chosen = choose(
        [strip.metadata["score"] for strip in strips],
        [estimate_tokens(strip.page_content) for strip in strips],
        [strip.metadata["document"] for strip in strips],
        keep=policy.keep,
        max_strips=policy.max_strips,
        max_tokens=policy.max_context_tokens,
        good=[i for i, d in enumerate(documents) if d in state["good_docs"]],
    )
    for strip, (kept, why) in zip(strips, chosen, strict=True):
        strip.metadata |= {"kept": kept, "why": why}
    kept_strips = [strip for strip in strips if strip.metadata["kept"]]
    return {
        "strips": strips,
        "kept_strips": kept_strips,
        "refined_context": render(recompose(documents, kept_strips)),
        "enough": is_enough(
            ((s.metadata["score"], s.metadata["why"] == FLAG) for s in kept_strips),
            state["verdict"],
            sufficient=policy.sufficient,
        ),
        "warnings": warnings,
    }


async def generate(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `kept_strips` → write `answer`, `grounded`, `sources`."""
    warnings = [*state["warnings"]]
    evidence = recompose(fuse(state["verdict"], state["good_docs"], state["web_docs"]), state["kept_strips"])
    if state["verdict"] != "correct" and not (kit.web and policy.web):
        warnings.append(f"the web was not searched: {kit.web_off or 'this run keeps off the web'}")
    citations = Citations(len(evidence), render(evidence))
    if state["enough"]:
        pieces = _answer(_asked(state), evidence, kit, policy, warnings)
        answer = await say(_checked(pieces, citations, policy.no_evidence))
    else:
        answer = await say(_once(policy.no_evidence))
    if citations.invented:
        warnings.append(f"removed from the answer, because no evidence has it: {', '.join(citations.invented)}")
    if answer != policy.no_evidence and not citations.cited:
        warnings.append("the answer cites none of its evidence, so it counts as not grounded")
    return {
        "answer": answer,
        "grounded": bool(citations.cited),
        "sources": [item for item in evidence if item["number"] in citations.cited],
        "warnings": warnings,
    }


def _asked(state: CragState) -> str:
    return state["standalone_question"] or state["question"]


async def _standalone(state: CragState, kit: Components, warnings: list[str]) -> str | None:
    history = state.get("history") or []
    if not history or not is_followup(state["question"]):
        return None
    try:
        return (await kit.rewriter.standalone(state["question"], history)).strip() or None
    except GenerationError as error:
        warnings.append(f"the question is searched as typed, without the turns before it: {error}")
        return None


def _identified(documents: Sequence[Document], origin: str = "internal") -> list[Document]:
    """Give every document the id and the origin that the rest of the graph relies on."""
    return [
        Document(
            d.page_content,
            id=d.id or hashlib.sha256(d.page_content.encode(errors="replace")).hexdigest()[:16],
            metadata={"origin": origin, **d.metadata},
        )
        for d in documents
    ]


async def _grade(evaluator: Any, question: str, texts: Sequence[str], what: str, warnings: list[str]) -> list[Grade]:
    """Score the texts; where the evaluator is down they are ungraded, never irrelevant."""
    if not texts:
        return []
    try:
        grades: list[Grade] = await evaluator.score(question, texts)
    except EvaluationError as error:
        warnings.append(f"{what} are ungraded: {error}")
        return [Grade(score=None, reason=str(error)) for _ in texts]
    ungraded = [grade["reason"] for grade in grades if grade["score"] is None]
    if ungraded:
        reasons = "; ".join(dict.fromkeys(ungraded))
        warnings.append(f"{len(ungraded)} of {len(texts)} {what} are ungraded: {reasons}")
    return grades


def _cut(document: Document, index: int, policy: Policy) -> list[Document]:
    text = document.page_content
    spans = cut(
        text,
        policy.strip_mode,
        window=policy.window,
        overlap=policy.overlap,
        words=policy.words,
        language=policy.language,
    )
    return [
        Document(
            text[span.start : span.end],
            id=f"{document.id}:{span.start}-{span.end}",
            metadata={
                "document_id": document.id,
                "document": index,
                "title": heading_line(document),
                "origin": document.metadata["origin"],
                "start": span.start,
                "end": span.end,
                "lead_start": span.lead_start,
                "lead_end": span.lead_end,
                "lead": text[span.lead_start : span.lead_end],
            },
        )
        for span in spans
    ]


async def _score_strips(
    strips: Sequence[Document], question: str, known: Sequence[Document], kit: Components, warnings: list[str]
) -> None:
    """Write a score into every strip; one that an earlier round scored is not asked about again."""
    scores = {strip.id: strip.metadata["score"] for strip in known if strip.metadata["score"] is not None}
    new = [strip for strip in strips if strip.id not in scores]
    texts = [strip_text(s.metadata["title"], s.metadata["lead"], s.page_content) for s in new]
    grades = await _grade(kit.strip_filter, question, texts, "strips", warnings)
    scores |= {strip.id: grade["score"] for strip, grade in zip(new, grades, strict=True)}
    for strip in strips:
        strip.metadata["score"] = scores[strip.id]


async def _once(text: str) -> AsyncIterator[str]:
    yield text


async def _answer(
    question: str, evidence: Sequence[Evidence], kit: Components, policy: Policy, warnings: list[str]
) -> AsyncIterator[str]:
    """Yield the generator's pieces; where it fails before its first word, those of the fallback."""
    said = False
    try:
        async for piece in kit.generator.generate(question, evidence):
            said = True
            yield piece
    except GenerationError as error:
        if said:
            warnings.append(f"the answer was cut off: {error}")
            return
        if policy.on_failure == "error":
            error.evidence = evidence
            raise
        warnings.append(f"the answer is quoted, not written: {error}")
        async for piece in kit.fallback.generate(question, evidence):
            yield piece


async def _checked(pieces: AsyncIterator[str], citations: Citations, no_evidence: str) -> AsyncIterator[str]:
    """Yield the answer with its citations checked; a generator that abstains is replaced by the fixed sentence."""
    opening = ""
    async for piece in pieces:
        opening += piece
        start = opening.lstrip()
        if start.startswith(ABSTAIN):
            yield no_evidence
            return
        if not ABSTAIN.startswith(start):
            break
    yield citations.push(opening)
    async for piece in pieces:
        yield citations.push(piece)
    yield citations.finish()
