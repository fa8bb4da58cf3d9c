"""The outline of markdown text: sections under their headings, each a row of blocks, by character offsets.

Only what matters for cutting is told apart: headings, fenced code, tables, and everything else as text. The reader
takes one step per line, so the time it needs grows with the length of the text and not faster.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:(`{3,})[^`]*|(~{3,}).*)")
_TABLE_RULE = re.compile(r"[ \t|:-]*-[ \t|:-]*")
_NO_TITLE = re.compile(r"[ \t]*([-*+>|]|\d+[.)])")
_MAX_HEADING = 200  # a longer "heading" is prose, and would weigh on every chunk below it

BlockKind = Literal["text", "fence", "table"]


class Block(NamedTuple):
    """A stretch of lines that belong together, without the line break at its end."""

    kind: BlockKind
    start: int
    end: int


class Section(NamedTuple):
    """What stands under one heading. `path` is the headings above it and its own, outermost first."""

    level: int  # 0 before the first heading
    path: tuple[str, ...]
    start: int  # of the heading's line
    blocks: list[Block]


def sections(text: str) -> list[Section]:
    """Return the sections in order; the first one has no heading and may have no blocks."""
    reader = _Reader()
    for start, end in lines(text, 0, len(text)):
        reader.read(text[start:end], start, end)
    return reader.sections


def paragraphs(text: str) -> list[Block]:
    """Return the stretches between empty lines, for text in which nothing is markup."""
    blocks: list[Block] = []
    grows = False
    for start, end in lines(text, 0, len(text)):
        blank = not text[start:end].strip()
        if grows and not blank:
            blocks[-1] = blocks[-1]._replace(end=end)
        elif not blank:
            blocks.append(Block("text", start, end))
        grows = not blank
    return blocks


def only_title(text: str) -> str | None:
    """Return the heading of the first level when there is exactly one."""
    titles = [section.path[-1] for section in sections(text) if section.level == 1]
    return titles[0] if len(titles) == 1 else None


def is_table_rule(line: str) -> bool:
    """Tell whether a line is the rule under a table's header, such as `|---|:-:|`."""
    return "|" in line and _TABLE_RULE.fullmatch(line) is not None


def lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of every line between two offsets, without its line break."""
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


class _Reader:
    def __init__(self) -> None:
        self.sections = [Section(0, (), 0, [])]
        self._above: list[tuple[int, str]] = []  # level and name of the headings in force
        self._fence = ""  # the marker that closes the open fence
        self._open = False  # whether the next line may go on with the last block
        self._last = ""  # the last line of the open block, and where it starts
        self._last_start = 0

    def read(self, line: str, start: int, end: int) -> None:
        """Take the next line."""
        if self._fence:
            self._read_fenced(line, end)
        elif not line.strip():
            self._open = False
        elif marker := _FENCE.fullmatch(line):
            self._open = False
            self._extend("fence", line, start, end)
            self._fence = marker[1] or marker[2]
        elif len(line) <= _MAX_HEADING and (heading := _HEADING.fullmatch(line)):
            self._begin(len(heading[1]), heading[2], start)
        elif self._is_underline(line):
            title = self._blocks.pop()
            self._begin(1 if "=" in line else 2, self._last, title.start)
        elif is_table_rule(line) and self._kind == "text" and "|" in self._last:
            self._begin_table()
            self._extend("table", line, start, end)
        else:
            in_table = line.lstrip().startswith("|") or (self._kind == "table" and "|" in line)
            self._extend("table" if in_table else "text", line, start, end)

    @property
    def _blocks(self) -> list[Block]:
        return self.sections[-1].blocks

    @property
    def _kind(self) -> BlockKind | None:
        return self._blocks[-1].kind if self._open else None

    def _read_fenced(self, line: str, end: int) -> None:
        self._blocks[-1] = self._blocks[-1]._replace(end=end)
        closing = line.strip()
        if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
            self._fence, self._open = "", False

    def _is_underline(self, line: str) -> bool:
        """Tell whether a line makes the single line of text above it a heading."""
        return (
            self._kind == "text"
            and self._blocks[-1].start == self._last_start
            and len(self._last) <= _MAX_HEADING
            and _UNDERLINE.fullmatch(line) is not None
            and _NO_TITLE.match(self._last) is None
        )

    def _begin(self, level: int, heading: str, start: int) -> None:
        name = re.sub(r"(^|[ \t])#+$", "", heading.strip()).strip() or heading.strip()
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        self._above.append((level, name))
        self.sections.append(Section(level, tuple(above for _, above in self._above), start, []))
        self._open = False

    def _begin_table(self) -> None:
        """Take the last line of the open text as the header of a table."""
        text = self._blocks.pop()
        if text.start < self._last_start:
            self._blocks.append(text._replace(end=self._last_start - 1))
        self._blocks.append(Block("table", self._last_start, self._last_start + len(self._last)))

    def _extend(self, kind: BlockKind, line: str, start: int, end: int) -> None:
        if self._kind == kind:
            self._blocks[-1] = self._blocks[-1]._replace(end=end)
        else:
            self._blocks.append(Block(kind, start, end))
        self._open, self._last, self._last_start = True, line, start
