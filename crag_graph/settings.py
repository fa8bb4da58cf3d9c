"""Everything a person may change, in one frozen object.

Precedence: run context > environment (`CRAG_<SECTION>__<KEY>`) > YAML (`CRAG_CONFIG` or `--config`) > defaults.
Every key is described once, in `configs/default.yaml`. Secrets are not settings: a setting names the environment
variable that holds one.
"""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from crag_graph.state import Action
from crag_graph.web_settings import PageSettings, SearxngSettings, WebCacheSettings, WikipediaSettings

Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
StripMode = Literal["windows", "sentence", "excerpt", "fixed", "selection"]
IMPORT_PATH = r"^[\w.]+:[\w.]+$"
ImportPath = Annotated[str, Field(pattern=IMPORT_PATH)]
WEB_SOURCES = ("tavily", "wikipedia", "searxng", "folder")


class Section(BaseModel):
    """A block of settings: frozen, and unknown keys are errors."""

    # A model or host may be named by a number, which YAML reads as one.
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Calibration(Section):
    """What cut-offs were calibrated for, as `crag calibrate` writes it; all null: nobody says."""

    evaluator: str | None = None
    model: str | None = None
    prompt: str | None = None
    data: str | None = None
    date: str | None = None
    rows: str | None = None


class Thresholds(Section):
    """The cut-offs of one evaluator, on its own scale; inside the program always in [0, 1]."""

    upper: Unit
    lower: Unit
    keep: Unit
    sufficient: Unit
    calibration: Calibration = Calibration()

    @model_validator(mode="before")
    @classmethod
    def _read_scale(cls, data: Any) -> Any:
        """Convert values on the paper's scale (`scale: signed`, -1..1) to [0, 1], once."""
        if not isinstance(data, dict) or "scale" not in data:
            return data
        data = dict(data)
        scale = data.pop("scale")
        if scale not in ("unit", "signed"):
            raise ValueError(f"scale is {scale!r}; write unit (0..1) or signed (-1..1)")
        if scale == "signed":
            for key in {"upper", "lower", "keep", "sufficient"} & data.keys():
                data[key] = _from_signed(key, data[key])
        return data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.lower > self.upper:
            raise ValueError(f"lower ({self.lower}) is above upper ({self.upper}); write lower <= upper")
        return self


def _off(data: Any) -> Any:
    """Read `use: off`: YAML makes a bare `off` false, and `null` is a natural way to say none."""
    if isinstance(data, dict) and "use" in data and data["use"] in (False, None):
        return {**data, "use": "off"}
    return data


def _from_signed(key: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or not -1 <= number <= 1:
        raise ValueError(f"{key} is {value}; on the signed scale it lies in -1..1")
    return (number + 1) / 2


class LlmThresholds(Thresholds):
    """How a model grades, and its cut-offs."""

    upper: Unit = 0.7
    lower: Unit = 0.3
    keep: Unit = 0.25
    sufficient: Unit = 0.5
    batch_size: Annotated[int, Field(ge=1, le=50)] = 10
    one_pass: bool = False


class LocalThresholds(Thresholds):
    """The cut-offs of the local evaluator, and the file with its coefficients."""

    upper: Unit = 0.7
    lower: Unit = 0.2
    keep: Unit = 0.1
    sufficient: Unit = 0.3
    coefficients: str | None = None


class CrossEncoderThresholds(Thresholds):
    """A sequence-classification model, what its outputs mean, and its cut-offs."""

    upper: Unit = 0.8
    lower: Unit = 0.1
    keep: Unit = 0.1
    sufficient: Unit = 0.5
    model: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    activation: Literal["sigmoid", "softmax", "none"] = "sigmoid"
    output_scale: Literal["unit", "signed"] = "unit"
    label: str | None = None
    layout: Literal["pair", "joined"] = "pair"
    max_tokens: Annotated[int, Field(ge=32, le=32_768)] = 512
    batch_size: Count = 16


class NliThresholds(Thresholds):
    """A model for natural language inference, and its cut-offs."""

    upper: Unit = 0.8
    lower: Unit = 0.2
    keep: Unit = 0.2
    sufficient: Unit = 0.5
    model: str = "cross-encoder/nli-MiniLM2-L6-H768"
    max_tokens: Annotated[int, Field(ge=32, le=32_768)] = 512
    batch_size: Count = 16


class SimilarityThresholds(Thresholds):
    """The cut-offs of the cosine of question and text; they hold for the local embedder."""

    upper: Unit = 0.85
    lower: Unit = 0.65
    keep: Unit = 0.65
    sufficient: Unit = 0.75


class CustomThresholds(Thresholds):
    """The cut-offs of an evaluator given by import path."""

    upper: Unit = 0.7
    lower: Unit = 0.3
    keep: Unit = 0.25
    sufficient: Unit = 0.5


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


class PrefilterSettings(Section):
    """A cheap evaluator that decides the clear cases."""

    use: Literal["off", "local"] | ImportPath = "off"
    low: Unit = 0.02
    high: Unit = 0.98

    @model_validator(mode="before")
    @classmethod
    def _read_off(cls, data: Any) -> Any:
        return _off(data)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high}); write low <= high")
        return self


