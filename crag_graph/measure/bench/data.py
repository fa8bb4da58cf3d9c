"""SQuAD-format data with split knowledge: what the index knows, what only the web knows, and what nobody knows.

Half of the articles (or paragraphs) go to the index, three tenths to the web, the rest nowhere. So every question has a
known right action: answer from the index, search the web, or abstain.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from crag_graph.errors import InputError

T = TypeVar("T")
Place = Literal["index", "web", "nowhere"]
Split = Literal["article", "paragraph"]
PLACES: tuple[Place, ...] = get_args(Place)
_SHARES = {"index": 0.5, "web": 0.3}  # nowhere takes the rest


@dataclass(frozen=True)
class Case:
    """One question, its gold answers, the paragraph that holds them, and where that paragraph went."""

    id: str
    question: str
    golds: tuple[str, ...]
    paragraph: str
    place: Place


@dataclass(frozen=True)
class Paragraph:
    """One paragraph under its article's title; `id` names it in file names and addresses."""

    id: str
    article: str
    text: str
    place: Place


@dataclass(frozen=True)
class Dataset:
    """All paragraphs and questions of a file, with their places."""

    paragraphs: tuple[Paragraph, ...]
    cases: tuple[Case, ...]

    def at(self, place: Place) -> list[Paragraph]:
        """Return the paragraphs of one place."""
        return [paragraph for paragraph in self.paragraphs if paragraph.place == place]


def read_dataset(path: Path, seed: int, split: Split) -> Dataset:
    """Read a SQuAD-format file and deal its knowledge out.

    Raises:
        InputError: the file cannot be read, is not SQuAD-format, or is too small to split.
    """
    articles = _read(path)
    names = [name for name, _ in articles]
    keys = names if split == "article" else [_id(name, n) for name, parts in articles for n in range(len(parts))]
    places = deal(keys, seed)
    paragraphs, cases = [], []
    for name, parts in articles:
        for n, (text, questions) in enumerate(parts):
            id_ = _id(name, n)
            place = places[name if split == "article" else id_]
            paragraphs.append(Paragraph(id_, name, text, place))
            cases += [Case(qid, asked, golds, id_, place) for qid, asked, golds in questions]
    return Dataset(tuple(paragraphs), tuple(cases))


def deal(keys: Sequence[str], seed: int) -> dict[str, Place]:
    """Return the place of every key: shuffled by the seed, then cut at 50% and 80%, each place getting at least one.

    >>> sorted(deal(["a", "b", "c", "d"], seed=7).values())
    ['index', 'index', 'nowhere', 'web']

    Raises:
        InputError: there are fewer than three keys.
    """
    shuffled = sorted(set(keys))
    if len(shuffled) < 3:
        raise InputError(f"{len(shuffled)} part(s) cannot be split over {', '.join(PLACES)}: give at least 3")
    random.Random(seed).shuffle(shuffled)
    count = len(shuffled)
    first = min(max(1, round(count * _SHARES["index"])), count - 2)
    second = min(max(1, math.ceil(count * _SHARES["web"])), count - first - 1)
    return {key: "index" if n < first else "web" if n < first + second else "nowhere" for n, key in enumerate(shuffled)}


def sample(cases: Sequence[T], limit: int | None, seed: int) -> list[T]:
    """Return `limit` cases drawn by the seed, in their order; all of them without a limit."""
    if limit is None or limit >= len(cases):
        return list(cases)
    drawn = sorted(random.Random(seed).sample(range(len(cases)), limit))
    return [cases[i] for i in drawn]


_Question = tuple[str, str, tuple[str, ...]]


def _read(path: Path) -> list[tuple[str, list[tuple[str, list[_Question]]]]]:
    """Return (title, [(text, [(id, question, golds)])]) per article; unanswerable questions are left out."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))["data"]
        articles = [
            (
                str(article.get("title") or f"article {number}").replace("_", " "),
                [
                    (str(p["context"]), [_question(qa) for qa in p["qas"] if _is_answerable(qa)])
                    for p in article["paragraphs"]
                ],
            )
            for number, article in enumerate(data, 1)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not SQuAD-format data ({type(error).__name__}: {error})") from error
    twice = [id_ for id_, count in Counter(q[0] for _, ps in articles for _, qs in ps for q in qs).items() if count > 1]
    if twice:
        raise InputError(f"{path}: the question id {twice[0]!r} stands there more than once; ids must be unique")
    if len({_id(name, 0) for name, _ in articles}) < len(articles):  # titles that no Latin letter tells apart
        articles = [(f"{name} {n}", parts) for n, (name, parts) in enumerate(articles, 1)]
    return articles


def _is_answerable(qa: Any) -> bool:
    """Return whether there is a gold answer; SQuAD 2.0 marks questions without one, and some files leave it blank."""
    return not qa.get("is_impossible") and any(str(answer["text"]).strip() for answer in qa.get("answers") or ())


def _question(qa: Any) -> _Question:
    golds = (str(answer["text"]) for answer in qa["answers"])
    return str(qa["id"]), str(qa["question"]), tuple(dict.fromkeys(gold for gold in golds if gold.strip()))


def _id(article: str, number: int) -> str:
    return f"{re.sub(r'[^0-9A-Za-z]+', '-', article).strip('-').lower() or 'article'}-{number}"
