"""Cutting loaded text into chunks along its own structure.

A chunk never spans two headings; small paragraphs share one, long ones are cut between sentences; fenced code and
tables stay whole while they fit, and every piece of a table repeats its header. Apart from that repetition a chunk
is a literal stretch of the text, and every word of the text is in some chunk: headings in the `heading` of the
chunks below them, or as the text of a chunk where nothing stands below.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.plain import plain_metadata
from crag_graph.ingest.markdown import Block, Section, is_table_rule, lines, paragraphs, sections
from crag_graph.settings import IngestSettings

if TYPE_CHECKING:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

_PARAGRAPH_END = r"\n[ \t]*\n+"
_ITEM_END = r"\n(?=[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t])"
# A small letter follows abbreviations, not sentences.
_SENTENCE_END = r"(?<=[.!?…؟])[\"'”’»)\]]{0,3}\s++(?![a-z])|[。！？｡।॥۔][」』”’）】]{0,3}"
# Where long text may be cut, best first. Hard line breaks come after sentences: in a PDF they stand anywhere.
_SEPARATORS = (_PARAGRAPH_END, _ITEM_END, _SENTENCE_END, r"\n", r"[,;:]\s+|[，、；：]")
_SENTENCE_START = f"{_PARAGRAPH_END}|{_ITEM_END}|{_SENTENCE_END}"
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]")
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
_MAX_TITLE = 200  # characters; it stands above every chunk
_LONGEST_CLUSTER = 32  # code points that are taken to form one visible character, at most


class Span(NamedTuple):
    """A stretch of the text that is not cut any further.

    `lead` is where it may begin instead, to overlap what comes before it; `before` and `after` are the table header
    or code fence that a piece needs to be understood.
    """

    start: int
    end: int
    lead: int
    before: str = ""
    after: str = ""

    def content(self, text: str) -> str:
        """Return the text of the span in its frame."""
        return f"{self.before}{text[self.start : self.end]}{self.after}"


def chunk(loaded: LoadedFile, settings: IngestSettings) -> list[Document]:
    """Cut a file into chunks of at most `chunk_chars` characters, in order.

    Pieces of one long text overlap by up to `chunk_overlap` characters (at most half a chunk), from the beginning of
    a sentence where there is one.

    A chunk's id is a hash of its source, page and all that is embedded. `start` is its offset in the texts of the
    file, joined by an empty line. See `plain_metadata` for what becomes of other metadata.
    """
    chunks: list[Document] = []
    seen: Counter[str] = Counter()
    offset = 0
    for document in loaded.documents:
        text = document.page_content
        known = {"source": "", **plain_metadata(document.metadata), "origin": "internal"}
        known["title"] = title = " ".join(str(known.get("title", "")).split())[:_MAX_TITLE]
        for heading, start, content in _pieces(text, title, loaded.markdown, settings):
            metadata = {**known, "heading": heading, "start": offset + start}
            key = _hash(known["source"], known.get("page"), title, heading, content)
            seen[key] += 1
            chunks.append(Document(content, id=_hash(key, seen[key]), metadata=metadata))
        offset += len(text) + 2
    return chunks


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _pieces(text: str, title: str, markdown: bool, settings: IngestSettings) -> Iterator[tuple[str, int, str]]:
    """Yield heading, offset and content of every chunk of one text."""
    found = sections(text) if markdown else [Section(0, (), 0, paragraphs(text))]
    for section, following in zip(found, [*found[1:], None], strict=True):
        path = section.path
        if section.level and not section.blocks and (following is None or following.level <= section.level):
            yield _heading(path[:-1], title), section.start, path[-1]
        for span in _packed(_spans(text, section.blocks, settings), settings.chunk_chars):
            trimmed = _trimmed(text, span)
            if trimmed.start < trimmed.end:
                yield _heading(path, title), trimmed.start, trimmed.content(text)


def _heading(path: tuple[str, ...], title: str) -> str:
    """Return a path as one line; a first heading that only repeats the title says nothing new."""
    return " › ".join(path[1:] if path[:1] == (title,) else path)


def _spans(text: str, blocks: Iterable[Block], settings: IngestSettings) -> Iterator[Span]:
    """Yield the blocks, cutting those that do not fit into one chunk."""
    size = settings.chunk_chars
    overlap = min(settings.chunk_overlap, size // 2)
    for block in blocks:
        fits = block.end - block.start <= size
        if block.kind == "fence" and not fits:
            yield from _cut_fence(text, block, size)
        elif block.kind == "table" and not fits:
            yield from _cut_table(text, block, size)
        else:
            yield from _cut_text(text, block, size, overlap)


def _packed(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Join neighbours while they fit into one chunk."""
    current: Span | None = None
    for span in spans:
        if current and not (current.after or span.after) and _length(current, span.end) <= size:
            current = current._replace(end=span.end)
            continue
        if current:
            yield current
        current = span._replace(start=span.lead)
    if current:
        yield current


