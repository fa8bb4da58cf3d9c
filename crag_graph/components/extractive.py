"""A generator without a model: it quotes the evidence and says so."""

import re
from collections.abc import AsyncIterator, Sequence

from crag_graph.components.tokens import content_terms, terms
from crag_graph.errors import GenerationError
from crag_graph.rules.strips import units
from crag_graph.state import Evidence

_UNITS = 3  # sentences quoted of one passage at most
_MARKER = re.compile(r"[\[【](\^?\d+(?:\s?[,;–-]\s?\d+)*)[\]】]")
_HEADING = re.compile(r"#{1,6}\s+")


class ExtractiveGenerator:
    """Quotes the part of each of the best passages that is nearest to the question, with its number."""

    def __init__(self, max_passages: int) -> None:
        self._max_passages = max_passages

    async def generate(
        self, question: str, evidence: Sequence[Evidence], missing: Sequence[str] = ()
    ) -> AsyncIterator[str]:
        """Yield an opening line, one quote per passage, best first, each ending in its `[n]`, then what is missing.

        Raises:
            GenerationError: there is nothing to quote.
        """
        if not evidence:
            raise GenerationError("there is no evidence to quote", component="extractive")
        wanted = set(content_terms(question))
        ranked = sorted(evidence, key=lambda item: -1.0 if item["score"] is None else item["score"], reverse=True)
        yield "The documents say:\n"
        for item in ranked[: self._max_passages]:
            yield f"\n- “{_quotable(_nearest(wanted, item['passage']))}” [{item['number']}]"
        for part in missing:
            yield f"\n\nNothing was found for: {part}"


def _nearest(wanted: set[str], passage: str) -> str:
    """Return the run of up to three units that has most of the wanted terms, the first of equals."""
    spans = units(passage)
    if len(spans) <= _UNITS:
        return passage
    having = [wanted & set(terms(passage[span.start : span.end])) for span in spans]
    best = max(range(len(spans) - _UNITS + 1), key=lambda i: (len(set().union(*having[i : i + _UNITS])), -i))
    return passage[spans[best].start : spans[best + _UNITS - 1].end]


def _quotable(text: str) -> str:
    """Keep a quote inside its bullet, without heading marks, and its own numbers from reading as our citations."""
    lines = (_MARKER.sub(r"(\1)", _HEADING.sub("", line.strip())) for line in text.strip().splitlines())
    return "\n  ".join(line for line in lines if line)
