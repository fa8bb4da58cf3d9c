"""`crag bench`: the same questions to every system, over one index, one web and one model server."""

import hashlib
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from crag_graph.errors import InputError
from crag_graph.factory import build_components
from crag_graph.load import Loaded
from crag_graph.measure.bench.bench_folder import ingest_paragraphs, with_own_index_and_web
from crag_graph.measure.bench.data import Case, Dataset, Split, read_dataset, sample
from crag_graph.measure.bench.outcome import Outcome
from crag_graph.measure.bench.summary import summarise
from crag_graph.measure.bench.systems import PLAIN_K, System, as_evidence, crag, outcome, vanilla
from crag_graph.measure.bench.tutorial import tutorial, uses_model
from crag_graph.measure.bench.web_server import WebServer
from crag_graph.protocols import Components
from crag_graph.rules.fusion import render
from crag_graph.rules.keep import estimate_tokens
from crag_graph.settings import Settings

SYSTEMS: dict[str, Callable[[Settings, Components], System]] = {"crag": crag, "vanilla": vanilla, "tutorial": tutorial}
_VERSIONS = ("crag-graph", "langgraph", "langchain-core", "chromadb", "bm25s", "onnxruntime", "numpy")
Progress = Callable[[str, int, int], None]  # system, questions done, questions in all
Results = dict[str, Any]  # what is written as JSON


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    dataset: Path
    seed: int
    split: Split
    limit: int | None
    systems: tuple[str, ...]


def plan(dataset: Path, seed: int, split: str, limit: int | None, systems: str) -> Plan:
    """Read a plan as it is written on the command line, systems with commas between.

    Raises:
        InputError: a system or the split is unknown.
    """
    named = named_systems(systems, SYSTEMS)
    match split:
        case "article" | "paragraph":
            return Plan(dataset, seed, split, limit, named)
        case _:
            raise InputError(f"--split: {split}; write article or paragraph")


def named_systems(written: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the systems that are named, with commas between, each once.

    Raises:
        InputError: one is unknown, or none is named.
    """
    named = tuple(dict.fromkeys(name.strip() for name in written.split(",") if name.strip()))
    unknown = [name for name in named if name not in known]
    if unknown or not named:
        raise InputError(f"--systems: {', '.join(unknown) or 'none given'}; write any of {', '.join(known)}")
    return named


async def bench(asked: Plan, loaded: Loaded, progress: Progress) -> Results:
    """Deal the knowledge out, ask every system every question, and return figures and traces.

    Raises:
        InputError: the dataset cannot be read, or is too small to split.
        ConfigurationError, ComponentError: what the settings name cannot work, or failed.
    """
    data = read_dataset(asked.dataset, asked.seed, asked.split)
    cases = sample(data.cases, asked.limit, asked.seed)
    if not cases:
        raise InputError(f"{asked.dataset}: there is no answerable question to ask")
    with tempfile.TemporaryDirectory(prefix="crag-bench-") as name, WebServer(data.at("web")) as web:
        settings = with_own_index_and_web(loaded.settings, Path(name), web.origin)
        await ingest_paragraphs(data.at("index"), Path(name) / "corpus", settings)
        skipped = _skipped(asked, settings)
        outcomes = {
            system: await _ask_all(system, settings, cases, progress)
            for system in asked.systems
            if system not in skipped
        }
        plain = await _plain_tokens(settings, cases, outcomes.get("vanilla"))
    return _results(asked, loaded, data, cases, outcomes, plain) | {"skipped": skipped}


def _skipped(asked: Plan, settings: Settings) -> dict[str, str]:
    if "tutorial" in asked.systems and not uses_model(settings):
        return {"tutorial": "it grades with a chat model, and these settings name none (evaluator.use: llm would)"}
    return {}


async def _ask_all(system: str, settings: Settings, cases: Sequence[Case], progress: Progress) -> dict[str, Outcome]:
    """Ask one system everything, one question at a time, with components of its own: it inherits nobody's cache."""
    ask = SYSTEMS[system](settings, build_components(settings))
    found: dict[str, Outcome] = {}
    for done, case in enumerate(cases, 1):
        found[case.id] = await outcome(ask, case, settings.generator.no_evidence)
        progress(system, done, len(cases))
    return found


async def _plain_tokens(
    settings: Settings, cases: Sequence[Case], measured: dict[str, Outcome] | None
) -> dict[str, int]:
    """Return the context tokens of plain RAG per question: from its own run, else from a retrieval like its."""
    if measured is not None:
        return {id_: found["context_tokens"] for id_, found in measured.items()}
    search = build_components(settings).search
    tokens = {}
    for case in cases:
        documents = (await search.ainvoke(case.question))[:PLAIN_K]
        tokens[case.id] = estimate_tokens(render(as_evidence(documents)))
    return tokens


def _results(
    asked: Plan,
    loaded: Loaded,
    data: Dataset,
    cases: Sequence[Case],
    outcomes: dict[str, dict[str, Outcome]],
    plain: dict[str, int],
) -> Results:
    return {
        "command": " ".join(["crag", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "dataset": {
            "name": asked.dataset.name,
            "sha256": hashlib.sha256(asked.dataset.read_bytes()).hexdigest(),
            "paragraphs": len(data.paragraphs),
            "questions": len(data.cases),
            "asked": len(cases),
        },
        "plan": {"seed": asked.seed, "split": asked.split, "limit": asked.limit},
        "profile": loaded.profile,
        "settings": loaded.settings.model_dump(mode="json"),
        "thresholds": loaded.settings.evaluator.thresholds.model_dump(include={"upper", "lower", "keep", "sufficient"}),
        "versions": versions(),
        "systems": {
            system: summarise([(case, found[case.id], plain[case.id]) for case in cases], asked.seed)
            for system, found in outcomes.items()
        },
        "cases": [
            {
                **asdict(case),
                "plain_tokens": plain[case.id],
                "runs": {s: found[case.id] for s, found in outcomes.items()},
            }
            for case in cases
        ],
    }


def versions() -> dict[str, str]:
    """Return the versions that the figures depend on."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _VERSIONS}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