def _length(span: Span, end: int) -> int:
    return len(span.before) + end - span.start + len(span.after)


def _trimmed(text: str, span: Span) -> Span:
    """Drop white space around a span; the indentation of its first line stays."""
    body = text[span.start : span.end]
    blank = len(body) - len(body.lstrip())
    line = body.rfind("\n", 0, blank) + 1
    at_line_start = line > 0 or span.start == 0 or text[span.start - 1] == "\n"
    return span._replace(start=span.start + (line if at_line_start else blank), end=span.start + len(body.rstrip()))


def _cut_fence(text: str, block: Block, size: int) -> Iterator[Span]:
    """Cut code between lines; every piece is fenced as the whole was."""
    rows = list(lines(text, block.start, block.end))
    opening = text[slice(*rows[0])] + "\n"
    mark = opening.strip()[0]
    closing = "\n" + mark * (len(opening.strip()) - len(opening.strip().lstrip(mark)))
    is_closed = text[slice(*rows[-1])].strip() == closing.strip()
    yield from _cut_lines(text, block, rows[1:-1] if is_closed else rows[1:], size, opening, closing)


def _cut_table(text: str, block: Block, size: int) -> Iterator[Span]:
    """Cut a table between rows, each piece below the header."""
    rows = list(lines(text, block.start, block.end))
    count = 2 if len(rows) > 1 and is_table_rule(text[slice(*rows[1])]) else 1
    header = text[block.start : rows[count - 1][1]] + "\n"
    yield from _cut_lines(text, block, rows[count:], size, header, "")


def _cut_lines(
    text: str, block: Block, rows: list[tuple[int, int]], size: int, before: str, after: str
) -> Iterator[Span]:
    """Yield as many rows at a time as fit between `before` and `after`; a row too long for that is cut as text."""
    room = size - len(before) - len(after)
    if not rows or room < size // 2:  # a frame of half a chunk frames nothing
        yield from _cut_text(text, block, size, 0)
        return
    start, end = rows[0]
    for row in [*rows[1:], None]:
        if row and row[1] - start <= room:
            end = row[1]
            continue
        for piece in _cut_text(text, Block("text", start, end), room, 0):
            yield piece._replace(before=before, after=after)
        if row:
            start, end = row


def _cut_text(text: str, block: Block, size: int, overlap: int) -> Iterator[Span]:
    """Cut running text at the best places there are; pieces after the first may begin `overlap` characters earlier."""
    start = block.start
    if block.end - start <= size:
        yield Span(start, block.end, start)
        return
    for piece in _splitter(size - overlap).split_text(text[block.start : block.end]):
        for length in _cut_hard(piece, size - overlap):
            lead = _overlap_start(text, block.start, start, overlap)
            yield Span(start, start + length, lead)
            start += length


@lru_cache(maxsize=8)
def _splitter(size: int) -> "RecursiveCharacterTextSplitter":
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    # Nothing is stripped and separators stay, so that the pieces joined are the text.
    return RecursiveCharacterTextSplitter(
        list(_SEPARATORS), "end", True, chunk_size=size, chunk_overlap=0, strip_whitespace=False
    )


def _cut_hard(piece: str, size: int) -> Iterator[int]:
    """Yield the lengths into which text without other separators is cut: at a space, else between characters."""
    start = 0
    while len(piece) - start > size:
        cut = start + size
        words = piece[start : cut + 1].rsplit(maxsplit=1)
        if len(words) == 2 and not piece[cut].isspace():
            cut = start + size + 1 - len(words[1])
        else:
            lowest = cut - min(_LONGEST_CLUSTER, size - 1)
            cut = next((at for at in range(cut, lowest, -1) if not _is_inside_character(piece, at)), cut)
        yield cut - start
        start = cut
    yield len(piece) - start


def _is_inside_character(text: str, cut: int) -> bool:
    """Tell whether a cut would part an emoji or a letter from what modifies it."""
    left, right = text[cut - 1], text[cut]
    if left == "\u200d" or right in _JOINERS or unicodedata.category(right) in ("Mn", "Mc", "Me"):
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f":  # skin tones, flag tags
        return True
    # Flags are pairs of letters: a cut may stand after an even number of them.
    return bool(_FLAG_LETTERS.fullmatch(right)) and len(_FLAG_LETTERS.findall(text[max(0, cut - 100) : cut])) % 2 == 1


def _overlap_start(text: str, lowest: int, start: int, overlap: int) -> int:
    """Return where a piece that begins at `start` begins with its overlap.

    Behind the end of a sentence these are whole sentences, maybe none; else the last words.
    """
    window = start - overlap
    if window <= lowest:
        return lowest if overlap else start
    for border in (_SENTENCE_START, r"\s+"):
        if found := re.search(border, text[window:start]):
            return window + found.end()
    return next((cut for cut in range(window, start) if not _is_inside_character(text, cut)), start)
