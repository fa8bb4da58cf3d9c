"""Text → units → strips (Yan et al., 2024, section 4.4, decompose).

A *unit* is the smallest piece that is judged whole: a sentence, a heading, a list item, a table row, a fenced code
block. Units partition the text: joined, they give it back, nothing lost. A list item depends on its lead-in line and a
table row on its header; that line is a second span of the source, so both are shown together and quoted once.

A *strip* is a window of units with its exact place in the source: `source[start:end]` is its text. Sentences go in
overlapping windows, so that "It weighs 3 kg." keeps its antecedent; structure stands alone; a text of one or two
sentences is one strip. The paper's own decompositions are modes, too: `excerpt` (three sentences, no overlap), `fixed`
(runs of words) and `selection` (the whole text).

>>> text = "The Falcon flew in 2019. It weighs 3 kg."
>>> [text[unit.start:unit.end] for unit in units(text)]
['The Falcon flew in 2019. ', 'It weighs 3 kg.']
>>> [text[strip.start:strip.end] for strip in strips(text)]
['The Falcon flew in 2019. It weighs 3 kg.']
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

from crag_graph.rules.language import detect_language, is_unspaced

MAX_UNIT = 800  # characters; a longer sentence is cut, so that every strip stays bounded
MAX_CODE = 4_000  # code is only useful whole, so it gets more room
MIN_UNSPACED = 12  # in scripts without sentence marks a shorter piece is joined to the next
Mode = Literal["windows", "sentence", "excerpt", "fixed", "selection"]
Kind = Literal["prose", "heading", "item", "row", "code", "blank"]

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\S")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE_ROW = re.compile(r"^\s*\|[\s:|-]+\|\s*$", re.MULTILINE)


class Span(NamedTuple):
    """A piece of a text: its place, its kind, and the place of the line it depends on (equal ends: none)."""

    start: int
    end: int
    kind: Kind = "prose"
    lead_start: int = 0
    lead_end: int = 0


def strips(
    text: str, mode: Mode = "windows", *, window: int = 3, overlap: int = 1, words: int = 50, language: str = "auto"
) -> list[Span]:
    """Cut a text into strips, in order; white space at their ends is left out, and a blank text has none."""
    match mode:
        case "selection":
            spans = [Span(0, len(text))]
        case "fixed":
            spans = _word_runs(text, words)
        case "sentence":
            spans = units(text, language)
        case "excerpt":
            spans = _windows(units(text, language), 3, 0)
        case "windows":
            spans = _windows(units(text, language), window, overlap)
    return [trimmed for span in spans if (trimmed := _trim(text, span)).start < trimmed.end]


def units(text: str, language: str = "auto") -> list[Span]:
    """Partition a text into units; `language` is an ISO 639-1 code, or found from the text."""
    if language == "auto":
        language = detect_language(text)
    return [unit for block in _blocks(text) for unit in _split(text, block, language)]


def _blocks(text: str) -> list[Span]:
    """Partition a text into runs of prose, headings, list items, table rows and code, each with its lead."""
    blocks: list[Span] = []
    for line in _lines(text):
        if blocks and _joins(text, blocks[-1], line):
            blocks[-1] = blocks[-1]._replace(end=line.end)
        else:
            blocks.append(line)
    return list(_with_leads(text, blocks))


def _lines(text: str) -> Iterator[Span]:
    """Yield every line with its kind; a fenced code block counts as one line."""
    position, code_start, fence = 0, 0, ""
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence):
                fence = ""
                yield Span(code_start, position, "code")
        elif opening:
            fence, code_start = opening[1], start
        else:
            yield Span(start, position, _kind(line))
    if fence:  # never closed: to the end
        yield Span(code_start, position, "code")


def _kind(line: str) -> Kind:
    if not line.strip():
        return "blank"
    if _HEADING.match(line):
        return "heading"
    if _ROW.match(line):
        return "row"
    return "item" if _ITEM.match(line) else "prose"


def _joins(text: str, block: Span, line: Span) -> bool:
    """Return whether a line continues the block before it."""
    if line.kind == "blank":
        return True
    if line.kind == "prose":
        indented = text[line.start].isspace()
        return block.kind in ("prose", "blank") or (block.kind == "item" and indented)
    return line.kind == block.kind == "row" and _RULE_ROW.match(text, line.start, line.end) is not None


def _with_leads(text: str, blocks: list[Span]) -> Iterator[Span]:
    """Give list items the line above their list, and table rows the header of their table."""
    lead_in, header = (0, 0), (0, 0)
    for block in blocks:
        if block.kind == "item":
            yield block._replace(lead_start=lead_in[0], lead_end=lead_in[1])
        elif block.kind == "row" and header != (0, 0) and not _RULE_ROW.search(text, block.start, block.end):
            yield block._replace(lead_start=header[0], lead_end=header[1])
        else:
            yield block
            body = text[block.start : block.end].rstrip()
            lead_in = (block.start + body.rfind("\n") + 1, block.start + len(body))
        if block.kind != "row":
            header = (0, 0)
        elif block.lead_start == block.lead_end and (
            header == (0, 0) or _RULE_ROW.search(text, block.start, block.end)
        ):
            header = (block.start, block.start + len(text[block.start : block.end].rstrip()))


def _split(text: str, block: Span, language: str) -> Iterator[Span]:
    """Cut a block of prose into sentences, and anything into pieces of bounded length."""
    if block.kind not in ("prose", "blank"):
        yield from _bounded(text, block, MAX_CODE if block.kind == "code" else MAX_UNIT)
        return
    for start, end in _sentences(text[block.start : block.end], language):
        yield from _bounded(text, Span(block.start + start, block.start + end), MAX_UNIT)


def _sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Partition prose at sentence ends; white space belongs to the sentence before it."""
    import sentencex

    # Half a surrogate pair cannot be handed over; one character stands in for it, so that places stay the same.
    whole = re.sub("[\ud800-\udfff]", "\ufffd", text)
    pieces = _length_pieces(text) if is_unspaced(language) else sentencex.segment(language, whole)
    start = end = 0
    for piece in pieces:
        if piece.strip() and text[start:end].strip():
            yield start, end
            start = end
        end += len(piece)
    if start < len(text):
        yield start, len(text)


