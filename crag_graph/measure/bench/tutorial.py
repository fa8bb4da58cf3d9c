"""Corrective RAG the way tutorials build it: a model is asked about one chunk, then about one sentence, in turn.

Every retrieved chunk gets a grading call of its own, and every sentence of what is used gets a keep-or-drop call of its
own, one after the other. When no chunk is good enough the question is rewritten and the web is searched.
"""

from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage

from crag_graph.components.llm import Model
from crag_graph.components.structured import JsonSchema, StructuredModel
from crag_graph.errors import EvaluationError, GenerationError
from crag_graph.measure.bench.systems import PLAIN_K, State, System, answered, as_evidence, metered
from crag_graph.protocols import Components
from crag_graph.rules.query import clean_query
from crag_graph.rules.strips import strips
from crag_graph.rules.verdict import decide
from crag_graph.settings import Settings
from crag_graph.state import Grade

_UPPER, _LOWER = 0.7, 0.3
GRADE: JsonSchema = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
KEEP: JsonSchema = {
    "type": "object",
    "properties": {"keep": {"type": "boolean"}},
    "required": ["keep"],
    "additionalProperties": False,
}
_GRADE = "Grade from 0 to 1 how relevant this document is to the question.\n\nQuestion: {}\n\nDocument:\n{}"
_KEEP = "Does this sentence help to answer the question?\n\nQuestion: {}\n\nSentence: {}"
_REWRITE = "Rewrite this question as a query for a web search engine. Answer with the query alone.\n\n{}"


def tutorial(settings: Settings, kit: Components) -> System:
    """Return the tutorials' pipeline over the same index, web and model server.

    Raises:
        ConfigurationError: the key of the model server is missing.
    """
    return metered("tutorial", _Tutorial(settings, kit).run)


def uses_model(settings: Settings) -> bool:
    """Return whether any part of the settings asks a chat model: without one there is nothing to grade with."""
    chosen = (settings.evaluator.use, settings.rewriter.use, settings.refine.filter, settings.generator.use)
    return "llm" in chosen


class _Tutorial:
    def __init__(self, settings: Settings, kit: Components) -> None:
        self._settings = settings
        self._kit = kit
        self._model = Model(settings.llm)
        method = settings.llm.structured_output
        self._grader = StructuredModel(self._model, "relevance", GRADE, method)
        self._filter = StructuredModel(self._model, "sentence", KEEP, method)

    async def run(self, state: State) -> State:
        question = state["question"]
        documents = (await self._kit.search.ainvoke(question))[:PLAIN_K]
        scores = [await self._grade(question, document.page_content) for document in documents]
        verdict, reason = decide(scores, upper=_UPPER, lower=_LOWER)
        good = [d for d, score in zip(documents, scores, strict=True) if score is not None and score >= _LOWER]
        queries: list[str] = []
        web: list[Document] = []
        if verdict != "correct" and self._kit.web:
            queries = [await self._rewrite(question)]
            web = await self._kit.web.ainvoke(queries[0])
        used = [*(good if verdict != "incorrect" else []), *web]
        kept = [await self._sentences(question, document) for document in used]
        evidence = as_evidence([document for document in kept if document.page_content])
        return {
            "verdict": verdict,
            "reason": reason,
            "documents": documents,
            "grades": [Grade(score=score, reason="") for score in scores],
            "web_queries": queries,
            "web_docs": web,
        } | await answered(question, evidence, self._kit, self._settings)

    async def _grade(self, question: str, text: str) -> float | None:
        answer = await self._grader.ask(_ask(_GRADE, question, text), EvaluationError, "tutorial grader")
        score = answer.get("score")
        return min(max(float(score), 0.0), 1.0) if isinstance(score, int | float) else None

    async def _sentences(self, question: str, document: Document) -> Document:
        """Keep the sentences that the model wants, asking about one at a time."""
        text = document.page_content
        kept: list[str] = []
        for span in strips(text, "sentence", window=1, overlap=0, words=50, language=self._settings.refine.language):
            sentence = text[span.start : span.end]
            answer = await self._filter.ask(_ask(_KEEP, question, sentence), EvaluationError, "tutorial filter")
            if answer.get("keep") is True:
                kept.append(sentence.strip())
        return Document(" ".join(kept), id=document.id, metadata=document.metadata)

    async def _rewrite(self, question: str) -> str:
        message = await self._model.ask(_ask(_REWRITE, question), GenerationError, "tutorial rewriter")
        return clean_query(message.text, self._settings.rewriter.max_chars) or question


def _ask(template: str, *values: str) -> Sequence[BaseMessage]:
    return [HumanMessage(template.format(*values))]
