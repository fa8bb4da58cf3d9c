"""What can be seen of a question and a text without a model: which words, names and numbers they share, and where.

Every feature is a number in about -1..1 that needs no other text to be computed, so that the score of a text does not
depend on its neighbours in the call. Vectors come from outside.

A question is read once (`read_question`), a text is read once (`read_text`), `features` compares the two.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from crag_graph.components.tokens import terms
from crag_graph.rules.strips import units

if TYPE_CHECKING:
    import numpy

NAMES = (
    "cosine",  # of the question with the mean of the text's units
    "cosine_best",  # with the nearest unit
    "cosine_content",  # of its content words with the nearest unit
    "overlap",  # share of the question's rarity found in heading and text
    "overlap_about",  # the same of content terms that are no names, in the best unit
    "hits",  # rarity found in the best unit, as a sum
    "joint",  # cosine and overlap of the best unit, which is the one where they are highest together
    "run",  # share of rarity in the longest run of terms that stands in the text as in the question
    "numbers",  # share of the question's numbers found; the overlap where it has none
    "offers",  # the question asks for a person, place, date or number and the best unit has one (1) or not (-1)
    "person",  # the question asks for a person: texts often have one without being the answer
    "refers",  # the best unit opens with a pronoun: what it is about was said before
    "fresh",  # share of content terms of the best unit that the question does not bring along
    "precise",  # share of the best unit's rarity that the question has too
    "length",  # log of the number of terms
    "heading",  # share of the question's rarity found in the heading
    "subject",  # the question asks for one name: 1 the heading is that name, -1 another or no such name, 0 in between
    "latin",  # share of Latin letters in the question: what the cosines are worth
)

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_QUOTED = re.compile(r"[\"“„«「]([^\"“”„«»「」]{2,80})[\"”“»」]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
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
_ASKED = {
    "when": re.compile(
        r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade|time)\b|\bwann\b|welche[mns]? jahr|"
        r"\bquand\b|\bcuándo\b|\bquando\b|何时|什么时候|哪一?年|\bकब\b|\bкогда\b|πότε|متى|ne zaman|khi nào",
        re.IGNORECASE,
    ),
    "who": re.compile(
        r"\bwho(?:m|se)?\b|\b(?:what|which) (?:person|man|woman|player|team|company|group|organization)\b|\bwe[rmn]\b|"
        r"\bqui\b|\bquién(?:es)?\b|\bquem\b|\bchi\b|谁|\bकिसने\b|\bкто\b|\bποι[οό]ς\b|\bkim\b",
        re.IGNORECASE,
    ),
    "where": re.compile(
        r"\bwhere\b|\b(?:what|which) (?:country|city|state|place|town|region)\b|\bwo\b|\boù\b|\bdónde\b|\bdove\b|"
        r"\bonde\b|哪里|哪个(?:国家|城市)|\bकहाँ\b|\bгде\b|\bπού\b|أين|nerede|ở đâu",
        re.IGNORECASE,
    ),
    "many": re.compile(
        r"\bhow (?:many|much|long|far|old|big|large|high|tall|fast|deep|often|wide|heavy)\b|\bwhat (?:percent\w*|number|"
        r"amount|age|population|distance|speed|temperature)\b|\bwie ?viele?\b|\bwie (?:lange?|hoch|weit|oft|alt|groß)\b|"
        r"\bcombien\b|\bcuánt\w+|\bquant[ioae]\b|多少|几|\bकितन\w+|\bсколько\b|\bπόσ\w+|\bkaç\b|كم|bao nhiêu",
        re.IGNORECASE,
    ),
}
_FOR_ONE = re.compile(
    r"^\s*(?:(?:who|what|wer|was|qui|quién|qué|chi|cosa|quem|o que)\s*(?:is|are|was|were|'s|ist|sind|war|est|sont|es|son|è|é)\s+|"
    r"tell me about\s+)(?:the\s+|an?\s+)?(?P<name>[^?!]+?)[\s?.!]*$",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?:he|she|it|they|this|that|these|those|his|her|its|their|er|sie|es|dies\w*|il|elle|ils|elles|ce|cette|él|ella)\b",
    re.IGNORECASE,
)
_CONTENT = 0.45  # rarity from which a term is content
_GRAM = 4  # characters of a gram: long enough to be rare, short enough for the parts of a compound


class Rarity:
    """How much it tells that a text has a term: 0 for the commonest, 1 for terms that are not in the table."""

    def __init__(self, table: Mapping[str, float]) -> None:
        self._table = table

    def of(self, term: str) -> float:
        """Return the rarity of a term; an unknown one of one or two Latin letters is most likely a function word."""
        known = self._table.get(term)
        if known is not None:
            return known
        return 0.5 if len(term) <= 2 and term.isalpha() and term.isascii() else 1.0


@dataclass(frozen=True)
class Question:
    """A question, read."""

    text: str
    content: str  # content words only
    sequence: tuple[str, ...]  # all terms in order
    terms: tuple[str, ...]  # each once, in order
    rarities: tuple[float, ...]
    is_about: tuple[bool, ...]  # per term: content and no part of a name
    numbers: frozenset[str]
    asked: str  # "who", "when", "where", "many" or ""
    one: str  # the name that is all the question asks for, or ""
    latin: float

    @property
    def variants(self) -> tuple[str, ...]:
        """The texts whose vectors `features` needs, in its order."""
        return self.text, self.content


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


def read_text(text: str) -> Text:
    """Split a passage into its heading line, if it has one, and its units; blank ones are left out."""
    first, newline, rest = text.strip().partition("\n")
    has_heading = bool(newline) and len(first) <= 200 and rest.strip() != "" and first.rstrip()[-1:] not in ".!?。！？।:;,|"
    heading, body = (first.strip(), rest) if has_heading else ("", text)
    pieces = (body[unit.start : unit.end].strip() for unit in units(body))
    return Text(heading, tuple(piece for piece in pieces if piece))


def read_question(text: str, rarity: Rarity) -> Question:
    """Find the terms, names, numbers and kind of a question."""
    sequence = terms(text)
    unique = tuple(dict.fromkeys(sequence))
    in_names = set(_names(text, rarity))
    content = [word for word in _WORD.findall(text) if any(rarity.of(term) >= _CONTENT for term in terms(word))]
    letters = [c for c in text if c.isalpha()]
    return Question(
        text=text,
        content=" ".join(content) or text,
        sequence=tuple(sequence),
        terms=unique,
        rarities=tuple(rarity.of(term) for term in unique),
        is_about=tuple(rarity.of(term) >= _CONTENT and term not in in_names for term in unique),
        numbers=frozenset(_NUMBER.findall(text)),
        asked=next((kind for kind, pattern in _ASKED.items() if pattern.search(text)), ""),
        one=_one_name(text),
        latin=sum(c < "\u0250" for c in letters) / max(len(letters), 1),
    )


def _one_name(text: str) -> str:
    """Return X where a question is no more than "Who is X?", X being a name; what is in parentheses only qualifies."""
    found = _FOR_ONE.match(text)
    words = _WORD.findall(re.sub(r"\([^)]*\)", "", found["name"])) if found else []
    first, last = (words[0][0], words[-1][0]) if words else ("", "")
    return found["name"] if found and first.isupper() and not last.islower() else ""


def _names(text: str, rarity: Rarity) -> list[str]:
    """Return the terms of capitalised words and quotes; a common word that opens the question is no name."""
    found = [term for quote in _QUOTED.findall(text) for term in terms(quote)]
    for match in _WORD.finditer(text):
        of_word = terms(match[0])
        opens = not text[: match.start()].strip()
        if match[0][0].isupper() and not (opens and any(rarity.of(term) < 0.6 for term in of_word)):
            found += of_word
    return found


def features(question: Question, text: Text, cosines: "numpy.ndarray", cosine: float, rarity: Rarity) -> dict[str, float]:
    """Compare a question with a text of at least one unit.

    `cosines` has one row per variant of the question and one column per unit; `cosine` is that of the question with
    the text as a whole. The embedder at hand may not know a script, so cosines count by the share of Latin letters.
    """
    import numpy

    weights = numpy.array(question.rarities or (1.0,))
    total = max(float(weights.sum()), 1e-9)
    found = numpy.array([_matches(question.terms, unit) for unit in text.unit_terms])
    in_heading = numpy.array(_matches(question.terms, text.heading_terms))
    cosines = cosines * question.latin
    joint = found @ weights / total + cosines[0]
    best = int(joint.argmax())
    own = text.unit_terms[best]
    own_content = [term for term in own if rarity.of(term) >= _CONTENT]
    everything = [*text.unit_terms, text.heading_terms]
    overlap = float(numpy.maximum(found.max(axis=0), in_heading) @ weights) / total
    about = numpy.array(question.is_about or (True,)) * weights
    nearest = cosines.max(axis=1)
    return {
        "cosine": cosine * question.latin,
        "cosine_best": float(nearest[0]),
        "cosine_content": float(nearest[1]),
        "overlap": overlap,
        "overlap_about": float(found[best] @ about / about.sum()) if about.any() else overlap,
        "hits": float(found[best] @ weights) / 5,
        "joint": float(joint[best]) / 2,
        "run": max(_longest_run(question, part, rarity) for part in everything) / total,
        "numbers": _numbers_found(question.numbers, text) if question.numbers else overlap,
        "offers": _offers(question, text.units[best]),
        "person": float(question.asked == "who"),
        "refers": float(_PRONOUN.match(text.units[best]) is not None),
        "fresh": sum(term not in question.terms for term in own_content) / max(len(own_content), 1),
        "precise": sum(rarity.of(t) for t in own if t in question.terms) / max(sum(map(rarity.of, own)), 1e-9),
        "length": float(numpy.log1p(sum(map(len, text.unit_terms)))) / 6,
        "heading": float(in_heading @ weights) / total,
        "subject": _subject(question, text),
        "latin": question.latin,
    }


def _matches(wanted: Sequence[str], having: Sequence[str]) -> list[float]:
    """Return per wanted term 1 where the text has it, else the squared share of its grams that the text has.

    Grams find the forms, derivations and compounds that stemming misses, in any language.
    """
    known = set(having)
    grams = frozenset().union(*map(_grams, known))
    return [1.0 if term in known else (len(_grams(term) & grams) / len(_grams(term))) ** 2 for term in wanted] or [0.0]


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
    having = set(_NUMBER.findall(f"{text.heading} {' '.join(text.units)}"))
    return len(numbers & having) / len(numbers)


def _offers(question: Question, unit: str) -> float:
    """Return whether a unit has a person, date or number to offer to a question that asks for one."""
    match question.asked:
        case "when":
            offered = _DATE.search(unit) is not None
        case "many":
            offered = _NUMBER_WORD.search(unit.lower()) is not None
        case "who" | "where":
            known = set(question.sequence)
            words = [word for word in _WORD.findall(unit)[1:] if word[0].isupper()]
            offered = unit.lower() == unit.upper() or any(not known & set(terms(word)) for word in words)
        case _:
            return 0.0
    return 1.0 if offered else -1.0


def _subject(question: Question, text: Text) -> float:
    """Compare the one name that a question asks for with the parts of the heading, then with the text."""
    if not question.one:
        return 0.0
    parts = [_plain(part) for part in text.heading.split(" › ")]
    if _plain(question.one) in parts:
        return 1.0
    wanted = terms(question.one)
    if not set(wanted).isdisjoint(text.heading_terms):
        return -1.0
    return 0.0 if any(_holds(unit, wanted) for unit in text.unit_terms) else -1.0


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _holds(part: Sequence[str], name: Sequence[str]) -> bool:
    return f" {' '.join(name)} " in f" {' '.join(part)} "
