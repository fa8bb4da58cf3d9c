"""From documents to the strips that make the context: refine."""

import asyncio
from collections.abc import Sequence

from langchain_core.documents import Document

from crag_graph.nodes.common import Update, asked, grade
from crag_graph.policy import Policy
from crag_graph.protocols import Components
from crag_graph.rules.enough import is_enough
from crag_graph.rules.fusion import fuse, recompose, render
from crag_graph.rules.keep import FLAG, choose, estimate_tokens
from crag_graph.rules.passage import heading_line, strip_text
from crag_graph.rules.strips import strips as cut
from crag_graph.rules.verdict import is_good
from crag_graph.state import CragState, Part, Verdict

Judged = tuple[Document, int | None]  # a document and the part it is judged for; None: the whole question


async def refine(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `verdict`, `good_docs`, `web_docs`, `parts` → write `strips`, `kept_strips`, `refined_context`, `enough`."""
    warnings = [*state["warnings"], *state["requery_warnings"]]
    pages = [page for page in state["web_docs"] if page.metadata.get("grade", policy.lower) >= policy.lower]
    documents = fuse(state["verdict"], state["good_docs"], pages)
    judged = _judged(documents, state["parts"], policy)
    strips = [strip for index, (document, part) in enumerate(judged) for strip in _cut(document, part, index, policy)]
    await _score_strips(strips, state, kit, warnings)
    good = [index for index, (document, _) in enumerate(judged) if document in state["good_docs"]]
    _choose(strips, good, max(1, len(state["parts"])), policy)
    kept = [strip for strip in strips if strip.metadata["kept"]]
    parts = [_answered(part, number, kept, policy) for number, part in enumerate(state["parts"])]
    return {
        "strips": strips,
        "kept_strips": kept,
        "refined_context": render(recompose(documents, kept)),
        "parts": parts,
        "enough": any(part["answered"] for part in parts) if parts else _enough(kept, state["verdict"], policy),
        "warnings": warnings,
        "requery_warnings": [],
    }


def _judged(documents: Sequence[Document], parts: Sequence[Part], policy: Policy) -> list[Judged]:
    """Pair documents with parts: internal ones with what they are good for, web pages with what the index left open."""
    if not parts:
        return [(document, None) for document in documents]
    return [
        (document, number)
        for document in documents
        for number, part in enumerate(parts)
        if (document.metadata["origin"] == "web" and part["where"] != "internal")
        or any(
            grade["id"] == document.id and is_good(grade["score"], part["verdict"], lower=policy.lower)
            for grade in part["grades"]
        )
    ]


def _cut(document: Document, part: int | None, index: int, policy: Policy) -> list[Document]:
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
            id=f"{document.id}:{span.start}-{span.end}" + ("" if part is None else f"#{part}"),
            metadata={
                "document_id": document.id,
                "document": index,
                "part": part,
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


async def _score_strips(strips: Sequence[Document], state: CragState, kit: Components, warnings: list[str]) -> None:
    """Write a score into every strip; one that an earlier round scored is not asked about again."""
    scores = {strip.id: strip.metadata["score"] for strip in state["strips"] if strip.metadata["score"] is not None}
    new = [strip for strip in strips if strip.id not in scores]

    async def score(part: int | None) -> None:
        own = [strip for strip in new if strip.metadata["part"] == part]
        texts = [strip_text(s.metadata["title"], s.metadata["lead"], s.page_content) for s in own]
        question = asked(state) if part is None else state["parts"][part]["question"]
        grades = await grade(kit.strip_filter, question, texts, "strips", warnings)
        scores.update({strip.id: grade["score"] for strip, grade in zip(own, grades, strict=True)})

    await asyncio.gather(*(score(part) for part in dict.fromkeys(strip.metadata["part"] for strip in new)))
    for strip in strips:
        strip.metadata["score"] = scores[strip.id]


def _choose(strips: Sequence[Document], good: Sequence[int], shares: int, policy: Policy) -> None:
    """Write into every strip whether it is kept and why; the parts of a question share the room equally."""
    for part in dict.fromkeys(strip.metadata["part"] for strip in strips):
        own = [strip for strip in strips if strip.metadata["part"] == part]
        chosen = choose(
            [strip.metadata["score"] for strip in own],
            [estimate_tokens(strip.page_content) for strip in own],
            [strip.metadata["document"] for strip in own],
            keep=policy.keep,
            max_strips=max(1, policy.max_strips // shares),
            max_tokens=policy.max_context_tokens // shares,
            good=good,
        )
        for strip, (kept, why) in zip(own, chosen, strict=True):
            strip.metadata |= {"kept": kept, "why": why}


def _enough(kept: Sequence[Document], verdict: Verdict, policy: Policy) -> bool:
    scored = ((strip.metadata["score"], strip.metadata["why"] == FLAG) for strip in kept)
    return is_enough(scored, verdict, sufficient=policy.sufficient)


def _answered(part: Part, number: int, kept: Sequence[Document], policy: Policy) -> Part:
    """Return the part with whether its own kept strips carry an answer, and where the best of them is from."""
    own = [strip for strip in kept if strip.metadata["part"] == number]
    if not _enough(own, part["verdict"], policy):
        return {**part, "answered": False, "where": ""}
    best = max(own, key=lambda strip: -1.0 if strip.metadata["score"] is None else strip.metadata["score"])
    return {**part, "answered": True, "where": best.metadata["origin"]}
