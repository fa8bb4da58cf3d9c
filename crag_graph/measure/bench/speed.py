"""`crag bench-speed`: wall time, calls and tokens per question when a model call takes a stated time.

Questions are about made-up stations; half of them stand in the index, the others only on the served web. The model
judges by rule, so every system takes the path that the question calls for.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from crag_graph.factory import build_components
from crag_graph.measure.bench.bench_folder import ingest_paragraphs, with_own_index_and_web
from crag_graph.measure.bench.made_up import SENTENCES, page, question
from crag_graph.measure.bench.model_server import ModelServer, Speed
from crag_graph.measure.bench.systems import State, System, answered, as_evidence, crag, metered, vanilla
from crag_graph.measure.bench.tutorial import tutorial
from crag_graph.measure.bench.web_server import WebServer
from crag_graph.protocols import Components
from crag_graph.settings import Settings

PAGES = 60  # in the index, and as many on the web
Say = Callable[[str], None]
Change = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Mode:
    """One way to answer: a system, and what it changes in the settings."""

    name: str
    system: Callable[[Settings, Components], System]
    change: Change


class Cost(TypedDict):
    """What a question cost on one path, over several questions."""

    mode: str
    path: str  # index: the evidence is there; web: it is not
    questions: int
    verdicts: dict[str, int]
    seconds_p50: float
    seconds_p95: float
    model_calls: float
    tokens_in: float
    tokens_out: float
    by_node: dict[str, float]  # seconds


def bare_generate(settings: Settings, kit: Components) -> System:
    """Return the floor under every system: the one generating call, over evidence at hand."""

    async def run(state: State) -> State:
        evidence = as_evidence([_document(page(1, "index").text)])
        found: State = {"verdict": "correct", "reason": "evidence at hand"}
        return found | await answered(state["question"], evidence, kit, settings)

    return metered("generate", run)


# The made-up pages are all alike but for a name and numbers, so their scores part higher than those of real documents.
_STRICT = {"upper": 0.7}
MODES = (
    Mode("generate", bare_generate, {}),
    Mode("crag llm", crag, {}),
    Mode("crag one pass", crag, {"evaluator": {"llm": {"one_pass": True}}}),
    Mode("crag prefilter", crag, {"evaluator": {"prefilter": {"use": "local"}}}),
    Mode("crag local", crag, {"evaluator": {"use": "local", "local": _STRICT}, "refine": {"filter": "evaluator"}}),
    Mode("vanilla", vanilla, {}),
    Mode("tutorial", tutorial, {}),
)


async def compare_modes(settings: Settings, questions: int, say: Say) -> list[Cost]:
    """Ask every mode the same questions, one after the other, on both paths."""
    costs = []
    for mode in MODES:
        ask, paths = _system(mode, settings), ("index",) if mode.name in ("generate", "vanilla") else ("index", "web")
        for path in paths:
            say(f"{mode.name}, {path}")
            costs.append(await _cost(mode.name, ask, path, questions))
    return costs


def _system(mode: Mode, settings: Settings) -> System:
    changed = changed_settings(settings, mode.change)
    return mode.system(changed, build_components(changed))


async def _cost(name: str, ask: System, path: str, questions: int) -> Cost:
    first = 0 if path == "index" else PAGES
    await ask(question(first))  # connections are opened and models loaded once per process, not per question
    runs = [await timed(ask, question(first + 1 + n % (PAGES - 1))) for n in range(questions)]
    return summed(name, path, runs)


async def timed(ask: System, asked: str) -> tuple[State, float]:
    """Ask, and return the state with the wall time in seconds."""
    started = time.perf_counter()
    state = await ask(asked)
    return state, time.perf_counter() - started


def summed(name: str, path: str, runs: Sequence[tuple[State, float]]) -> Cost:
    """Return the cost of several runs of one mode."""
    seconds, usages = [run[1] for run in runs], [run[0]["usage"] for run in runs]
    verdicts = [run[0]["verdict"] for run in runs]
    nodes = {node for usage in usages for node in usage["by_node"]}
    return Cost(
        mode=name,
        path=path,
        questions=len(runs),
        verdicts={verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)},
        seconds_p50=statistics.median(seconds),
        seconds_p95=quantile95(seconds),
        model_calls=statistics.mean(usage["model_calls"] for usage in usages),
        tokens_in=statistics.mean(usage["tokens_in"] for usage in usages),
        tokens_out=statistics.mean(usage["tokens_out"] for usage in usages),
        by_node={
            node: statistics.mean(usage["by_node"].get(node, {"seconds": 0.0})["seconds"] for usage in usages)
            for node in sorted(nodes)
        },
    )


def quantile95(values: Sequence[float]) -> float:
    """Return the 95th percentile, by the nearest rank.

    >>> quantile95([1.0, 2.0, 3.0])
    3.0
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def changed_settings(settings: Settings, change: Change) -> Settings:
    """Return the settings with some values replaced, section by section."""
    return Settings.model_validate(_merged(settings.model_dump(), change))


def _merged(values: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return values | {
        key: _merged(values[key], new) if isinstance(new, dict) and isinstance(values.get(key), dict) else new
        for key, new in change.items()
    }


class Bench:
    """Servers and settings of one measurement: enter it, then ask.

    Everything runs on loopback: chat model and web are served, the embedder is the local one.
    """

    def __init__(self, settings: Settings, speed: Speed, sentences: int = SENTENCES) -> None:
        self._configured = settings
        self._sentences = sentences
        self._folder = tempfile.TemporaryDirectory(prefix="crag-speed-")
        self._web = WebServer([page(PAGES + n, "web", sentences) for n in range(PAGES)])
        self._model = ModelServer(speed)

    async def __aenter__(self) -> Settings:
        self._web.__enter__()
        self._model.__enter__()
        folder = Path(self._folder.name)
        settings = changed_settings(self._configured, _all_llm(self._model.base_url))
        settings = with_own_index_and_web(settings, folder, self._web.origin)
        pages = [page(n, "index", self._sentences) for n in range(PAGES)]
        await ingest_paragraphs(pages, folder / "corpus", settings)
        return settings

    async def __aexit__(self, *_: object) -> None:
        self._model.__exit__()
        self._web.__exit__()
        await asyncio.to_thread(self._folder.cleanup)


def _all_llm(base_url: str) -> Change:
    """Return the change that hands every step to the served model; modes take steps back from it."""
    served = {"base_url": base_url, "api_key_env": None, "model": "served", "small_model": None, "cache": None}
    return {
        "llm": {**served, "structured_output": "json_schema", "max_concurrency": 256},
        "embeddings": {"use": "local"},
        "ingest": {"chunk_chars": 20_000, "chunk_overlap": 0},  # a page is a chunk, however long
        "evaluator": {"use": "llm", "llm": {"one_pass": False}, "prefilter": {"use": "off"}},
        "rewriter": {"use": "llm"},
        "refine": {"filter": "llm"},
        "generator": {"use": "llm"},
    }


def _document(text: str) -> Any:
    from langchain_core.documents import Document

    return Document(text, id="at-hand", metadata={"origin": "internal", "title": "Station"})
