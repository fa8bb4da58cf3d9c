"""The systems that are compared, all over the same components: each turns a question into an outcome."""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from langchain_core.documents import Document

from crag_graph.factory import build_graph
from crag_graph.measure.bench.data import Case
from crag_graph.measure.bench.metrics import holds
from crag_graph.measure.bench.outcome import Outcome, Scored, Trace
from crag_graph.prompts import ABSTAIN, abstains
from crag_graph.protocols import Components
from crag_graph.rules.citations import Citations
from crag_graph.rules.fusion import as_source, render
from crag_graph.rules.keep import estimate_tokens
from crag_graph.runtime import as_node
from crag_graph.settings import Settings
from crag_graph.state import CragState, Evidence

State = dict[str, Any]  # the part of `CragState` that a system fills
System = Callable[[str], Awaitable[State]]
PLAIN_K = 5  # passages that plain RAG sends


def crag(settings: Settings, kit: Components) -> System:
    """Return the corrective graph as configured."""
    graph = build_graph(settings, kit)

    async def ask(question: str) -> State:
        state: State = {}
        async for step in graph.astream({"question": question}, stream_mode="updates"):
            for update in step.values():
                state |= update or {}
        return state

    return ask


def vanilla(settings: Settings, kit: Components, k: int = PLAIN_K) -> System:
    """Return plain RAG: the `k` best passages, whole, into the generator. It trusts whatever it finds."""

    async def run(state: State) -> State:
        documents = (await kit.search.ainvoke(state["question"]))[:k]
        found: State = {"verdict": "correct", "reason": "plain RAG trusts its index", "documents": documents}
        return found | await answered(state["question"], as_evidence(documents), kit, settings)

    return metered("vanilla", run)


def metered(name: str, run: Callable[[State], Awaitable[State]]) -> System:
    """Return a system that counts calls and tokens the way the graph's nodes do."""

    async def work(state: CragState) -> State:
        return await run(dict(state))

    node = as_node(name, work)

    async def ask(question: str) -> State:
        return dict(await node.ainvoke({"question": question}))  # type: ignore[typeddict-item]

    return ask


async def answered(question: str, evidence: Sequence[Evidence], kit: Components, settings: Settings) -> State:
    """Generate from this evidence; return the answer, whether it is grounded, and the context."""
    context = render(evidence)
    citations = Citations(len(evidence), context)
    pieces = [piece async for piece in kit.generator.generate(question, evidence)] if evidence else [ABSTAIN]
    text = "".join(pieces).strip()
    answer = settings.generator.no_evidence if abstains(text) else citations.push(text) + citations.finish()
    return {"answer": answer, "grounded": bool(citations.cited), "refined_context": context}


def as_evidence(documents: Sequence[Document]) -> list[Evidence]:
    """Return the documents as numbered sources, whole."""
    return [as_source(document, number, document.page_content, None) for number, document in enumerate(documents, 1)]


async def traced(system: System, question: str, no_evidence: str) -> tuple[State, Trace]:
    """Ask one system one question; return its state, and what of it needs no gold answer."""
    started = time.perf_counter()
    state = await system(question)
    seconds = time.perf_counter() - started
    trace = Trace(
        verdict=state["verdict"],
        reason=state["reason"],
        abstained=state["answer"].strip() == no_evidence,
        grounded=state["grounded"],
        answer=state["answer"],
        context=state["refined_context"],
        context_tokens=estimate_tokens(state["refined_context"]),
        web_queries=state.get("web_queries", []),
        warnings=state.get("warnings", []),
        usage=state["usage"],
        seconds=seconds,
    )
    return state, trace


async def outcome(system: System, case: Case, no_evidence: str) -> Outcome:
    """Ask one system one question and note what matters of its state."""
    state, trace = await traced(system, case.question, no_evidence)
    documents, web = state.get("documents", []), state.get("web_docs", [])
    grades = state.get("grades", [])
    sources = {document.id: document for document in [*documents, *web]}
    return Outcome(
        **trace,
        retrieved=any(_is_gold(document, document.page_content, case) for document in documents),
        found_on_web=any(_is_gold(document, document.page_content, case) for document in web),
        documents=[
            Scored(score=grade["score"], relevant=_is_gold(document, document.page_content, case))
            for document, grade in zip(documents, grades, strict=False)
        ],
        strips=[
            Scored(
                score=strip.metadata["score"],
                relevant=_is_gold(sources[strip.metadata["document_id"]], strip.page_content, case),
            )
            for strip in state.get("strips", [])
        ],
    )


def _is_gold(source: Document, text: str, case: Case) -> bool:
    """Return whether a text from this source holds the answer, and comes from the paragraph the question is about."""
    where = str(source.metadata.get("url") or source.metadata.get("source") or "")
    return PurePosixPath(where).stem == case.paragraph and holds(text, case.golds)
