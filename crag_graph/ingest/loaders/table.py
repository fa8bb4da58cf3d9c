"""Tables: CSV and TSV files, and rows of any origin as markdown."""

import csv
import io
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.text import decode

_LONG_ROW = 500  # characters; rows of this length read better as one record each than side by side


def read_csv(path: Path, raw: bytes) -> LoadedFile:
    """Read a table whose first row names the columns. Rows of long texts become records of `name: value` lines.

    Raises:
        InputError: a quoted cell is not closed, or the like.
    """
    text, warnings = decode(raw)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [row for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError(f"not readable as CSV: {error}") from error
    if not rows:
        raise InputError("no text")
    names = _names(rows)
    title = {"title": path.stem}
    if rows[1:] and median(sum(map(len, row)) for row in rows[1:]) > _LONG_ROW:
        records = [_record(names, row) for row in rows[1:]]
        return LoadedFile([Document(record, metadata=title) for record in records], markdown=False, warnings=warnings)
    return LoadedFile([Document(table_text([names, *rows[1:]]), metadata=title)], warnings=warnings)


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a markdown table, the first one as its header."""
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [_line([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for every column, also for those that have none in the first row."""
    given = [*rows[0], *[""] * (max(map(len, rows)) - len(rows[0]))]
    return [name.strip() or f"column {number}" for number, name in enumerate(given, start=1)]


def _record(names: Sequence[str], row: Sequence[str]) -> str:
    return "\n".join(f"{name}: {cell.strip()}" for name, cell in zip(names, row, strict=False) if cell.strip())


def _delimiter(text: str) -> str:
    """Return the delimiter that cuts the first rows into the most columns, and into equally many."""
    head = io.StringIO(text[:20_000], newline="")

    def columns(delimiter: str) -> int:
        head.seek(0)
        try:
            widths = [len(row) for row in islice(csv.reader(head, delimiter=delimiter), 20) if row]
        except csv.Error:
            return 0
        return min(widths[:-1] or widths, default=0)

    return max(",;\t|", key=columns)