class EvaluatorSettings(Section):
    """Who scores the documents, and how the scores become a verdict."""

    use: Literal["llm", "local", "cross_encoder", "nli", "similarity"] | ImportPath = "llm"
    aggregate: Literal["max", "mean", "top1"] = "max"
    llm: LlmThresholds = LlmThresholds()
    local: LocalThresholds = LocalThresholds()
    cross_encoder: CrossEncoderThresholds = CrossEncoderThresholds()
    nli: NliThresholds = NliThresholds()
    similarity: SimilarityThresholds = SimilarityThresholds()
    custom: CustomThresholds = CustomThresholds()
    prefilter: PrefilterSettings = PrefilterSettings()

    @property
    def thresholds(self) -> Thresholds:
        """The cut-offs of the evaluator in use."""
        found: Thresholds = getattr(self, self.use, self.custom)
        return found


class KeywordsSettings(Section):
    """The rewriter that needs no model."""

    max_terms: Annotated[int, Field(ge=2, le=50)] = 10


class RewriterSettings(Section):
    """Who writes the search query."""

    use: Literal["llm", "keywords"] | ImportPath = "llm"
    max_chars: Annotated[int, Field(ge=20, le=2_000)] = 400
    keywords: KeywordsSettings = KeywordsSettings()


class TavilySettings(Section):
    """The Tavily search service, or anything that speaks its protocol."""

    base_url: str | None = None
    api_key_env: str = "TAVILY_API_KEY"
    search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = "basic"
    timeout_s: Seconds = 15
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2


class FolderSettings(Section):
    """A folder of documents that stands in for the web."""

    path: str = "examples/web"


class WebSettings(Section):
    """Where to look when the index falls short."""

    use: str | tuple[str, ...] = "tavily"
    merge: bool = False
    prefer: tuple[str, ...] = ()
    max_results: Annotated[int, Field(ge=1, le=20)] = 5
    allow_domains: tuple[str, ...] = ()
    deny_domains: tuple[str, ...] = ()
    approve: bool = False
    tavily: TavilySettings = TavilySettings()
    wikipedia: WikipediaSettings = WikipediaSettings()
    searxng: SearxngSettings = SearxngSettings()
    folder: FolderSettings = FolderSettings()
    pages: PageSettings = PageSettings()
    cache: WebCacheSettings = WebCacheSettings()

    @field_validator("use")
    @classmethod
    def _check_use(cls, use: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = (use,) if isinstance(use, str) else use
        for name in names:
            if use != "off" and name not in WEB_SOURCES and not re.fullmatch(IMPORT_PATH, name):
                known = ", ".join(WEB_SOURCES)
                raise ValueError(f"{name!r} is no web source: write {known}, package.module:name, or off alone")
        if not names:
            raise ValueError("the list is empty: name a source, or write off")
        return use

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources in the order they are asked; none when the web is off."""
        if isinstance(self.use, str):
            return () if self.use == "off" else (self.use,)
        return self.use

    @model_validator(mode="before")
    @classmethod
    def _read_off(cls, data: Any) -> Any:
        return _off(data)


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
    max_strips: Annotated[int, Field(ge=1, le=200)] = 12
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
