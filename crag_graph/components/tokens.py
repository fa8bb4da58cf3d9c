"""The one way text becomes lexical terms, shared by BM25 and the local evaluator.

Words of scripts written with spaces are stemmed by script; runs of scripts written without them (Han, kana, Hangul,
Thai, Lao, Khmer, Burmese) become overlapping pairs of characters. Numbers stay whole: `3.14`, `1,234`.

>>> terms("Dr. Müller paid $3.14 for the batteries")
['dr', 'muller', 'paid', '3.14', 'for', 'the', 'batteri']
>>> terms("电池寿命")
['电池', '池寿', '寿命']
>>> content_terms("What is the price?"), content_terms("Who is it?")
(['price'], ['who', 'is', 'it'])
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain
from typing import Any

VERSION = 1  # raised whenever the same text gives other terms: stored term indexes are then rebuilt

_FUNCTION_WORDS = (
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it "
    "its me my of on or our s she should so t than that the their them then there these they this those to was we "
    "were what when where which who whom whose why will with would you your"
)
_IGNORED = dict.fromkeys(map(ord, "\u00ad\u0640\u200c\u200d"))  # soft hyphen, tatweel, zero-width joiners
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_STEMMERS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, repeats included: case-folded, Latin accents removed, stemmed."""
    found: list[str] = []
    for match in _matches(text):
        if match.lastgroup == "unspaced":
            run = match[0]
            found.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        else:
            found.append(_stem(match[0]))
    return found


def words(text: str) -> list[str]:
    """Return the words of `text`, case-folded and whole, numbers left out; an unspaced run counts as one word.

    >>> words("Wie viele Züge fuhren 1912?"), words("电池寿命")
    (['wie', 'viele', 'züge', 'fuhren'], ['电池寿命'])
    """
    return [match[0] for match in _matches(text) if not match[0][0].isdigit()]


def _matches(text: str) -> Iterator[re.Match[str]]:
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded.translate(_IGNORED))
    return _pattern().finditer(folded)


def content_terms(text: str) -> list[str]:
    """Return the terms of a question without English function words; all of them when nothing else is there."""
    found = terms(text)
    return [term for term in found if term not in function_terms()] or found


@cache
def function_terms() -> frozenset[str]:
    """Return the terms of the English words that say how a question is asked, not what about."""
    return frozenset(map(_stem, _FUNCTION_WORDS.split()))


@cache
def _pattern() -> re.Pattern[str]:
    # `\w` leaves out combining marks, which would cut every Hindi or vocalised Arabic word in pieces.
    blocks = chain(range(0x300, 0x1E00), range(0xA600, 0xAC00))
    marks = "".join(c for c in map(chr, blocks) if unicodedata.category(c).startswith("M"))
    spaced = rf"(?:(?![{_UNSPACED}])[^\W_]|(?![{_UNSPACED}])[{marks}])"
    unspaced = rf"(?:(?=[{_UNSPACED}])(?:[^\W_]|[{marks}]))"
    return re.compile(rf"(?P<unspaced>{unspaced}+)|(?P<spaced>{spaced}+(?:(?<=\d)[.,](?=\d){spaced}+)*)")


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    first = word[0]
    for start, end, language in _STEMMERS:
        if start <= first <= end:
            stem: str = _stemmer(language).stemWord(word)
            return stem
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = "".join(c for c in parts if not unicodedata.combining(c)) or word
    latin: str = _stemmer("english").stemWord(word)
    return latin


@cache
def _stemmer(language: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(language)
