"""JSON and JSON lines: every record a text of `name: value` lines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.text import decode

_MAX_DEPTH = 100


def read_json(path: Path, raw: bytes) -> LoadedFile:
    """Read a list of records, or one record. A record's own `title`, if it has one, becomes the title.

    Raises:
        InputError: the file is not JSON.
    """
    text, warnings = decode(raw)
    data = _parse(text, "")
    return _loaded(path, data if isinstance(data, list) else [data], warnings)


def read_jsonl(path: Path, raw: bytes) -> LoadedFile:
    """Read one record per line; see `read_json`.

    Raises:
        InputError: a line is not JSON.
    """
    text, warnings = decode(raw)
    lines = enumerate(text.split("\n"), start=1)
    return _loaded(path, [_parse(line, f"line {number}: ") for number, line in lines if line.strip()], warnings)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InputError(f"{where}nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{where}not JSON: {error}") from error


def _loaded(path: Path, records: list[Any], warnings: tuple[str, ...]) -> LoadedFile:
    documents = []
    for record in records:
        title = record.get("title") if isinstance(record, dict) else None
        text = "\n".join(f"{name}: {value}" if name else value for name, value in _fields(record))
        documents.append(Document(text, metadata={"title": title if isinstance(title, str) else path.stem}))
    return LoadedFile(documents, markdown=False, warnings=warnings)


def _fields(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield dotted name and value of everything that is not empty: {"a": [{"b": 1}]} gives ("a.0.b", "1")."""
    if depth > _MAX_DEPTH:
        raise InputError("nested too deeply")
    below = f"{name}." if name else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, f"{below}{key}", depth + 1)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for position, item in enumerate(value):
            yield from _fields(item, f"{below}{position}", depth + 1)
    elif isinstance(value, list):
        yield from _fields(", ".join(map(_scalar, value)), name, depth)
    elif value is not None and value != "":
        yield name, _scalar(value)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
