"""From evidence to an answer: generate."""

from collections.abc import AsyncIterator, Sequence

from langchain_core.documents import Document

from crag_graph.errors import ComponentError, ConfigurationError, GenerationError
from crag_graph.nodes.common import Update, asked, open_parts
from crag_graph.policy import Policy
from crag_graph.prompts import abstains, may_abstain
from crag_graph.protocols import Components
from crag_graph.rules.citations import Citations
from crag_graph.rules.fusion import fuse, recompose, render
from crag_graph.runtime import say
from crag_graph.state import CragState, Evidence


async def generate(state: CragState, kit: Components, policy: Policy) -> Update:
    """Read `kept_strips`, `parts`, `web_docs` → write `answer`, `grounded`, `sources`."""
    warnings = [*state["warnings"]]
    evidence = recompose(fuse(state["verdict"], state["good_docs"], state["web_docs"]), state["kept_strips"])
    if state["verdict"] != "correct" and not (kit.web and policy.web):
        warnings.append(f"the web was not searched: {kit.web_off or 'this run keeps off the web'}")
    missing = [part["question"] for part in open_parts(state)]
    warnings += [f"nothing was found for this part: {question}" for question in missing]
    citations = Citations(len(evidence) if state["enough"] else 0, render(evidence))
    if state["enough"]:
        pieces = _answer(asked(state), evidence, missing, kit, policy, warnings)
    else:
        pieces = _without_evidence(asked(state), kit, policy, warnings)
    answer = await say(_checked(pieces, citations, policy.no_evidence))
    if state["enough"] and answer == policy.no_evidence:
        warnings.append("the evidence was judged to be enough, but the model found no answer in it")
    if citations.invented:
        warnings.append(f"removed from the answer, because no evidence has it: {', '.join(citations.invented)}")
    if state["enough"] and answer != policy.no_evidence and not citations.cited:
        warnings.append("the answer cites none of its evidence, so it counts as not grounded")
    sources = [item for item in evidence if item["number"] in citations.cited]
    await _remember(sources, state, kit, warnings)
    return {
        "answer": answer,
        "grounded": bool(citations.cited),
        "sources": sources,
        "warnings": warnings,
    }


async def _remember(sources: Sequence[Evidence], state: CragState, kit: Components, warnings: list[str]) -> None:
    """Store the cited passages of the pages that this run found; what was remembered before is not stored anew."""
    if kit.remember is None:
        return
    cited = {(item["url"], item["passage"]) for item in sources}
    passages = [
        Document(item["passage"], metadata=page.metadata)
        for page in state["web_docs"]
        for item in recompose([page], state["kept_strips"])
        if item["url"] and (item["url"], item["passage"]) in cited
    ]
    if not passages:
        return
    try:
        await kit.remember(passages)
    except (ComponentError, ConfigurationError) as error:
        warnings.append(f"the web evidence was not remembered: {error}")


async def _without_evidence(question: str, kit: Components, policy: Policy, warnings: list[str]) -> AsyncIterator[str]:
    """Yield that there is no evidence, or, where the settings allow it, what the model says from memory."""
    if kit.unsupported is None:
        yield policy.no_evidence
        return
    warnings.append(
        "no evidence was found: if this is an answer, it is from the model's memory and nothing supports it"
    )
    try:
        async for piece in kit.unsupported.generate(question, ()):
            yield piece
    except GenerationError as error:
        warnings.append(f"the answer from memory failed: {error}")
        yield policy.no_evidence


async def _answer(
    question: str,
    evidence: Sequence[Evidence],
    missing: Sequence[str],
    kit: Components,
    policy: Policy,
    warnings: list[str],
) -> AsyncIterator[str]:
    """Yield the generator's pieces; where it fails before its first word, those of the fallback."""
    said = False
    try:
        async for piece in kit.generator.generate(question, evidence, missing):
            said = said or bool(piece.strip())
            if said:
                yield piece
    except GenerationError as error:
        if said:
            warnings.append(f"the answer was cut off: {error}")
            return
        if policy.on_failure == "error":
            error.evidence = evidence
            raise
        warnings.append(f"the answer is quoted, not written: {error}")
        async for piece in kit.fallback.generate(question, evidence, missing):
            yield piece


async def _checked(pieces: AsyncIterator[str], citations: Citations, no_evidence: str) -> AsyncIterator[str]:
    """Yield the answer with its citations checked; a generator that abstains is replaced by the fixed sentence."""
    opening = ""
    async for piece in pieces:
        opening += piece
        if abstains(opening):
            yield no_evidence
            async for _ in pieces:  # to its end, where the model says what the call cost
                pass
            return
        if not may_abstain(opening):
            break
    yield citations.push(opening)
    async for piece in pieces:
        yield citations.push(piece)
    yield citations.finish()
