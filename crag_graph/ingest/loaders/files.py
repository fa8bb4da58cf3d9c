"""Finding files and reading them, whatever their format."""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.html import read_html
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.notebook import read_notebook
from crag_graph.ingest.loaders.pdf import read_pdf
from crag_graph.ingest.loaders.plain import repair
from crag_graph.ingest.loaders.records import read_json, read_jsonl
from crag_graph.ingest.loaders.table import read_csv
from crag_graph.ingest.loaders.text import read_markdown, read_text
from crag_graph.ingest.loaders.word import read_docx

READERS: dict[str, Callable[[Path, bytes], LoadedFile]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".json": read_json,
    ".jsonl": read_jsonl,
    ".ipynb": read_notebook,
}


class Found(NamedTuple):
    """What lies at and below some paths."""

    files: list[Path]  # each once
    closed: dict[Path, str]  # folders that could not be looked into, and why
    passed: dict[str, int]  # how many files were passed over, by the suffix that no reader knows


def find_files(paths: Iterable[Path]) -> Found:
    """Return the files at and below some paths.

    Below a folder, hidden files and folders are passed over, as are formats that no reader knows and the store of an
    index. What is named directly is returned as it is.
    """
    found: dict[Path, None] = {}
    closed: dict[Path, str] = {}
    passed: Counter[str] = Counter()

    def note(error: OSError) -> None:
        closed[Path(error.filename)] = f"cannot be read: {error.strerror}"

    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        for folder, folders, files in os.walk(path, onerror=note):
            is_store = "chroma.sqlite3" in files
            folders[:] = [] if is_store else sorted(name for name in folders if not name.startswith("."))
            names = [] if is_store else sorted(name for name in files if not name.startswith("."))
            for name in names:
                suffix = Path(name).suffix.lower()
                if suffix in READERS:
                    found[Path(folder, name)] = None
                else:
                    passed[suffix or name] += 1
    return Found(list(found), closed, dict(passed))


def load_file(path: Path, max_mb: float) -> LoadedFile:
    """Read one file of at most `max_mb` million bytes.

    Raises:
        InputError: the file cannot be used; the message is the reason and does not name the file.
    """
    return parse(path, read_bytes(path, max_mb))


def read_bytes(path: Path, max_mb: float) -> bytes:
    """Return what a file of a known format holds. Raises as `load_file` does."""
    if path.suffix.lower() not in READERS:
        raise InputError(f"unsupported format {path.suffix!r}; supported: {', '.join(READERS)}")
    try:
        if not path.is_file():  # a pipe would be waited for without end
            raise InputError("not a regular file" if path.exists() else "cannot be read: no such file")
        size = path.stat().st_size
        if size > max_mb * 1e6:
            raise InputError(f"{size / 1e6:.1f} MB is above ingest.max_file_mb ({max_mb:g})")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from error


def parse(path: Path, raw: bytes) -> LoadedFile:
    """Turn the bytes of a file into text, by its suffix. Raises as `load_file` does."""
    source, broken = repair(str(path))
    if broken:
        raise InputError("its name is not valid UTF-8; rename it")
    if not raw.strip():
        raise InputError("empty")
    loaded = READERS[path.suffix.lower()](path, raw)
    documents, replaced = [], 0
    for document in loaded.documents:
        text, count = repair(document.page_content)
        replaced += count
        if text.strip():
            documents.append(Document(text, metadata={**document.metadata, "source": source}))
    if not documents:
        raise InputError("no text")
    note = (f"{replaced} unreadable characters replaced",) if replaced else ()
    return LoadedFile(documents, loaded.markdown, (*loaded.warnings, *note))
