"""Plain components whose answers a test writes down, for runs that are about the graph and not about them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.graph import compile_graph
from crag_graph.protocols import Components
from crag_graph.rules.compound import split_question
from crag_graph.settings import Settings

WEB_TEXT = "The web says the warranty is five years."


def document(text: str, number: int = 1, **metadata: Any) -> Document:
    return Document(text, id=f"d{number}", metadata={"title": f"Doc {number}", "origin": "internal", **metadata})


def hit(text: str, number: int = 1) -> Document:
    return Document(
        text, id=f"w{number}", metadata={"origin": "web", "url": f"https://a.example/{number}", "title": "W"}
    )


@dataclass
class Scorer:
    """Scores every text by the first entry of `scores` whose key stands in it; raises what it is given to raise."""

    scores: dict[str, float | None] = field(default_factory=dict)
    otherwise: float | None = 0.0
    error: Exception | None = None
    asked: list[list[str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def score(self, question: str, texts: Sequence[str]) -> list[dict[str, Any]]:
        self.asked.append(list(texts))
        self.questions.append(question)
        if self.error:
            raise self.error
        return [{"score": self._of(text), "reason": "scripted"} for text in texts]

    def _of(self, text: str) -> float | None:
        return next((score for key, score in self.scores.items() if key in text), self.otherwise)


class ByQuestion:
    """Scores a text 0.9 when it holds what the question asks for: "euros" for a price, "years" for a warranty."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def score(self, question: str, texts: Sequence[str]) -> list[dict[str, Any]]:
        self.questions.append(question)
        words = {"price": "euros", "warranty": "years"}
        wanted = [word for key, word in words.items() if key in question.lower()]
        hits = [sum(word in text for word in wanted) / max(len(wanted), 1) for text in texts]
        return [{"score": 0.9 * share, "reason": "scripted"} for share in hits]


@dataclass
class Rewriter:
    """Answers with the queries it is given, one after the other, then repeats the question."""

    queries: list[str] = field(default_factory=list)
    error: Exception | None = None
    asked: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:
        self.asked.append((question, tuple(tried), why))
        if self.error:
            raise self.error
        return self.queries.pop(0) if self.queries else question

    async def decompose(self, question: str) -> list[str]:
        return split_question(question)

    async def standalone(self, question: str, history: Sequence[dict[str, str]]) -> str:
        return f"{question} ({history[0]['content']})"


@dataclass
class Writer:
    """Writes the pieces it is given; raises after `fails_after` of them."""

    pieces: Sequence[str] = ("The answer", " is here", " [1].")
    error: Exception | None = None
    fails_after: int = 0
    asked: list[tuple[str, list[Any]]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    async def generate(self, question: str, evidence: Sequence[Any], missing: Sequence[str] = ()):
        self.asked.append((question, list(evidence)))
        self.missing = list(missing)
        for position, piece in enumerate(self.pieces):
            if self.error and position == self.fails_after:
                raise self.error
            yield piece


class Found:
    """A search whose answer, or error, a test writes down."""

    def __init__(self, answer: list[Document] | Exception | Callable[[str], list[Document]]) -> None:
        self.queries: list[str] = []
        self._answer = answer
        self.runnable = RunnableLambda(self._find)

    def _find(self, query: str) -> list[Document]:
        self.queries.append(query)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer(query) if callable(self._answer) else self._answer


def graph_of(
    documents: Any = (),
    web: Any = None,
    *,
    grader: Any = None,
    strips: Any = None,
    rewriter: Rewriter | None = None,
    writer: Writer | None = None,
    fallback: Writer | None = None,
    unsupported: Writer | None = None,
    web_grader: Any = None,
    settings: dict[str, Any] | None = None,
):
    """Compile the graph over scripted components; documents and web are lists, errors, functions or `Found`s."""

    def search(answer: Any) -> Found:
        return answer if isinstance(answer, Found) else Found(list(answer) if isinstance(answer, tuple) else answer)

    kit = Components(
        search=search(documents).runnable,
        evaluator=grader or Scorer(otherwise=0.9),
        rewriter=rewriter or Rewriter(["first query", "second query", "third query"]),
        web=None if web is None else search(web).runnable,
        web_off="" if web is not None else "web.use is off",
        strip_filter=strips or Scorer(otherwise=1.0),
        generator=writer or Writer(),
        fallback=fallback or Writer(["Quoted [1]."]),
        unsupported=unsupported,
        web_evaluator=web_grader,
    )
    return compile_graph(Settings.model_validate(settings or {}), kit)


def visited(graph: Any, question: str = "How long is the warranty?", **options: Any) -> list[str]:
    """Return the names of the nodes of one run, in order."""
    return [node for step in graph.stream({"question": question}, stream_mode="updates", **options) for node in step]
