"""Labelled pairs of a question and a text, and how well scores tell the relevant from the rest."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.rules.passage import passage_text

_LABELS = {"1": 1, "1.0": 1, "0": 0, "0.0": 0, "-1": 0, "-1.0": 0}


@dataclass(frozen=True)
class Pair:
    """One question with one text; `group` (an article, say) never straddles training and test."""

    question: str
    text: str
    label: int  # 1: the text helps to answer the question, 0: it does not
    title: str = ""
    group: str = ""

    @property
    def passage(self) -> str:
        """The text under its title: what an evaluator is given."""
        return passage_text(Document(self.text, metadata={"title": self.title}))


@dataclass(frozen=True)
class Metrics:
    """How well scores in [0, 1] separate the labels; accuracy at one cut-off."""

    pairs: int
    auc: float  # share of (relevant, irrelevant) couples in the right order, ties half; nan with one class only
    accuracy: float
    balanced_accuracy: float  # mean of the accuracies of both classes
    ece: float  # expected calibration error: mean |score - observed share| over ten equal-width bins


def read_pairs(path: Path) -> list[Pair]:
    """Read a JSON Lines file with `question`, `text`, `label` (0 or 1) and optional `title`, `group`.

    Without a group, the question is the group. A file of the CRAG paper's labelled lines is known by its first line
    and read as `read_labelled` does.

    Raises:
        InputError: the file is missing, holds no pair, or a line is not a pair; names file and line.
    """
    lines = list(numbered_lines(path))
    if not lines:
        raise InputError(f"{path}: holds no pair; write one JSON object with question, text, label per line")
    if "[SEP]" in lines[0][1] and not lines[0][1].lstrip().startswith("{"):
        return read_labelled(path)
    return [_pair(line, where) for where, line in lines]


def read_labelled(path: Path) -> list[Pair]:
    """Read `question [SEP] passage <tab> label`; the labels 1 and 0 or -1 become 1 and 0.

    These are the lines that the evaluator of the CRAG paper was tested on (Yan et al., 2024, section 5.5).

    Raises:
        InputError: the file cannot be read or a line is not of this form; names file and line.
    """
    pairs = []
    for where, line in numbered_lines(path):
        text, tab, label = line.rpartition("\t")
        question, separator, passage = text.partition("[SEP]")
        if not tab or not separator or label.strip() not in _LABELS:
            raise InputError(f"{where}: not `question [SEP] passage <tab> label` with the label 1, 0 or -1")
        asked = question.strip()
        pairs.append(Pair(asked, passage.strip(), _LABELS[label.strip()], group=asked))
    return pairs


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every line that is not blank, with where it stands, as `file:number`.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    yield from ((f"{path}:{number}", line.rstrip("\r")) for number, line in enumerate(lines, 1) if line.strip())


def _pair(line: str, where: str) -> Pair:
    try:
        row: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("question", "text")):
        raise InputError(f"{where}: needs question and text as strings, and label")
    if row.get("label") not in (0, 1):
        raise InputError(f"{where}: label is {row.get('label')!r}; write 1 (helps to answer) or 0")
    question = row["question"]
    title, group = (str(row.get(key) or "") for key in ("title", "group"))
    return Pair(question, row["text"], int(row["label"]), title, group or question)


def measure(labels: Sequence[int], scores: Sequence[float], cut: float = 0.5) -> Metrics:
    """Compare scores with labels; a score at or above `cut` counts as relevant.

    >>> measure([1, 1, 0, 0], [0.9, 0.4, 0.6, 0.1]).auc
    0.75
    """
    hits = [int((score >= cut) == bool(label)) for label, score in zip(labels, scores, strict=True)]
    by_class = [[hit for hit, label in zip(hits, labels, strict=True) if label == value] for value in (0, 1)]
    shares = [sum(part) / len(part) for part in by_class if part]
    return Metrics(
        pairs=len(hits),
        auc=auc(labels, scores),
        accuracy=sum(hits) / max(len(hits), 1),
        balanced_accuracy=sum(shares) / max(len(shares), 1),
        ece=calibration_error(labels, scores),
    )


def auc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Return the area under the ROC curve: by ranks, ties sharing theirs."""
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    ranks = [0.0] * len(scores)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and scores[order[last + 1]] == scores[order[first]]:
            last += 1
        for i in order[first : last + 1]:
            ranks[i] = (first + last) / 2 + 1
        first = last + 1
    positive = sum(labels)
    negative = len(labels) - positive
    if not positive or not negative:
        return float("nan")
    total = sum(rank for rank, label in zip(ranks, labels, strict=True) if label)
    return (total - positive * (positive + 1) / 2) / (positive * negative)


def calibration_error(labels: Sequence[int], scores: Sequence[float], bins: int = 10) -> float:
    """Return the expected calibration error (Naeini et al., 2015) over equal-width bins."""
    filled: dict[int, list[tuple[int, float]]] = {}
    for label, score in zip(labels, scores, strict=True):
        filled.setdefault(min(int(score * bins), bins - 1), []).append((label, score))
    gaps = (abs(sum(label for label, _ in part) - sum(score for _, score in part)) for part in filled.values())
    return sum(gaps) / max(len(labels), 1)
