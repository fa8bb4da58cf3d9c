"""A Word document as markdown, in the order in which it reads."""

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.plain import iso_date
from crag_graph.ingest.loaders.table import table_text
from crag_graph.ingest.markdown import only_title

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
# A fallback repeats what stands beside it.
_OUTERMOST = "[not(ancestor::w:tbl)][not(ancestor::*[local-name()='Fallback'])]"
# Text boxes are read on their own; the others hold text that was struck out or stands twice.
_NOT_INLINE = frozenset(("txbxContent", "del", "moveFrom", "Fallback", "pPr", "rPr"))


def read_docx(path: Path, raw: bytes) -> LoadedFile:
    """Read paragraphs, lists, tables and text boxes; headings keep their level.

    Raises:
        InputError: the file needs a password or is not a Word document.
    """
    import docx

    if raw.startswith(_OLD_OFFICE):
        raise InputError("password-protected, or an old .doc file: save it as .docx without a password")
    try:
        document = docx.Document(io.BytesIO(raw))
        text = "".join(_blocks(document))
        properties = document.core_properties
        # The template of python-docx brings its own dates.
        modified = None if properties.author == "python-docx" else properties.modified
    except (zipfile.BadZipFile, KeyError, ValueError, SyntaxError) as error:
        raise InputError(f"corrupt: not readable as a Word document ({error})") from error
    metadata = {"title": properties.title or only_title(text) or path.stem, "date": iso_date(modified)}
    return LoadedFile([Document(text, metadata=metadata)])


def _blocks(document: Any) -> Iterator[str]:
    """Yield markdown for everything in the body, also inside content controls and text boxes."""
    styles = {style.style_id: (style.name or "").lower() for style in document.styles}
    inside_item = False
    for element in document.element.body.xpath(f".//w:p{_OUTERMOST} | .//w:tbl{_OUTERMOST}"):
        if _kind(element) == "tbl":
            block, is_item = table_text(_rows(element)), False
        else:
            block, is_item = _paragraph(element, styles)
        if block:
            # Items of one list follow each other without an empty line.
            yield f"{block}\n" if is_item else f"{chr(10) * inside_item}{block}\n\n"
            inside_item = is_item


def _paragraph(element: Any, styles: Mapping[str, str]) -> tuple[str, bool]:
    """Return a paragraph as markdown, and whether it is an item of a list."""
    text = _inline(element).strip()
    # Built-in styles have English names in every language of Word.
    style = styles.get(element.xpath("string(./w:pPr/w:pStyle/@w:val)"), "")
    if not text:
        return "", False
    if style == "title":
        return f"# {' '.join(text.split())}", False
    if style.startswith("heading ") and style[8:].isdigit():
        return f"{'#' * min(int(style[8:]) + 1, 6)} {' '.join(text.split())}", False
    if element.xpath("boolean(./w:pPr/w:numPr)") or style.startswith("list"):
        depth = element.xpath("number(./w:pPr/w:numPr/w:ilvl/@w:val)")
        indent = "" if math.isnan(depth) else "  " * int(depth)
        return f"{indent}{'1.' if 'number' in style else '-'} {text}", True
    return text, False


def _rows(table: Any) -> list[list[str]]:
    """Return the cells' text row by row; a table inside a cell is part of that cell's text."""
    return [
        [" ".join(map(_inline, cell.xpath(".//w:p"))) for cell in row.xpath(".//w:tc[count(ancestor::w:tbl) = 1]")]
        for row in table.xpath(".//w:tr[count(ancestor::w:tbl) = 1]")
    ]


def _inline(element: Any) -> str:
    parts = []
    for child in element:
        match _kind(child):
            case "t":
                parts.append(child.text or "")
            case "tab":
                parts.append("\t")
            case "br" | "cr":
                parts.append("\n")
            case kind if kind not in _NOT_INLINE:
                parts.append(_inline(child))
    return "".join(parts)


def _kind(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
