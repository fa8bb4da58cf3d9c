"""One structured call that says what grading, picking strips and writing a search query would ask in three.

The grader makes the call. What it learns about strips and the query is remembered by question and text, and the strip
filter and the rewriter answer from that memory; what it does not hold (strips of web pages, later rounds, a run resumed
elsewhere) they ask their two-step counterparts. A model that cannot fill the schema is graded the two-step way.

The query comes from a call that saw the documents, so it is used only when it holds no word that the documents have and
the question has not: private wording must not leave by the search box.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crag_graph.components.evaluators.llm import read_score, whole
from crag_graph.components.structured import JsonSchema, StructuredModel
from crag_graph.errors import EvaluationError
from crag_graph.prompts import Prompt, fence
from crag_graph.protocols import Evaluator, QueryRewriter
from crag_graph.rules.passage import split_passage, strip_text
from crag_graph.rules.strips import Span
from crag_graph.state import Grade, Turn

log = logging.getLogger(__name__)
_REMEMBERED = 10_000  # strips and queries; a question needs some fifty

ONE_PASS: JsonSchema = {
    "type": "object",
    "properties": {
        "documents": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "reason": {"type": "string"},
                    "score": {"type": "number"},
                    "helpful_strips": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["id", "reason", "score", "helpful_strips"],
                "additionalProperties": False,
            },
        },
        "search_query": {"type": "string"},
    },
    "required": ["documents", "search_query"],
    "additionalProperties": False,
}


@dataclass
class Memory:
    """What the one call said, by question and text; the oldest is forgotten first."""

    strips: OrderedDict[tuple[str, str], Grade] = field(default_factory=OrderedDict)
    queries: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def keep(self, question: str, text: str, picked: bool) -> None:
        """Remember whether a strip was picked."""
        grade = Grade(score=1.0, reason="picked") if picked else Grade(score=0.0, reason="not picked")
        self.strips[question, text] = grade
        while len(self.strips) > _REMEMBERED:
            self.strips.popitem(last=False)

    def keep_query(self, question: str, query: str) -> None:
        """Remember the query for the case that the documents do not suffice."""
        self.queries[question] = query
        while len(self.queries) > _REMEMBERED:
            self.queries.popitem(last=False)


class OnePassEvaluator:
    """Grades documents and remembers which of their strips help; falls back to `two_step`."""

    def __init__(
        self,
        structured: StructuredModel,
        prompt: Prompt,
        cut: Callable[[str], list[Span]],
        two_step: Evaluator,
        memory: Memory,
        batch_size: int,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._structured = structured
        self._prompt = prompt
        self._cut = cut
        self._two_step = two_step
        self._memory = memory
        self._batch_size = batch_size
        self._now = now

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order."""
        starts = range(0, len(texts), self._batch_size)
        batches = [range(start, min(start + self._batch_size, len(texts))) for start in starts]
        graded = await asyncio.gather(*(self._one_pass(question, texts, batch) for batch in batches))
        grades = {i: grade for found in graded for i, grade in found.items()}
        missing = [i for i in range(len(texts)) if i not in grades]
        if missing:
            asked = await self._two_step.score(question, [texts[i] for i in missing])
            grades |= dict(zip(missing, asked, strict=True))
        return [grades[i] for i in range(len(texts))]

    async def _one_pass(self, question: str, texts: Sequence[str], batch: range) -> dict[int, Grade]:
        try:
            return await self._ask(question, texts, batch)
        except EvaluationError as error:
            log.info("graded in two steps: %s", error)
            return {}

    async def _ask(self, question: str, texts: Sequence[str], batch: range) -> dict[int, Grade]:
        strips = {i: self._strips(texts[i]) for i in batch}
        shown = "\n\n".join(_show(number, *strips[i]) for number, i in enumerate(batch, 1))
        marker, fenced = fence(shown)
        today = self._now().strftime("%A, %d %B %Y")
        count = str(len(batch))
        messages = self._prompt.messages(question=question, texts=fenced, count=count, marker=marker, today=today)
        answer = await self._structured.ask(messages, EvaluationError, "one-pass grader")
        query = answer.get("search_query")
        if isinstance(query, str) and query.strip() and not reveals(query, question, shown):
            self._memory.keep_query(question, query)
        grades: dict[int, Grade] = {}
        items = answer.get("documents")
        for item in items if isinstance(items, list) else []:
            position = whole(item.get("id")) if isinstance(item, dict) else None
            score = read_score(item.get("score")) if isinstance(item, dict) else None
            if position is None or score is None or not 1 <= position <= len(batch) or batch[position - 1] in grades:
                continue
            grades[batch[position - 1]] = Grade(score=score, reason=str(item.get("reason") or "")[:300])
            self._remember(question, strips[batch[position - 1]], item.get("helpful_strips"))
        return grades

    def _strips(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        """Return the heading of a passage, and (what depends on it, text) of every strip."""
        heading, body = split_passage(text)
        spans = self._cut(body)
        return heading, [(body[s.lead_start : s.lead_end], body[s.start : s.end]) for s in spans]

    def _remember(self, question: str, strips: tuple[str, list[tuple[str, str]]], named: Any) -> None:
        heading, parts = strips
        picked = {whole(number) for number in named} if isinstance(named, list) else set()
        for number, (lead, text) in enumerate(parts, 1):
            self._memory.keep(question, strip_text(heading, lead, text), number in picked)


def reveals(query: str, question: str, documents: str) -> bool:
    """Return whether a query holds a word that only the documents have.

    >>> reveals("Falcon weight kg", "How heavy is the Falcon?", "Project Nightjar, alias Falcon, weighs 3 kg")
    True
    >>> reveals("Falcon mass", "How heavy is the Falcon?", "Project Nightjar, alias Falcon, weighs 3 kg")
    False
    """
    words = [set(re.findall(r"\w+", text.casefold())) for text in (query, question, documents)]
    return bool((words[0] - words[1]) & words[2])


def _show(number: int, heading: str, parts: Sequence[tuple[str, str]]) -> str:
    lines = [f"({n}) {lead}\n{text}" if lead else f"({n}) {text}" for n, (lead, text) in enumerate(parts, 1)]
    return "\n".join([f"[{number}] {heading}".rstrip(), *lines])


class OnePassStrips:
    """The strip filter that repeats what the one call said, and asks `two_step` about everything else."""

    def __init__(self, memory: Memory, two_step: Evaluator) -> None:
        self._memory = memory
        self._two_step = two_step

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per strip, in order."""
        grades = [self._memory.strips.get((question, text)) for text in texts]
        new = [text for text, grade in zip(texts, grades, strict=True) if grade is None]
        asked = iter(await self._two_step.score(question, new) if new else [])
        return [next(asked) if grade is None else grade for grade in grades]


class OnePassRewriter:
    """The rewriter whose first query is the one call's, and whose others come from `two_step`."""

    def __init__(self, memory: Memory, two_step: QueryRewriter) -> None:
        self._memory = memory
        self._two_step = two_step

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:
        """Return the query; see `QueryRewriter`."""
        query = self._memory.queries.get(question)
        if query is None or tried:
            return await self._two_step.rewrite(question, tried, why)
        return query

    async def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """Return the question on its own; see `QueryRewriter`."""
        return await self._two_step.standalone(question, history)

    async def decompose(self, question: str) -> list[str]:
        """Return the parts of the question; see `QueryRewriter`."""
        return await self._two_step.decompose(question)
