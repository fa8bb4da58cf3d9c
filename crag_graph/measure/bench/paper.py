"""The files of the CRAG paper's experiments (Yan et al., 2024, section 5): a question with what was retrieved for it.

Two formats are read, as JSON Lines: `question` with `retrieved_psgs` (passages joined by `[sep]`, or a list), and
Self-RAG's `question`, `ctxs`, `answers`. The labelled lines for the paper's evaluator are read by `measure.pairs`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crag_graph.errors import InputError
from crag_graph.measure.pairs import numbered_lines
from crag_graph.rules.question import is_blank

Format = Literal["retrieved", "selfrag", "auto"]
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


def read_items(path: Path, form: Format = "auto") -> list[Item]:
    """Read a file of questions with their passages; `auto` tells the format of a line by the keys it has.

    Raises:
        InputError: the file cannot be read or holds no question; or a line is not of this form, or has no question, no
            passage or no gold answer. Names file and line.
    """
    readers: dict[Format, Callable[[dict[str, Any], str], Item]] = {
        "retrieved": _retrieved,
        "selfrag": _selfrag,
        "auto": _either,
    }
    items = [readers[form](row, where) for where, row in _rows(path)]
    if not items:
        raise InputError(f"{path}: holds no question; write one JSON object per line")
    return items


def letter(label: str) -> str | None:
    """Return the letter of a label: A to E, or 1 to 5.

    >>> letter("b"), letter("3"), letter("F")
    ('B', 'C', None)
    """
    known = re.fullmatch(r"[A-E1-5]", label.strip().upper())
    return None if known is None else "ABCDE"[int(known[0]) - 1] if known[0].isdigit() else known[0]


def _either(row: dict[str, Any], where: str) -> Item:
    if "retrieved_psgs" in row:
        return _retrieved(row, where)
    if "ctxs" in row:
        return _selfrag(row, where)
    raise InputError(f"{where}: has neither retrieved_psgs (--format retrieved) nor ctxs (--format selfrag)")


def _retrieved(row: dict[str, Any], where: str) -> Item:
    found = row.get("retrieved_psgs")
    texts = re.split(r"\[sep\]", found, flags=re.IGNORECASE) if isinstance(found, str) else found
    if not isinstance(row.get("question"), str) or not _are_texts(texts):
        raise InputError(f"{where}: needs question, and retrieved_psgs with [sep] between passages")
    return _item(row, row["question"], [Passage("", text) for text in texts or ()], where)


def _selfrag(row: dict[str, Any], where: str) -> Item:
    question, contexts = row.get("question") or row.get("instruction"), row.get("ctxs")
    if not isinstance(question, str) or not isinstance(contexts, list) or not all(map(_is_context, contexts)):
        raise InputError(f"{where}: needs question, and ctxs as a list of {{title, text}}")
    return _item(row, question, [Passage(str(each.get("title") or ""), each["text"]) for each in contexts], where)


def _item(row: dict[str, Any], question: str, passages: list[Passage], where: str) -> Item:
    """Return the item, passages without text left out.

    Raises:
        InputError: something that every question needs is missing.
    """
    told = tuple(Passage(p.title.strip(), p.text.strip()) for p in passages if not is_blank(p.text))
    answers = _answers(row)
    for missing, name in ((is_blank(question), "question"), (not told, "passage"), (not answers, "gold answer")):
        if missing:
            raise InputError(f"{where}: has no {name}")
    return Item(question.strip(), told, answers, _choices(row.get("choices"), where), where)


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


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{where}: must be a JSON object")
        yield where, row
