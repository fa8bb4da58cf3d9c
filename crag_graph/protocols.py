"""The seams. Anything with the right method fits; nothing has to inherit from here."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from crag_graph.state import Evidence, Grade, Turn

Search: TypeAlias = Runnable[str, list[Document]]
"""Question or query in, documents out, best first. The internal retriever and the web are the same seam."""


class Embedder(Protocol):
    """Turns texts into vectors of one space.

    `name`, `dimension` and `fingerprint` identify that space: an index built with another one is refused.
    """

    name: str
    fingerprint: str

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order.

        Raises:
            RetrievalError: the model cannot be reached or rejects the texts.
        """
        ...


class Evaluator(Protocol):
    """Scores how well texts answer a question."""

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order; `score` is None where a text could not be graded.

        Raises:
            EvaluationError: nothing could be graded at all.
        """
        ...


class QueryRewriter(Protocol):
    """Turns a question into a search query, and a follow-up into a question that stands alone."""

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:
        """Return one clean line, unlike every query in `tried`; `why` says what those brought.

        Raises:
            GenerationError: no query could be made.
        """
        ...

    async def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """Return the question with everything it needs from `history` written out.

        Raises:
            GenerationError: no question could be made.
        """
        ...

    async def decompose(self, question: str) -> list[str]:
        """Return up to three questions that stand alone and together ask the same; the question itself, if it is one.

        Raises:
            GenerationError: the question could not be split.
        """
        ...


class Generator(Protocol):
    """Writes the answer from numbered evidence."""

    def generate(self, question: str, evidence: Sequence[Evidence], missing: Sequence[str] = ()) -> AsyncIterator[str]:
        """Yield the answer in pieces, citing evidence as `[n]`; name what is `missing`: parts that found nothing.

        Raises:
            GenerationError: the model failed; pieces already yielded stand.
        """
        ...


@dataclass(frozen=True)
class Components:
    """Everything the nodes call, ready to use."""

    search: Search
    evaluator: Evaluator
    rewriter: QueryRewriter
    web: Search | None  # None: off
    web_off: str  # why the web is off, as said to the person; empty when it is on
    strip_filter: Evaluator  # the same seam: it scores strips instead of documents
    generator: Generator
    fallback: Generator  # answers when `generator` fails
    web_evaluator: Evaluator | None = None  # grades web documents too, where that costs no model call
    unsupported: Generator | None = None  # answers without evidence, where the settings ask for that
    remember: Callable[[Sequence[Document]], Awaitable[None]] | None = (
        None  # stores web passages that carried an answer
    )
    notices: Callable[[], Sequence[str]] = tuple  # what a reader of the index should know, as of the last search
    prompts: tuple[str, ...] = ()  # ids of the prompts in use, for the trace
