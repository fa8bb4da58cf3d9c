"""The main text of a web page, as markdown."""

import logging
import re
from pathlib import Path

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.text import decode

_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")


def read_html(path: Path, raw: bytes) -> LoadedFile:
    """Read a page without its menus and scripts; headings, lists, tables and code become markdown.

    Raises:
        InputError: the page has no text of its own, or is not HTML.
    """
    import trafilatura

    # What it cannot use it also logs; the reason given here says as much.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    html, warnings = decode(raw)
    # The parser refuses a declared encoding in text that is decoded already, and fragments without a document type.
    tree = trafilatura.load_html("<!DOCTYPE html>" + _DECLARATION.sub("", html, count=1))
    if tree is None:
        raise InputError("not HTML")
    known = trafilatura.extract_metadata(tree)
    text = trafilatura.extract(
        tree, output_format="markdown", include_formatting=True, include_comments=False, favor_recall=True
    )
    if not text:
        raise InputError("no text: the page may be built by scripts")
    metadata = {"title": known.title or path.stem, "date": known.date, "url": known.url}
    return LoadedFile([Document(text, metadata=metadata)], warnings=warnings)