def _length_pieces(text: str) -> Iterator[str]:
    """Cut at spaces, which stand between sentences or clauses where a script has no other mark."""
    start = 0
    for space in re.finditer(r"\s+", text):
        if space.start() - start >= MIN_UNSPACED:
            yield text[start : space.end()]
            start = space.end()
    yield text[start:]


def _bounded(text: str, span: Span, limit: int) -> Iterator[Span]:
    """Cut a span longer than `limit` at the last line end or space within it, or hard where there is none."""
    start = span.start
    while span.end - start > limit:
        cut = max(text.rfind("\n", start, start + limit), text.rfind(" ", start, start + limit)) + 1
        if cut <= start + limit // 2:
            cut = start + limit
        yield span._replace(start=start, end=cut)
        start = cut
    yield span._replace(start=start)


def _windows(spans: list[Span], size: int, overlap: int) -> list[Span]:
    """Join neighbouring prose into overlapping windows; structure stays alone, a heading opens its section."""
    windows: list[Span] = []
    section = 0
    keyed = []
    for span in spans:
        section += span.kind == "heading"
        keyed.append(((section, span.kind in ("prose", "blank", "heading")), span))
    for (_, is_prose), group in groupby(keyed, key=lambda pair: pair[0]):
        run = [span for _, span in group]
        if not is_prose:
            windows += run
            continue
        last = max(len(run) - overlap, 1)
        for first in range(0, last, size - overlap):
            windows.append(Span(run[first].start, run[min(first + size, len(run)) - 1].end))
    return windows


def _word_runs(text: str, words: int) -> list[Span]:
    """Cut into runs of `words` words (the paper's fixed-length mode); a word has sixteen characters at most."""
    found = [match.span() for match in re.finditer(r"\S{1,16}", text)]
    return [Span(found[i][0], found[min(i + words, len(found)) - 1][1]) for i in range(0, len(found), words)]


def _trim(text: str, span: Span) -> Span:
    piece = text[span.start : span.end]
    start = span.start + len(piece) - len(piece.lstrip())
    return span._replace(start=start, end=max(start, span.start + len(piece.rstrip())))
