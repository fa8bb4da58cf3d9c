"""What can be seen of a question and a text without a model: which words, names and numbers they share, and where.

Every feature is a number in about -1..1 that needs no other text to be computed, so that the score of a text does not
depend on its neighbours in the call. Vectors come from outside.

A text is read once (`read_text`), `share` looks a question up in it, `features` compares the two.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from crag_graph.components.evaluators.questions import CONTENT, NAME_LINKS, NUMBER, WORD, Question, Rarity
from crag_graph.components.tokens import terms
from crag_graph.rules.strips import units

if TYPE_CHECKING:
    import numpy

COMPARED = (
    "cosine",  # of the question with the nearest unit
    "cosine_content",  # of its content words with the nearest unit
    "overlap",  # share of the question's rarity found in heading and text
    "overlap_about",  # the same of content terms that are no names, in the best unit
    "hits",  # rarity found in the best unit, as a sum
    "joint",  # cosine and overlap of the best unit, which is the one where they are highest together
    "run",  # share of rarity in the longest run of terms that stands in the text as in the question
    "numbers",  # share of the question's numbers found; the overlap where it has none
    "offers",  # the question asks for a person, place, date or number and the best unit has one (1) or not (-1)
    "asked",  # 1 when it asks for one of these
    "person",  # 1 when it asks for a person: texts often have one without being the answer
    "refers",  # the best unit opens with a pronoun: what it is about was said before
    "fresh",  # share of content terms of the best unit that the question does not bring along
    "precise",  # share of the best unit's rarity that the question has too
    "length",  # log of the number of terms
    "heading",  # share of the question's rarity found in the heading
    "latin",  # share of Latin letters in the question: what the cosines are worth
)
KINDS: Mapping[str, tuple[str, ...]] = {
    "name": ("subject",),  # "Who is X?": see `_subject`; words in common are other people's names
    "latin strip": COMPARED,
    "latin text": COMPARED,
    "other strip": COMPARED,
    "other text": COMPARED,
}
"""What a score is made from, per kind of comparison: what a feature is worth differs between them."""

_LONG = 0.95  # `length` of 300 terms: beyond lies nothing that was fitted
_STRIP = 0.69  # `length` of about 62 terms: up to three sentences
_NUMBER_WORD = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred|"
    r"thousand|million|billion|half|third|quarter|several|double|twice|ein\w*|zwei|drei|vier|fünf|sechs|sieben|acht|"
    r"neun|zehn|deux|trois|quatre|cinq|dos|tres|cuatro|cinco)\b|[一二三四五六七八九十百千万亿两]"
)
_DATE = re.compile(
    r"\b1\d{3}\b|\b20\d\d\b|\b\d{1,2}[./-]\d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)\b|century|centuries|[\d०-९]{3,4}|"
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec|mär|mai|okt|dez)[a-zä]*\b|\d世纪|年",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?:he|she|it|they|this|that|these|those|his|her|its|their|er|sie|es|dies\w*|il|elle|ils|elles|ce|cette|él|ella)\b",
    re.IGNORECASE,
)
_NAME = 0.9  # rarity from which a word that opens a unit may be a name
_NEAREST = 4  # units per text that get a vector; more take time and change no figure
_MAX_HEADING = 200  # characters; a longer first line is text
_GRAM = 4  # characters of a gram: long enough to be rare, short enough for the parts of a compound


@dataclass(frozen=True)
class Text:
    """A text, read: its heading, and its units as texts and terms."""

    heading: str
    units: tuple[str, ...]

    @cached_property
    def heading_terms(self) -> tuple[str, ...]:
        """Terms of the heading."""
        return tuple(terms(self.heading))

    @cached_property
    def unit_terms(self) -> tuple[tuple[str, ...], ...]:
        """Terms of every unit."""
        return tuple(tuple(terms(unit)) for unit in self.units)


@lru_cache(maxsize=2_000)  # chunks come back from question to question; about 10 kB each
def read_text(text: str) -> Text:
    """Split a passage into its heading line, if it has one, and its units; blank ones are left out."""
    first, newline, rest = text.strip().partition("\n")
    is_heading = len(first) <= _MAX_HEADING and first.rstrip()[-1:] not in tuple(".!?。！？।:;,|")
    heading, body = (first.strip(), rest) if is_heading and newline and rest.strip() else ("", text)
    pieces = (body[unit.start : unit.end].strip() for unit in units(body))
    return Text(heading, tuple(piece for piece in pieces if piece))


@dataclass(frozen=True)
class Shared:
    """Which terms of a question a text has: from 0 to 1 per unit and term, and per term for the heading."""

    in_units: "numpy.ndarray"
    in_heading: "numpy.ndarray"
    nearest: tuple[int, ...]  # the units with most of the question by rarity: the ones worth a vector


def share(question: Question, text: Text) -> Shared:
    """Look up the terms of a question in a text of at least one unit."""
    import numpy

    in_units = numpy.array([_matches(question.terms, unit) for unit in text.unit_terms])
    order = numpy.argsort(-(in_units @ numpy.array(question.rarities or (1.0,))), kind="stable")
    in_heading = numpy.array(_matches(question.terms, text.heading_terms))
    return Shared(in_units, in_heading, tuple(int(i) for i in order[:_NEAREST]))


def kind_of(values: Mapping[str, float]) -> str:
    """Return which of `KINDS` a comparison is."""
    if values["for_name"]:
        return "name"
    script = "latin" if values["latin"] >= 0.5 else "other"
    return f"{script} {'strip' if values['length'] < _STRIP else 'text'}"


def features(
    question: Question, text: Text, shared: Shared, cosines: "numpy.ndarray", rarity: Rarity
) -> dict[str, float]:
    """Compare a question with a text.

    `cosines` has one row per variant of the question and one column per unit in `shared.nearest`. The embedder at hand
    may not know a script, so they count by the share of Latin letters.
    """
    import numpy

    weights = numpy.array(question.rarities or (1.0,))
    total = max(float(weights.sum()), 1e-9)
    cosines = cosines * question.latin
    joint = shared.in_units[list(shared.nearest)] @ weights / total + cosines[0]
    best = shared.nearest[int(joint.argmax())]
    found = shared.in_units[best]
    own = text.unit_terms[best]
    own_content = [term for term in own if rarity.of(term) >= CONTENT]
    overlap = float(numpy.maximum(shared.in_units.max(axis=0), shared.in_heading) @ weights) / total
    about = numpy.array(question.is_about or (True,)) * weights
    everything = [*text.unit_terms, text.heading_terms]
    return {
        "cosine": float(cosines[0].max()),
        "cosine_content": float(cosines[1].max()),
        "overlap": overlap,
        "overlap_about": float(found @ about / about.sum()) if about.any() else overlap,
        "hits": float(found @ weights) / 5,
        "joint": float(joint.max()) / 2,
        "run": max(_longest_run(question, part, rarity) for part in everything) / total,
        "numbers": _numbers_found(question.numbers, text) if question.numbers else overlap,
        "offers": _offers(question, text.units[best], rarity),
        "asked": float(question.asked != ""),
        "person": float(question.asked == "who"),
        "refers": float(_PRONOUN.match(text.units[best]) is not None),
        "fresh": sum(term not in question.terms for term in own_content) / max(len(own_content), 1),
        "precise": sum(rarity.of(t) for t in own if t in question.terms) / max(sum(map(rarity.of, own)), 1e-9),
        "length": min(float(numpy.log1p(sum(map(len, text.unit_terms)))) / 6, _LONG),
        "heading": float(shared.in_heading @ weights) / total,
        "subject": _subject(question, text),
        "latin": question.latin,
        "for_name": float(question.one != ""),
    }


def _matches(wanted: Sequence[str], having: Sequence[str]) -> list[float]:
    """Return per wanted term 1 where the text has it, else the squared share of its grams that the text has.

    Grams find the forms, derivations and compounds that stemming misses, in any language.
    """
    known = set(having)
    grams = frozenset().union(*map(_grams, known))
    shares = (len(_grams(term) & grams) / len(_grams(term)) for term in wanted)
    return [1.0 if term in known else share**2 for term, share in zip(wanted, shares, strict=True)] or [0.0]


@lru_cache(maxsize=50_000)
def _grams(term: str) -> frozenset[str]:
    marked = f"^{term}$"
    return frozenset(marked[i : i + _GRAM] for i in range(max(len(marked) - _GRAM + 1, 1)))


def _longest_run(question: Question, part: Sequence[str], rarity: Rarity) -> float:
    """Return the rarity of the heaviest run of question terms that stands in a text unchanged."""
    best = 0.0
    above: dict[int, float] = {}
    places: dict[str, list[int]] = {}
    for i, term in enumerate(question.sequence):
        places.setdefault(term, []).append(i)
    for term in part:
        here = {i: above.get(i - 1, 0.0) + rarity.of(term) for i in places.get(term, ())}
        best = max([best, *here.values()])
        above = here
    return best


def _numbers_found(numbers: frozenset[str], text: Text) -> float:
    having = set(NUMBER.findall(f"{text.heading} {' '.join(text.units)}"))
    return len(numbers & having) / len(numbers)


def _offers(question: Question, unit: str, rarity: Rarity) -> float:
    """Return whether a unit has a person, place, date or number to offer to a question that asks for one."""
    known = set(question.sequence)
    new = [word for word in WORD.findall(unit) if known.isdisjoint(terms(word))]
    match question.asked:
        case "when":
            offered = _DATE.search(" ".join(new)) is not None
        case "many":
            offered = _NUMBER_WORD.search(" ".join(new).lower()) is not None
        case "who" | "where":
            has_no_case = unit.lower() == unit.upper()
            offered = has_no_case or any(_is_name(word, unit, rarity) for word in new)
        case _:
            return 0.0
    return 1.0 if offered else -1.0


def _is_name(word: str, unit: str, rarity: Rarity) -> bool:
    """Return whether a word is written as a name is; the first word of a unit only if it is a rare one."""
    opens = unit.startswith(word)
    return word[0].isupper() and not (opens and any(rarity.of(term) < _NAME for term in terms(word)))


def _subject(question: Question, text: Text) -> float:
    """Compare the one name that a question asks for with heading and text, from 1 (it is) to -2 (it is another).

    "X (painter)" is a namesake of X. Of a person, a heading with some of the name is most likely someone else's; of a
    thing, it may be that of a part of its own pages.
    """
    name = question.one_terms
    if not name:
        return 0.0
    wanted, parts = _plain(question.one), [_plain(part) for part in text.heading.split(" › ")]
    if wanted in parts:
        return 1.0
    if any(part.startswith(f"{wanted} (") for part in parts):
        return -1.2
    is_in_text = any(_holds(unit, name) for unit in text.unit_terms)
    is_near = not set(text.heading_terms).isdisjoint(set(name) - NAME_LINKS)
    if is_in_text and not (is_near and question.asked == "who"):
        return 1.0 if text.unit_terms[0][: len(name)] == name else 0.0
    if is_in_text or _holds(text.heading_terms, name):
        return -0.7
    return -2.0 if text.heading else -1.0


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _holds(part: Sequence[str], name: Sequence[str]) -> bool:
    return f" {' '.join(name)} " in f" {' '.join(part)} "
