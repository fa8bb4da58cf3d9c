"""The files of the CRAG paper's experiments (Yan et al., 2024, section 5): a question with what was retrieved for it.

Self-RAG's JSON Lines carry `question`, `ctxs` and `answers`; the paper's `retrieved_psgs` holds other passages for the
same questions, a line each: `title // text [sep] title // text ...`, or texts alone. The labelled lines for the paper's
evaluator are read by `measure.pairs`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crag_graph.errors import InputError
from crag_graph.measure.pairs import numbered_lines
from crag_graph.rules.question import is_blank

_CHOICES = "choices as {text: [...], label: [...]}, both of one length, labels A to E or 1 to 5"


@dataclass(frozen=True)
class Passage:
    """One retrieved passage."""

    title: str
    text: str


@dataclass(frozen=True)
class Item:
    """One question of a data set, what was retrieved for it, and its gold answers (or gold label)."""

    question: str
    passages: tuple[Passage, ...]
    answers: tuple[str, ...]
    choices: tuple[tuple[str, str], ...] = ()  # (letter, text), where the file has them apart from the question
    where: str = field(default="", compare=False)  # file:line


def read_items(path: Path, retrieved: Path | None = None) -> list[Item]:
    """Read questions with their passages: those of the line of `retrieved` that has the same rank, else their `ctxs`.

    Raises:
        InputError: a file cannot be read or holds no question, or the two differ in length; or a line is not of its
            form, or has no question, no passage or no gold answer. Names file and line.
    """
    rows = list(_rows(path))
    if not rows:
        raise InputError(f"{path}: holds no question; write one JSON object per line")
    if retrieved is None:
        return [_item(row, _contexts(row, where), where) for row, where in rows]
    lines = list(numbered_lines(retrieved))
    if len(lines) != len(rows):
        raise InputError(f"{retrieved}: has {len(lines)} lines for the {len(rows)} questions of {path}; write one each")
    return [_item(row, _parted(line), where) for (row, where), (_, line) in zip(rows, lines, strict=True)]


def letter(label: str) -> str | None:
    """Return the letter of a label: A to E, or 1 to 5.

    >>> letter("b"), letter("3"), letter("F")
    ('B', 'C', None)
    """
    known = re.fullmatch(r"[A-E1-5]", label.strip().upper())
    return None if known is None else "ABCDE"[int(known[0]) - 1] if known[0].isdigit() else known[0]


def _contexts(row: dict[str, Any], where: str) -> list[Passage]:
    contexts = row.get("ctxs")
    if not isinstance(contexts, list) or not all(map(_is_context, contexts)):
        raise InputError(f"{where}: needs ctxs as a list of {{title, text}}, or --retrieved with a file of passages")
    return [Passage(str(each.get("title") or ""), each["text"]) for each in contexts]


def _parted(line: str) -> list[Passage]:
    """Return the passages of one line of `retrieved_psgs`.

    >>> _parted("Ann // She wrote.[sep]It rained.")
    [Passage(title='Ann', text='She wrote.'), Passage(title='', text='It rained.')]
    """
    parts = (part.partition(" // ") for part in line.split("[sep]"))
    return [Passage(head, text) if separator else Passage("", head) for head, separator, text in parts]


def _item(row: dict[str, Any], passages: list[Passage], where: str) -> Item:
    """Return the item, passages without text left out.

    Raises:
        InputError: something that every question needs is missing.
    """
    question = row.get("question") or row.get("instruction")
    told = tuple(Passage(p.title.strip(), p.text.strip()) for p in passages if not is_blank(p.text))
    answers = _answers(row)
    asked = isinstance(question, str) and not is_blank(question)
    for found, name in ((asked, "question"), (told, "passage"), (answers, "gold answer")):
        if not found:
            raise InputError(f"{where}: has no {name}")
    return Item(str(question).strip(), told, answers, _choices(row.get("choices"), where), where)


def _choices(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    texts: Any = value.get("text") if isinstance(value, dict) else None
    labels: Any = value.get("label") if isinstance(value, dict) else None
    if not _are_texts(texts) or not isinstance(labels, list) or len(labels) != len(texts):
        raise InputError(f"{where}: needs {_CHOICES}")
    letters = [letter(str(label)) for label in labels]
    named = [each for each in letters if each is not None]
    if len(set(named)) < len(labels) or not named:
        raise InputError(f"{where}: needs {_CHOICES}; has the labels {', '.join(map(str, labels)) or 'none'}")
    return tuple(zip(named, (text.strip() for text in texts), strict=True))


def _answers(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the gold answers under any of the names they have; `answerKey` is ARC's."""
    found: Any = next(
        (row[key] for key in ("answers", "answer", "answerKey") if row.get(key) not in (None, "", [])), []
    )
    said = (str(answer).strip() for answer in (found if isinstance(found, list) else [found]))
    return tuple(answer for answer in said if answer)


def _is_context(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for where, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{where}: must be a JSON object")
        yield row, where
