"""Jupyter notebooks: text cells as they are, code cells fenced. Outputs are left out."""

import ast
import re
import warnings
from pathlib import Path

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.markdown import only_title

# How NotebookLoader writes a cell; a source of several lines is the repr of a list.
_CELL = re.compile(r"'(code|markdown|raw)' cell: '(.*?)'\n\n(?='(?:code|markdown|raw)' cell: '|\Z)", re.DOTALL)


def read_notebook(path: Path, raw: bytes) -> LoadedFile:  # noqa: ARG001 (the loader opens the file itself)
    """Read the cells of a notebook.

    Raises:
        InputError: the file is not a notebook.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`langchain-community` is being sunset", DeprecationWarning)
        from langchain_community.document_loaders.notebook import NotebookLoader
    try:
        written = NotebookLoader(str(path)).load()[0].page_content
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a notebook: {error!r}") from error
    text = "\n\n".join(_markdown(kind, _source(source)) for kind, source in _CELL.findall(written))
    return LoadedFile([Document(text, metadata={"title": only_title(text) or path.stem})])


def _source(written: str) -> str:
    if not (written.startswith("[") and written.endswith("]")):
        return written
    try:
        lines = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written
    return "".join(map(str, lines))


def _markdown(kind: str, source: str) -> str:
    if kind != "code" or not source.strip():
        return source
    longest = max(map(len, re.findall(r"`{3,}", source)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{source}\n{fence}"
