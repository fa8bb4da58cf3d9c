"""What can be read from a question alone: its terms and how rare they are, names, numbers, and the kind of answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from crag_graph.components.tokens import terms

WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_QUOTED = re.compile(r"[\"“„«「]([^\"“”„«»「」]{2,80})[\"”“»」]")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
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
        r"\bhow (?:many|much|long|far|old|big|large|high|tall|fast|deep|often|wide|heavy)\b|"
        r"\bwhat (?:percent\w*|number|amount|age|population|distance|speed|temperature)\b|\bcost\b|"
        r"\bwie ?viele?\b|\bwie (?:lange?|hoch|weit|oft|alt|groß)\b|"
        r"\bcombien\b|\bcuánt\w+|\bquant[ioae]\b|多少|几|\bकितन\w+|\bсколько\b|\bπόσ\w+|\bkaç\b|كم|bao nhiêu",
        re.IGNORECASE,
    ),
}
_FOR_ONE = re.compile(
    r"^\s*(?:(?:who|what|wer|was|qui|quién|qué|chi|cosa|quem|o que)\s*"
    r"(?:is|are|was|were|'s|ist|sind|war|est|sont|es|son|è|é)|tell me about)\s+"
    r"(?:the\s+|an?\s+)?(?P<name>[^?!]+?)[\s?.!]*$",
    re.IGNORECASE,
)
_NAME_LINKS = frozenset("of the and de da do dos del della la le van von der den y e und et al bin ibn".split())
CONTENT = 0.45  # rarity from which a term is content


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
    one_terms: tuple[str, ...]
    latin: float

    @property
    def variants(self) -> tuple[str, ...]:
        """The texts whose vectors `features` needs, in its order."""
        return self.text, self.content


def read_question(text: str, rarity: Rarity) -> Question:
    """Find the terms, names, numbers and kind of a question."""
    sequence = terms(text)
    unique = tuple(dict.fromkeys(sequence))
    in_names = set(_names(text, rarity))
    content = [word for word in WORD.findall(text) if any(rarity.of(term) >= CONTENT for term in terms(word))]
    letters = [c for c in text if c.isalpha()]
    one = _one_name(text)
    return Question(
        text=text,
        content=" ".join(content) or text,
        sequence=tuple(sequence),
        terms=unique,
        rarities=tuple(rarity.of(term) for term in unique),
        is_about=tuple(rarity.of(term) >= CONTENT and term not in in_names for term in unique),
        numbers=frozenset(NUMBER.findall(text)),
        asked=next((kind for kind, pattern in _ASKED.items() if pattern.search(text)), ""),
        one=one,
        one_terms=tuple(terms(one)),
        latin=sum(c < "\u0250" for c in letters) / max(len(letters), 1),
    )


def _one_name(text: str) -> str:
    """Return X where a question is no more than "Who is X?", X being a name; what is in parentheses only qualifies."""
    found = _FOR_ONE.match(text)
    if not found:
        return ""
    words = re.sub(r"\([^)]*\)", "", found["name"]).split()
    is_name = all(not word[0].islower() or word in _NAME_LINKS for word in words)
    is_owner = any(word.endswith(("'s", "’s", "s'", "s’")) for word in words)
    return found["name"] if words and words[0][0].isupper() and is_name and not is_owner else ""


def _names(text: str, rarity: Rarity) -> list[str]:
    """Return the terms of capitalised words and quotes; a common word that opens the question is no name."""
    found = [term for quote in _QUOTED.findall(text) for term in terms(quote)]
    for match in WORD.finditer(text):
        of_word = terms(match[0])
        opens = not text[: match.start()].strip()
        if match[0][0].isupper() and not (opens and any(rarity.of(term) < 0.6 for term in of_word)):
            found += of_word
    return found
