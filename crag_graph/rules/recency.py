"""Whether a question is about now, and how far back an answer may lie.

Cheap on purpose: words for now, in several languages. A question that names a year other than this one is about that
year, whatever else it says, and a question without such words is timeless: nothing is added to either.

>>> [time_range(text, 2031) for text in ("news of today", "latest X", "latest release in 2024", "Who won?")]
['day', 'year', None, None]
>>> is_recent("¿Cuál es la última versión?"), is_recent("How does alternating current flow?")
(True, False)
"""

import re
from typing import Literal

TimeRange = Literal["day", "week", "month", "year"]

_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_DAY = r"\b(?:today|tonight|right now|heute|aujourd'hui|hoy|oggi|hoje|сегодня|vandaag)\b|今天|今日|आज"
_WEEK = (
    r"\b(?:this week|diese[rn]? Woche|cette semaine|esta sem[ae]na|questa settimana)\b|这周|本周|今週|на этой неделе"
)
_MONTH = r"\b(?:this month|diese[mn]? Monat|ce mois|este m[eê]s|questo mese)\b|这个月|本月|今月"
_LATELY = (
    r"\b(?:latest|newest|currently|now|nowadays|recent(?:ly)?|this year|up[- ]to[- ]date|"
    r"(?<!alternating )(?<!direct )(?<!electric )(?<!electrical )current(?= \w)|"
    r"aktuell\w*|neuest\w*|derzeit\w*|dieses Jahr|actuel\w*|dernière?s?|cette année|actual(?:es|mente)?|últim[oa]s?|"
    r"este a[nñ]o|attual\w*|atual\w*|нынешн\w*|сейчас|последн\w*)\b|最新|目前|现在|最近|今年|現在|वर्तमान"
)
_RANGES: tuple[tuple[TimeRange, re.Pattern[str]], ...] = (
    ("day", re.compile(_DAY, re.IGNORECASE)),
    ("week", re.compile(_WEEK, re.IGNORECASE)),
    ("month", re.compile(_MONTH, re.IGNORECASE)),
    ("year", re.compile(_LATELY, re.IGNORECASE)),
)


def is_recent(text: str) -> bool:
    """Return whether a text asks for something current."""
    return any(pattern.search(text) for _, pattern in _RANGES)


def names_year(text: str) -> bool:
    """Return whether a text names a year."""
    return _YEAR.search(text) is not None


def time_range(text: str, this_year: int) -> TimeRange | None:
    """Return how far back an answer may lie, or None where age does not matter."""
    if any(int(year) != this_year for year in _YEAR.findall(text)):
        return None
    return next((span for span, pattern in _RANGES if pattern.search(text)), None)
