"""Which documents an answer may rest on, and how their kept strips become numbered evidence.

Fusion (Yan et al., 2024, section 4.1): *correct* → the good internal documents; *incorrect* → web documents only, the
internal ones are purged; *ambiguous* → both. The same text, or the same page, appears once, internal first.

Recomposition: the kept strips of a document are put back in their original order, each sentence once, with the line
they depend on; a gap is marked by "…". Every document with a kept strip is one numbered source.

>>> pieces("One. Two. Three. Four.", [(5, 9), (0, 4), (17, 22)])
'One. Two. … Four.'
"""

import re
from collections.abc import Iterable, Sequence

from langchain_core.documents import Document

from crag_graph.rules.passage import heading_line
from crag_graph.rules.query import canonical_url
from crag_graph.state import Evidence, Verdict


def fuse(verdict: Verdict, internal: Sequence[Document], web: Sequence[Document]) -> list[Document]:
    """Return the documents that the verdict allows, without repeats."""
    chosen = {"correct": [*internal], "incorrect": [*web], "ambiguous": [*internal, *web]}[verdict]
    return unique(chosen)


def unique(documents: Iterable[Document]) -> list[Document]:
    """Return the first document of every text and of every web page, in order.

    A remembered passage (it `expires`) is not its page: both stay, since the page may say more.
    """
    kept: list[Document] = []
    texts: set[str] = set()
    pages: set[str] = set()
    for document in documents:
        text = re.sub(r"\W+", " ", document.page_content).casefold().strip()
        url, is_passage = document.metadata.get("url"), "expires" in document.metadata
        page = canonical_url(url) if url and not is_passage else None
        if text in texts or page in pages:
            continue
        texts.add(text)
        if page:
            pages.add(page)
        kept.append(document)
    return kept


def pieces(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the given parts of a text in their original order, each character once, gaps marked."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    whole = "".join(f"{_gap(text, before, start)}{text[start:end]}" for before, (start, end) in _pairs(merged))
    return whole.strip()


def _pairs(merged: list[tuple[int, int]]) -> Iterable[tuple[int | None, tuple[int, int]]]:
    return zip([None, *(end for _, end in merged)], merged, strict=False)


def _gap(text: str, before: int | None, start: int) -> str:
    if before is None:
        return ""
    return "\n" if "\n" in text[before:start] else " … "


def recompose(documents: Sequence[Document], kept: Sequence[Document]) -> list[Evidence]:
    """Return one numbered source per document that kept a strip, in the order of the documents."""
    evidence: list[Evidence] = []
    for document in documents:
        own = [strip.metadata for strip in kept if strip.metadata["document_id"] == document.id]
        if not own:
            continue
        spans = [(s["start"], s["end"]) for s in own] + [(s["lead_start"], s["lead_end"]) for s in own]
        scores = [s["score"] for s in own if s["score"] is not None]
        passage = pieces(document.page_content, (span for span in spans if span[0] < span[1]))
        evidence.append(as_source(document, len(evidence) + 1, passage, max(scores, default=None)))
    return evidence


def as_source(document: Document, number: int, passage: str, score: float | None) -> Evidence:
    """Return a document, or the passage of it that counts, as a numbered source."""
    return Evidence(
        number=number,
        origin=document.metadata.get("origin", "internal"),
        title=heading_line(document),
        url=document.metadata.get("url"),
        path=document.metadata.get("source"),
        page=document.metadata.get("page"),
        date=document.metadata.get("date"),
        passage=passage,
        score=score,
    )


def render(evidence: Sequence[Evidence]) -> str:
    """Return the evidence as the context a model reads: number and title, then the passage."""
    return "\n\n".join(f"[{item['number']}] {item['title']}".rstrip() + f"\n{item['passage']}" for item in evidence)
