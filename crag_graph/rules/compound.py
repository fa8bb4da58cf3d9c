"""Splitting a question that asks for several things, by rule.

A border is a sentence end, a semicolon, or a word such as "and" (with "," and "、") between two sides that could each
be asked: the right one opens like a question ("... and when was it built"), or both relate a thing to another ("price
of X and warranty of Y"). Nothing is split inside quotes, nor where things are compared. At most three parts: what is
beyond stays in the third.

Each part stands alone: a pronoun is replaced by the name before it, and a part that names nothing gets the names of the
question.

>>> split_question("Price of the Falcon and warranty of the Heron?")
['Price of the Falcon', 'warranty of the Heron']
>>> split_question("How tall is the Eiffel Tower and when was it built?")
['How tall is the Eiffel Tower', 'when was Eiffel Tower built']
>>> split_question("Who wrote Pride and Prejudice?")
['Who wrote Pride and Prejudice?']
"""

import re

from crag_graph.rules.query import canonical_query

MAX_PARTS = 3
_WORD = r"and|und|et|y|e|и|en|og|och|sowie|also|as well as|ainsi que|और"
_BORDER = re.compile(
    rf"(?P<hard>(?<=[?？;；؟])\s*(?=\w))|(?P<soft>,?\s+(?:{_WORD})\s+|,\s+|\s*[、，]\s*)", re.IGNORECASE
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」")
_ASKS = re.compile(
    r"\b(?:(?:in|at|for|from|by|to|with|since|seit|bis|für|mit|von|à|de|par|con|para)\s+)?"
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|does|do|did|can|"
    r"was|wer|wen|wem|wie|wo|wann|warum|welche[rsnm]?|wieviel|"
    r"que|qui|quoi|quel(?:le)?s?|quand|où|comment|combien|pourquoi|"
    r"qué|quién|cuál(?:es)?|cuándo|cuánt[oa]s?|dónde|cómo|chi|cosa|quale|quando|dove|come|quanto|"
    r"quem|qual|onde|кто|что|когда|где|как|какой|какая|сколько|кто)\b"
    r"|(?:谁|什么|何时|哪|多少|怎么|为什么|誰|何|いつ|どこ|どう|なぜ)",
    re.IGNORECASE,
)
_RELATES = re.compile(
    r"\w\s+(?:of|for|from|von|vom|des|der|für|de|du|del|della|di|do|da|pour|para|per|van|на|для|का|की|के)\s+\S|\S(?:的|の)\S",
    re.IGNORECASE,
)
_COMPARES = re.compile(
    r"\b(?:between|compare[ds]?|comparison|difference|differ|versus|vs|both|zwischen|Unterschied|vergleich\w*|"
    r"entre|différence|comparer?|diferencia|comparar|tra)\b|区别|比较|違い|比べ",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|er|sie|ihn|ihm|sein|seine|ihre|dessen|deren|"
    r"il|elle|ils|elles|lui|ello|lo)\b|它的?|他的?|她的?|それ",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-ZÀ-ÞА-Я0-9][\w'’.-]*\w|[A-Z]\b|\"[^\"]+\"|“[^”]+”|「[^」]+」")
_RUN = re.compile(rf"(?:{_NAME.pattern})(?:\s+(?:(?:of|and|the|de|von|der)\s+)?(?:{_NAME.pattern}))*")


def split_question(question: str) -> list[str]:
    """Return the parts of a question, at most three, each standing alone; the question itself if it has but one."""
    spans = _spans(question)
    if len(spans) == 1:
        return [question]
    spans = [*spans[: MAX_PARTS - 1], (spans[min(MAX_PARTS, len(spans)) - 1][0], spans[-1][1])]
    parts = [question[start:end].strip(" \t\n,;；、，?？؟") for start, end in spans]
    whole = [_alone(part, parts[:number], parts) for number, part in enumerate(parts)]
    distinct = list({canonical_query(part): part for part in whole}.values())
    return distinct if len(distinct) > 1 else [question]


def is_compound(question: str) -> bool:
    """Return whether a question asks for several things."""
    return len(split_question(question)) > 1


def names(text: str) -> list[str]:
    """Return the runs of capitalised words, numbers and quotes in a text, without the word it opens with."""
    text = _ASKS.sub(lambda match: " " * len(match[0]), text)
    return [match[0] for match in _RUN.finditer(text) if match.start() or len(match[0].split()) > 1]


def _spans(question: str) -> list[tuple[int, int]]:
    quoted = [match.span() for match in _QUOTED.finditer(question)]
    borders = [m for m in _BORDER.finditer(question) if not any(a < m.end() and m.start() < b for a, b in quoted)]
    compares = _COMPARES.search(question) is not None
    spans: list[tuple[int, int]] = []
    start = 0
    for number, border in enumerate(borders):
        after = borders[number + 1].start() if number + 1 < len(borders) else len(question)
        left, right = question[start : border.start()], question[border.end() : after]
        comma = border[0].strip() in (",", "，", "、")
        if _parts_here(left, right, hard=border["hard"] is not None, comma=comma, compares=compares):
            spans.append((start, border.start()))
            start = border.end()
    return [*spans, (start, len(question))]


def _parts_here(left: str, right: str, *, hard: bool, comma: bool, compares: bool) -> bool:
    if not (_is_askable(left) and _is_askable(right)):
        return False
    if hard:
        return True
    if compares:
        return False
    relates = _RELATES.search(left) is not None
    asks = _ASKS.search(left) is not None or (relates and not comma)
    return (asks and _ASKS.match(right) is not None) or (relates and _RELATES.search(right) is not None)


def _is_askable(side: str) -> bool:
    return len(re.findall(r"\w+", side)) >= 2 or len(re.findall(r"[\u0900-\u0dff\u3040-\u9fff]", side)) >= 3


def _alone(part: str, before: list[str], all_parts: list[str]) -> str:
    """Write out what a part leans on."""
    earlier = [name for other in before for name in names(other)]
    if earlier and _PRONOUN.search(part):
        return _PRONOUN.sub(lambda _: earlier[-1], part, count=1)
    if names(part) or not before:
        return part
    shared = earlier or [name for other in all_parts for name in names(other)]
    return f"{part} {' '.join(dict.fromkeys(shared))}" if shared else part
