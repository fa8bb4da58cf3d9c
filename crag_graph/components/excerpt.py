"""The part of a long text that has most to say about a query, in a bounded number of characters."""

from crag_graph.components.term_index import TermIndex
from crag_graph.rules.fusion import pieces
from crag_graph.rules.query import clip
from crag_graph.rules.strips import Span, strips

_GAP = 3  # characters that mark a gap
_MAX_CHARS = 200_000  # of a longer text the beginning is looked at, so that the time stays bounded


def best_part(text: str, query: str, max_chars: int) -> str:
    """Return the strips of `text` that rank first for `query` by BM25, in their original order, gaps marked.

    The opening is always among them, since it names the subject; a strip brings the line it depends on. A text that
    fits is returned whole.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    cut = strips(text[:_MAX_CHARS], "excerpt")
    ranks = TermIndex([str(n) for n in range(len(cut))], [text[span.start : span.end] for span in cut])
    best_first = [0, *(int(id_) for id_, _ in ranks.top(query, len(cut))), *range(len(cut))]
    chosen: list[tuple[int, int]] = []
    left = max_chars
    for n in dict.fromkeys(best_first):
        spans = _spans(cut[n])
        cost = sum(end - start + _GAP for start, end in spans)
        if cost <= left:
            chosen += spans
            left -= cost
    return pieces(text, chosen) if chosen else clip(text, max_chars)


def _spans(strip: Span) -> list[tuple[int, int]]:
    lead = [(strip.lead_start, strip.lead_end)] if strip.lead_start < strip.lead_end else []
    return [*lead, (strip.start, strip.end)]
