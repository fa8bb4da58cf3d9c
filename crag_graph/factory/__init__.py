"""The one place where a `use:` name becomes a component."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from crag_graph.components.evaluators.identity import Identity, calibration_mismatch, identify
from crag_graph.errors import ConfigurationError
from crag_graph.factory.imported import imported
from crag_graph.factory.indexes import build_index, build_memory, search_of
from crag_graph.factory.web import build_web
from crag_graph.load import load_settings
from crag_graph.prompts import Prompt, load_prompt
from crag_graph.protocols import Components, Embedder, Evaluator, Generator, QueryRewriter, Search
from crag_graph.settings import Settings

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from crag_graph.components.llm import Model
    from crag_graph.settings import RunContext
    from crag_graph.state import CragInput, CragOutput, CragState

__all__ = [
    "VARIABLES",
    "Graders",
    "build_components",
    "build_embedder",
    "build_graders",
    "build_graph",
    "build_index",
    "build_memory",
]

VARIABLES = {
    "grade": {"question", "texts", "count", "marker"},
    "strips": {"question", "texts", "count", "marker"},
    "yes_no": {"question", "text", "marker"},
    "one_pass": {"question", "texts", "count", "marker", "today"},
    "rewrite": {"question", "marker", "today", "tried", "why", "max_chars"},
    "standalone": {"question", "history", "marker"},
    "decompose": {"question", "marker", "max_parts"},
    "unsupported": {"question", "abstain"},
    "generate": {"question", "evidence", "missing", "marker", "abstain"},
}


def build_graph(
    settings: Settings | None = None, components: Components | None = None
) -> "CompiledStateGraph[CragState, RunContext, CragInput, CragOutput]":
    """Return the compiled corrective graph, ready to be invoked, streamed, served or put into a larger graph.

    Settings come from the environment when none are given; ready `components` replace what the settings name.

    Raises:
        ConfigurationError: the settings cannot work; the message says what to write where.
    """
    from crag_graph.graph import compile_graph

    settings = settings or load_settings()
    kit = components or build_components(settings)
    return compile_graph(settings, kit)


def build_components(settings: Settings) -> Components:
    """Build every component that the settings name.

    Raises:
        ConfigurationError: a key, a file, a package or an import path is missing or unusable.
    """
    return _Build(settings).components()


def build_graders(settings: Settings) -> "Graders":
    """Build only what scores; no index, no web and no generator is needed to measure it.

    Raises:
        ConfigurationError: as `build_components`.
    """
    return _Build(settings).graders()


def build_embedder(settings: Settings) -> Embedder:
    """Build the embedder that the settings name."""
    from crag_graph.components.embeddings import LangChainEmbedder, LocalEmbedder, OpenAIEmbedder

    match settings.embeddings.use:
        case "local":
            return LocalEmbedder()
        case "openai":
            return OpenAIEmbedder(settings.embeddings.openai)
        case path:
            return LangChainEmbedder(imported(path, "embeddings.use"))


class Graders(NamedTuple):
    """What scores under the settings, and whose scores these are."""

    documents: Evaluator
    strips: Evaluator | None  # None: a filter that says only yes or no, and knows no cut-off
    identity: Identity


class _Build:
    """Builds components; what several of them share is built once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedder = build_embedder(settings)
        self._index = build_index(settings, self._embedder)
        self._memory = build_memory(settings, self._embedder)
        self._prompts: list[Prompt] = []
        self._models: dict[str, Model] = {}

    def components(self) -> Components:
        settings = self._settings
        web, web_off = build_web(settings)
        evaluator = by_use = self._evaluator(settings.evaluator.use)
        strip_filter = evaluator if settings.refine.filter == "evaluator" else self._llm_strip_filter()
        rewriter = self._rewriter()
        if settings.evaluator.use == "llm" and settings.evaluator.llm.one_pass:
            evaluator, strip_filter, rewriter = self._one_pass(evaluator, strip_filter, rewriter)
        stale = calibration_mismatch(settings, self._grading_prompt())
        return Components(
            search=self._search(),
            evaluator=self._prefiltered(evaluator),
            rewriter=rewriter,
            web=web,
            web_off=web_off,
            strip_filter=strip_filter,
            generator=self._generator(),
            fallback=self._extractive(),
            web_evaluator=by_use if settings.evaluator.use in ("local", "similarity") else None,
            unsupported=self._unsupported(),
            remember=self._memory.remember if self._memory else None,
            notices=lambda: [*self._index.warnings, *([stale] if stale else [])],
            prompts=tuple(prompt.id for prompt in self._prompts),
        )

    def graders(self) -> Graders:
        settings = self._settings
        strips = documents = self._evaluator(settings.evaluator.use)
        if settings.evaluator.use == "llm" and settings.evaluator.llm.one_pass:
            documents, _, _ = self._one_pass(documents, self._llm_strip_filter(), self._rewriter())
        by_evaluator = settings.refine.filter == "evaluator"
        identity = identify(settings, self._grading_prompt())
        return Graders(self._prefiltered(documents), strips if by_evaluator else None, identity)

    def _grading_prompt(self) -> str:
        """Return the id of the prompt that asks for scores; empty when no model is asked for any."""
        ids = {prompt.name: prompt.id for prompt in self._prompts}
        return ids.get("one_pass") or ids.get("grade", "")

    def _search(self) -> Search:
        retrieve = self._settings.retrieve
        if retrieve.use in ("chroma", "bm25", "hybrid"):
            search = search_of(self._index, self._embedder, retrieve)
        else:
            search = imported(retrieve.use, "retrieve.use")
        if self._memory is None:
            return search
        from crag_graph.components.web_memory import with_memory

        return with_memory(search, self._memory, retrieve.hybrid.rrf_k)

    def _evaluator(self, use: str) -> Evaluator:
        evaluator = self._settings.evaluator
        match use:
            case "llm":
                from crag_graph.components.evaluators.llm import grader
                from crag_graph.components.evaluators.yes_no import OrYesNo

                model, batch_size = self._small(), evaluator.llm.batch_size
                structured = grader(model, self._prompt("grade"), batch_size, self._settings.llm)
                return OrYesNo(structured, model, self._prompt("yes_no"))
            case "local":
                from crag_graph.components.evaluators.local import LocalEvaluator

                coefficients = evaluator.local.coefficients
                return LocalEvaluator(self._embedder, Path(coefficients) if coefficients else None)
            case "cross_encoder":
                from crag_graph.components.evaluators.cross_encoder import CrossEncoderEvaluator

                return CrossEncoderEvaluator(evaluator.cross_encoder)
            case "nli":
                from crag_graph.components.evaluators.nli import NliEvaluator

                return NliEvaluator(evaluator.nli)
            case "similarity":
                from crag_graph.components.evaluators.similarity import SimilarityEvaluator

                return SimilarityEvaluator(self._embedder)
            case path:
                found: Evaluator = imported(path, "evaluator.use")
                return found

    def _prefiltered(self, evaluator: Evaluator) -> Evaluator:
        from crag_graph.components.evaluators.prefilter import Prefiltered

        prefilter = self._settings.evaluator.prefilter
        if prefilter.use == "off":
            return evaluator
        return Prefiltered(self._evaluator(prefilter.use), evaluator, prefilter.low, prefilter.high)

    def _one_pass(
        self, evaluator: Evaluator, strip_filter: Evaluator, rewriter: QueryRewriter
    ) -> tuple[Evaluator, Evaluator, QueryRewriter]:
        """Put the one structured call in front of the three that it replaces."""
        from crag_graph.components.evaluators.one_pass import (
            ONE_PASS,
            Memory,
            OnePassEvaluator,
            OnePassRewriter,
            OnePassStrips,
        )
        from crag_graph.components.structured import StructuredModel
        from crag_graph.policy import cut_by

        settings, memory = self._settings, Memory()
        structured = StructuredModel(self._small(), "one_pass", ONE_PASS, settings.llm.structured_output)
        prompt, batch_size = self._prompt("one_pass"), settings.evaluator.llm.batch_size
        one_pass = OnePassEvaluator(structured, prompt, cut_by(settings.refine), evaluator, memory, batch_size)
        return one_pass, OnePassStrips(memory, strip_filter), OnePassRewriter(memory, rewriter)

    def _llm_strip_filter(self) -> Evaluator:
        from crag_graph.components.evaluators.llm import strip_filter

        return strip_filter(self._small(), self._prompt("strips"), self._settings.refine.batch_size, self._settings.llm)

    def _rewriter(self) -> QueryRewriter:
        rewriter = self._settings.rewriter
        match rewriter.use:
            case "llm":
                from crag_graph.components.rewriter import LlmRewriter

                prompts = self._prompt("rewrite"), self._prompt("standalone"), self._prompt("decompose")
                return LlmRewriter(self._small(), *prompts, rewriter.max_chars, self._settings.llm.structured_output)
            case "keywords":
                from crag_graph.components.keywords import KeywordsRewriter

                counts = self._index.word_counts
                return KeywordsRewriter(rewriter.keywords.max_terms, rewriter.max_chars, word_counts=counts)
            case path:
                found: QueryRewriter = imported(path, "rewriter.use")
                return found

    def _generator(self) -> Generator:
        match self._settings.generator.use:
            case "llm":
                from crag_graph.components.generator import LlmGenerator

                return LlmGenerator(self._model(self._settings.llm.model), self._prompt("generate"))
            case "extractive":
                return self._extractive()
            case path:
                found: Generator = imported(path, "generator.use")
                return found

    def _unsupported(self) -> Generator | None:
        """Return what answers without evidence; None unless the settings ask for that."""
        if self._settings.corrections.on_insufficient != "unsupported":
            return None
        if self._settings.generator.use != "llm":
            raise ConfigurationError(
                "corrections.on_insufficient is unsupported, which needs a model to answer: "
                "set generator.use to llm, or corrections.on_insufficient to abstain or ask"
            )
        from crag_graph.components.generator import UnsupportedGenerator

        return UnsupportedGenerator(self._model(self._settings.llm.model), self._prompt("unsupported"))

    def _extractive(self) -> Generator:
        from crag_graph.components.extractive import ExtractiveGenerator

        return ExtractiveGenerator(self._settings.generator.extractive.max_passages)

    def _small(self) -> "Model":
        return self._model(self._settings.llm.small_model or self._settings.llm.model)

    def _model(self, name: str) -> "Model":
        from crag_graph.components.llm import Model

        if name not in self._models:
            self._models[name] = Model(self._settings.llm, name)
        return self._models[name]

    def _prompt(self, name: str) -> Prompt:
        prompt = load_prompt(name, VARIABLES[name])
        self._prompts.append(prompt)
        return prompt
