"""The files of the CRAG paper's experiments, and its ways of counting (Yan et al., 2024, section 5).

Three formats are read: labelled lines for its evaluator (`question [SEP] passage <tab> label`), the same question with
what was retrieved (`retrieved_psgs`, passages joined by `[sep]`), and Self-RAG's JSON Lines (`question`, `ctxs`,
`answers`). Each data set has its own metric: PopQA counts a match, PubHealth true or false, ARC the letter.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crag_graph.errors import InputError
from crag_graph.measure.bench.metrics import answer_match
from crag_graph.measure.pairs import Pair

Task = Literal["popqa", "pubhealth", "arc"]
_LABELS = {"1": 1, "1.0": 1, "0": 0, "0.0": 0, "-1": 0, "-1.0": 0}
_TRUE, _FALSE = {"true", "supports", "yes"}, {"false", "refutes", "no"}


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


def read_labelled(path: Path) -> list[Pair]:
    """Read `question [SEP] passage <tab> label`; the labels 1 and 0 or -1 become 1 and 0.

    Raises:
        InputError: the file cannot be read or a line is not of this form; names file and line.
    """
    pairs = []
    for where, line in _lines(path):
        text, tab, label = line.rpartition("\t")
        question, separator, passage = text.partition("[SEP]")
        if not tab or not separator or label.strip() not in _LABELS:
            raise InputError(f"{where}: not `question [SEP] passage <tab> label` with the label 1, 0 or -1")
        asked = question.strip()
        pairs.append(Pair(asked, passage.strip(), _LABELS[label.strip()], group=asked))
    return pairs


def read_retrieved(path: Path) -> list[Item]:
    """Read JSON Lines with `question` and `retrieved_psgs`: one string with `[sep]` between passages, or a list.

    Raises:
        InputError: the file cannot be read or a line is not of this form; names file and line.
    """
    return [_retrieved(row, where) for where, row in _rows(path)]


def read_selfrag(path: Path) -> list[Item]:
    """Read JSON Lines with `question` (or `instruction`), `ctxs` (`title`, `text`) and `answers` (or `answer`).

    Raises:
        InputError: the file cannot be read or a line is not of this form; names file and line.
    """
    return [_selfrag(row, where) for where, row in _rows(path)]


def correct(task: Task, answer: str, golds: Sequence[str]) -> bool:
    """Return whether an answer counts as right in this data set.

    >>> correct("popqa", "He was a politician.", ["politician", "statesman"])
    True
    >>> correct("pubhealth", "The claim is True.", ["true"]), correct("pubhealth", "untrue", ["true"])
    (True, False)
    >>> correct("arc", "(B) because ice melts", ["B"]), correct("arc", "A bear", ["B"])
    (True, False)
    """
    rules: dict[Task, Callable[[], bool]] = {
        "popqa": lambda: answer_match(answer, golds),
        "pubhealth": lambda: _truth(answer) is not None and _truth(answer) in [_truth(gold) for gold in golds],
        "arc": lambda: _letter(answer) is not None and _letter(answer) in [_letter(gold) for gold in golds],
    }
    return rules[task]()


def accuracy(task: Task, answers: Sequence[str], items: Sequence[Item]) -> float:
    """Return the share of right answers, the figure of the paper's table.

    Raises:
        InputError: there is nothing to count, or not one answer per item.
    """
    if not items or len(answers) != len(items):
        raise InputError(f"{len(answers)} answers for {len(items)} questions: give one each")
    return sum(correct(task, answer, item.answers) for answer, item in zip(answers, items, strict=True)) / len(items)


def _truth(text: str) -> bool | None:
    """Return the first truth value that is said."""
    for word in re.findall(r"[a-z]+", text.casefold()):
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
    return None


def _letter(text: str) -> str | None:
    """Return the letter of the choice; the article in "A bear" is none.

    >>> [_letter(text) for text in ("C", "(c)", "B: ice", "The answer is D.", "A bear", "1")]
    ['C', 'C', 'B', 'D', None, 'A']
    """
    stated = re.match(r"\s*\(?([A-Ea-e1-5])(?:[).:,]|\s*$)", text)
    found = stated or re.search(r"answer(?: is|:)?\s*\(?([A-E1-5])\b", text) or re.search(r"\(([A-E1-5])\)", text)
    if not found:
        return None
    letter = found[1].upper()
    return "ABCDE"[int(letter) - 1] if letter.isdigit() else letter


def _retrieved(row: dict[str, Any], where: str) -> Item:
    found = row.get("retrieved_psgs")
    texts = re.split(r"\[sep\]", found, flags=re.IGNORECASE) if isinstance(found, str) else found
    if not isinstance(row.get("question"), str) or not _are_texts(texts):
        raise InputError(f"{where}: needs question, and retrieved_psgs with [sep] between passages")
    passages = tuple(Passage("", text.strip()) for text in texts or () if text.strip())
    return Item(row["question"].strip(), passages, _answers(row))


def _selfrag(row: dict[str, Any], where: str) -> Item:
    question, contexts = row.get("question") or row.get("instruction"), row.get("ctxs")
    if not isinstance(question, str) or not isinstance(contexts, list) or not all(map(_is_context, contexts)):
        raise InputError(f"{where}: needs question, and ctxs as a list of {{title, text}}")
    passages = tuple(Passage(str(each.get("title") or ""), each["text"]) for each in contexts)
    return Item(question.strip(), passages, _answers(row))


def _is_context(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _answers(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the gold answers under any of the names they have; `answerKey` is ARC's."""
    found: Any = next(
        (row[key] for key in ("answers", "answer", "answerKey") if row.get(key) not in (None, "", [])), []
    )
    return tuple(str(answer) for answer in (found if isinstance(found, list) else [found]))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{where}: must be a JSON object")
        yield where, row


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every line that is not blank, with where it stands."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    yield from ((f"{path}:{number}", line.rstrip("\r")) for number, line in enumerate(lines, 1) if line.strip())
