"""What is measured of one answer: pure functions of texts and labels."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from crag_graph.measure.bench.data import Place

_SILENT = re.compile(r"(?<=\d)[.,](?=\d)|['’]|(?<=\b\w)\.(?=\w\b)")  # of 1,308, it's and U.S.
_MARKER = re.compile(r"\[\d+\]")
# Scripts written without spaces: one character is one word.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)


def normalised(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, no punctuation, no English article, single spaces.

    >>> normalised("The  Denver Broncos, 24–10!")
    'denver broncos 24 10'
    """
    folded = _SILENT.sub("", unicodedata.normalize("NFKC", text).casefold())
    bare = "".join(" " if unicodedata.category(c)[0] in "PS" else c for c in folded)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def holds(text: str, golds: Iterable[str]) -> bool:
    """Return whether a text holds one of the gold answers as whole words, both normalised.

    >>> holds("It cost $1,308 [1].", ["308"]), holds("They gave up 308 points.", ["308 points", "308"])
    (False, True)
    >>> holds("[5] Panthers: they lost.", ["5"])  # the number of a source is no answer
    False
    >>> holds("北京在中国", ["中国"])
    True
    """
    padded = f" {_spaced(_MARKER.sub(' ', text))} "
    return any(f" {wanted} " in padded for wanted in map(_spaced, golds) if wanted)


def answer_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether a gold answer stands in the answer, letter by letter: the paper's accuracy for short answers.

    >>> answer_match("It was Denver [1].", ["Denver", "the Broncos"]), answer_match("It was denver.", ["Denver"])
    (True, False)
    """
    flat = " ".join(_MARKER.sub(" ", answer).split())
    return any(" ".join(gold.split()) in flat for gold in golds)


def token_f1(answer: str, golds: Iterable[str]) -> float:
    """Return SQuAD's F1 over words against the best gold answer; citation markers do not count.

    >>> round(token_f1("the Denver Broncos won [1]", ["Denver Broncos"]), 2)
    0.8
    """
    said = Counter(_spaced(_MARKER.sub(" ", answer)).split())
    return max((_f1(said, Counter(_spaced(gold).split())) for gold in golds), default=0.0)


def right_action(place: Place, verdict: str, abstained: bool) -> bool:
    """Return whether a run did what was right: trust the index, look elsewhere, or abstain.

    >>> right_action("index", "correct", False), right_action("web", "correct", False)
    (True, False)
    >>> right_action("nowhere", "incorrect", True), right_action("nowhere", "incorrect", False)
    (True, False)
    """
    if place == "nowhere":
        return abstained
    return (verdict == "correct") == (place == "index")


def _spaced(text: str) -> str:
    return " ".join(_UNSPACED.sub(r" \1 ", normalised(text)).split())


def _f1(said: Counter[str], gold: Counter[str]) -> float:
    common = (said & gold).total()
    return 2 * common / (said.total() + gold.total()) if common else 0.0
