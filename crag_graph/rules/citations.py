"""What an answer may cite: the numbers that were sent, and the URLs that stand in the evidence.

An invented `[7]` or URL is removed, and said so. Spellings such as `[Source 1]`, `[^1]`, `[1-2]` or `【1】` are read as
what they mean. Sources count from 1, so `[0, 1]` is no citation but part of the text. The rule works on pieces as they
stream, and gives the same text whatever the pieces are: what may still turn into a citation or a URL is held back until
it is decided.

>>> citations = Citations(count=2, evidence="see https://a.example/x")
>>> "".join([*map(citations.push, ["It flew [1", ", 7] in 2019 [9].", " https://b.example/"]), citations.finish()])
'It flew [1] in 2019. '
>>> citations.cited, citations.invented
([1], ['[7]', '[9]', 'https://b.example/'])
"""

import re
from collections.abc import Iterator

_URL = r"https?://[^\s<>\"'）)\[\]【】」』》]+"
_NUMBERS = r"(?:(?:source|evidence|quelle|document|doc|ref)s?\.?\s|\^)?\d{1,3}(?:\s?[,;–-]\s?\^?\d{1,3}){0,9}"
_TOKEN = re.compile(rf"(?P<marker>[ ]?[\[【]\s?{_NUMBERS}\s?[\]】])|(?P<url>{_URL})", re.IGNORECASE)
# The longest tail that may still grow into a token: an open bracket, a URL, or a start of either.
_PENDING = re.compile(
    rf"(?:[ ]?[\[【][^\[\]【】\n]{{0,80}}|(?:h|ht|htt|http|https|https?:|https?:/|https?://|{_URL})|[ ])\Z",
    re.IGNORECASE,
)
_URL_END = re.compile(r"[.,;:!?*_]+\Z")


class Citations:
    """Cleans one answer while it streams, and remembers what it cited and what it made up."""

    def __init__(self, count: int, evidence: str) -> None:
        self.cited: list[int] = []  # in order of first use
        self.invented: list[str] = []
        self._count = count
        self._urls = {_URL_END.sub("", url) for url in re.findall(_URL, evidence)}
        self._held = ""

    def push(self, piece: str) -> str:
        """Take the next piece; return the text that is decided by now."""
        text = self._held + piece
        pending = _PENDING.search(text)
        cut = pending.start() if pending else len(text)
        self._held = text[cut:]
        return self._clean(text[:cut])

    def finish(self) -> str:
        """Return what was held back, now that no more will come."""
        held, self._held = self._held, ""
        return self._clean(held)

    def _clean(self, text: str) -> str:
        return _TOKEN.sub(lambda match: self._marker(match[0]) if match["marker"] else self._url(match[0]), text)

    def _marker(self, marker: str) -> str:
        numbers = list(_counted(marker))
        if 0 in numbers:
            return marker
        known = [number for number in numbers if number <= self._count]
        self.invented += [f"[{number}]" for number in numbers if number not in known]
        self.cited += [number for number in dict.fromkeys(known) if number not in self.cited]
        space = " " if marker.startswith(" ") and known else ""
        return space + "".join(f"[{number}]" for number in known)

    def _url(self, url: str) -> str:
        core = _URL_END.sub("", url)
        if core in self._urls:
            return url
        self.invented.append(core)
        return url[len(core) :]


def _counted(marker: str) -> Iterator[int]:
    """Yield the numbers of a marker, ranges written out.

    >>> list(_counted("[1, 3-5]"))
    [1, 3, 4, 5]
    """
    for first, last in re.findall(r"(\d+)(?:\s?[–-]\s?\^?(\d+))?", marker):
        yield from range(int(first), int(last) + 1) if last and int(last) >= int(first) else [int(first)]
