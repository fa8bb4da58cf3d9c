"""Everything a person may change, in one frozen object.

Precedence: run context > environment (`CRAG_<SECTION>__<KEY>`) > YAML (`CRAG_CONFIG` or `--config`) > defaults.
Every key is described once, in `configs/default.yaml`. Secrets are not settings: a setting names the environment
variable that holds one.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crag_graph.settings.base import Count, ImportPath, Seconds, Section, Unit
from crag_graph.settings.evaluators import (
    Calibration,
    CrossEncoderThresholds,
    CustomThresholds,
    EvaluatorSettings,
    LlmThresholds,
    LocalThresholds,
    NliThresholds,
    PrefilterSettings,
    SimilarityThresholds,
    Thresholds,
)
from crag_graph.settings.web import (
    WEB_SOURCES,
    FolderSettings,
    PageSettings,
    RememberSettings,
    SearxngSettings,
    TavilySettings,
    WebCacheSettings,
    WebSettings,
    WikipediaSettings,
)
from crag_graph.state import Action

StripMode = Literal["windows", "sentence", "excerpt", "fixed", "selection"]

__all__ = [
    "WEB_SOURCES",
    "Calibration",
    "CorrectionSettings",
    "CrossEncoderThresholds",
    "CustomThresholds",
    "EmbeddingSettings",
    "EvaluatorSettings",
    "ExtractiveSettings",
    "FolderSettings",
    "GeneratorSettings",
    "HybridSettings",
    "ImportPath",
    "IndexSettings",
    "IngestSettings",
    "KeywordsSettings",
    "LlmSettings",
    "LlmThresholds",
    "LocalThresholds",
    "NliThresholds",
    "OpenAIEmbeddingSettings",
    "PageSettings",
    "PrefilterSettings",
    "RefineSettings",
    "RememberSettings",
    "RetrieveSettings",
    "RewriterSettings",
    "RunContext",
    "SearxngSettings",
    "Section",
    "Settings",
    "SimilarityThresholds",
    "StripMode",
    "TavilySettings",
    "Thresholds",
    "WebCacheSettings",
    "WebSettings",
    "WikipediaSettings",
]


class LlmSettings(Section):
    """The chat model: any server that speaks the OpenAI protocol."""

    model: str = "gpt-4.1-mini"
    small_model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = "OPENAI_API_KEY"
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0.0
    max_output_tokens: Count = 1024
    timeout_s: Seconds = 60
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    max_concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    structured_output: Literal["auto", "json_schema", "function_calling", "json_text"] = "auto"
    cache: str | None = None


class IndexSettings(Section):
    """Where the vectors and texts of the ingested documents lie."""

    path: str = ".crag"
    collection: str = "documents"
    host: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    ssl: bool = False


class OpenAIEmbeddingSettings(Section):
    """An embedding model behind the OpenAI protocol."""

    model: str = "text-embedding-3-small"
    base_url: str | None = None
    api_key_env: str | None = "OPENAI_API_KEY"
    dimensions: Count | None = None
    batch_size: Annotated[int, Field(ge=1, le=2048)] = 256
    timeout_s: Seconds = 60


class EmbeddingSettings(Section):
    """Which embedder makes the vectors."""

    use: Literal["local", "openai"] | ImportPath = "local"
    openai: OpenAIEmbeddingSettings = OpenAIEmbeddingSettings()


class IngestSettings(Section):
    """How files become chunks."""

    chunk_chars: Annotated[int, Field(ge=100, le=20_000)] = 900
    chunk_overlap: Annotated[int, Field(ge=0, le=5_000)] = 150
    max_file_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 50

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.chunk_overlap >= self.chunk_chars:
            raise ValueError(f"chunk_overlap ({self.chunk_overlap}) must be below chunk_chars ({self.chunk_chars})")
        return self


class HybridSettings(Section):
    """Reciprocal rank fusion (Cormack et al., 2009): score = sum of 1 / (rrf_k + rank)."""

    rrf_k: Count = 60
    min_known: Unit = 0.5


class RetrieveSettings(Section):
    """How the internal index is searched."""

    use: Literal["hybrid", "chroma", "bm25"] | ImportPath = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=50)] = 5
    fetch_k: Annotated[int, Field(ge=1, le=200)] = 20
    hybrid: HybridSettings = HybridSettings()

    @model_validator(mode="after")
    def _check_depth(self) -> Self:
        if self.top_k > self.fetch_k:
            raise ValueError(f"top_k ({self.top_k}) must not be above fetch_k ({self.fetch_k})")
        return self


class KeywordsSettings(Section):
    """The rewriter that needs no model."""

    max_terms: Annotated[int, Field(ge=2, le=50)] = 10


class RewriterSettings(Section):
    """Who writes the search query."""

    use: Literal["llm", "keywords"] | ImportPath = "llm"
    max_chars: Annotated[int, Field(ge=20, le=2_000)] = 400
    keywords: KeywordsSettings = KeywordsSettings()


class CorrectionSettings(Section):
    """What is tried when the evidence falls short, how often, and what happens when that was not enough."""

    ambiguous: tuple[Action, ...] = ("web",)
    incorrect: tuple[Action, ...] = ("web",)
    max_rounds: Annotated[int, Field(ge=0, le=5)] = 2
    on_insufficient: Literal["abstain", "ask", "unsupported"] = "abstain"


class RefineSettings(Section):
    """How documents are cut into strips, and which strips make the context."""

    filter: Literal["evaluator", "llm"] = "llm"
    mode: StripMode = "windows"
    window: Annotated[int, Field(ge=1, le=20)] = 3
    overlap: Annotated[int, Field(ge=0, le=19)] = 1
    words: Annotated[int, Field(ge=5, le=500)] = 50
    language: str = "auto"
    batch_size: Annotated[int, Field(ge=1, le=200)] = 40
    max_strips: Annotated[int, Field(ge=1, le=200)] = 8
    max_context_tokens: Annotated[int, Field(ge=50, le=1_000_000)] = 2_000

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.overlap >= self.window:
            raise ValueError(f"overlap ({self.overlap}) must be below window ({self.window})")
        return self


class ExtractiveSettings(Section):
    """The generator that quotes."""

    max_passages: Annotated[int, Field(ge=1, le=10)] = 3


class GeneratorSettings(Section):
    """Who writes the answer, and what is said without evidence."""

    use: Literal["llm", "extractive"] | ImportPath = "llm"
    on_failure: Literal["extractive", "error"] = "extractive"
    no_evidence: str = "I found no evidence that answers this question."
    extractive: ExtractiveSettings = ExtractiveSettings()


class Settings(Section):
    """All settings of one application."""

    llm: LlmSettings = LlmSettings()
    index: IndexSettings = IndexSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    ingest: IngestSettings = IngestSettings()
    retrieve: RetrieveSettings = RetrieveSettings()
    evaluator: EvaluatorSettings = EvaluatorSettings()
    rewriter: RewriterSettings = RewriterSettings()
    web: WebSettings = WebSettings()
    corrections: CorrectionSettings = CorrectionSettings()
    refine: RefineSettings = RefineSettings()
    generator: GeneratorSettings = GeneratorSettings()

    @model_validator(mode="after")
    def _check_collections(self) -> Self:
        if self.web.remember.collection == self.index.collection:
            raise ValueError(
                f"web.remember.collection is index.collection ({self.index.collection}): "
                "web evidence lies in a collection of its own; name another one"
            )
        return self


class RunContext(BaseModel):
    """What one run may change. Everything left out is as configured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upper: Unit | None = Field(None, description="A document at or above this score makes the verdict correct.")
    lower: Unit | None = Field(None, description="Below this score a document is dropped.")
    keep: Unit | None = Field(None, description="A strip at or above this score is kept.")
    top_k: Annotated[int, Field(ge=1, le=50)] | None = Field(None, description="Documents to grade (at most fetch_k).")
    web: bool | None = Field(None, description="False keeps this run off the web.")
    max_rounds: Annotated[int, Field(ge=0, le=5)] | None = Field(None, description="Corrective rounds allowed.")
    strip_mode: StripMode | None = Field(None, description="How documents are cut into strips.")
    max_strips: Annotated[int, Field(ge=1, le=200)] | None = Field(None, description="Strips in the context at most.")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.upper is not None and self.lower is not None and self.lower > self.upper:
            raise ValueError(f"lower ({self.lower}) is above upper ({self.upper}); write lower <= upper")
        return self
