"""The main text of a web page, as markdown."""

from pathlib import Path

from langchain_core.documents import Document

from crag_graph.components.main_text import html_page
from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.text import decode


def read_html(path: Path, raw: bytes) -> LoadedFile:
    """Read a page without its menus and scripts; headings, lists, tables and code become markdown.

    Raises:
        InputError: the page has no text of its own, or is not HTML.
    """
    html, warnings = decode(raw)
    page = html_page(html, favor_recall=True)
    if page is None:
        raise InputError("no text: the page may be built by scripts, or is no HTML")
    metadata = {"title": page.title or path.stem, "date": page.date or None, "url": page.url or None}
    return LoadedFile([Document(page.text, metadata=metadata)], warnings=warnings)
