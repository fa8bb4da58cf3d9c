"""`crag bench-paper`: a data set of the CRAG paper, with the passages that were retrieved for it, to every system.

Only the retriever is replaced: the passages of a question are what the search returns for it. The web, the evaluator,
the rewriter and the generator are the configured ones.
"""

import hashlib
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.evaluators.identity import identify
from crag_graph.errors import ConfigurationError, InputError
from crag_graph.factory import build_components
from crag_graph.load import Loaded
from crag_graph.measure.bench.data import sample
from crag_graph.measure.bench.outcome import Trace
from crag_graph.measure.bench.paper import Item, Passage, read_items
from crag_graph.measure.bench.paper_tasks import Instructed, Task, correct, instruct, misfit
from crag_graph.measure.bench.published import SOURCE, TABLE
from crag_graph.measure.bench.run import Progress, Results, named_systems, versions
from crag_graph.measure.bench.summary import Figure, quantile, ratio
from crag_graph.measure.bench.systems import System, crag, traced, vanilla
from crag_graph.protocols import Components, Search
from crag_graph.rules.fusion import unique
from crag_graph.rules.passage import passage_text
from crag_graph.settings import Settings


class Run(Trace):
    """One run of one system on one question of the paper."""

    scores: list[float | None]  # what the evaluator gave the passages, in order; none where there is no evaluator
    correct: bool


@dataclass(frozen=True)
class PaperPlan:
    """What to measure."""

    file: Path
    task: Task
    retrieved: Path | None  # passages instead of the file's own
    systems: tuple[str, ...]
    limit: int | None
    seed: int


SYSTEMS: dict[str, Callable[[Settings, Components], System]] = {
    "crag": crag,
    "vanilla": lambda settings, kit: vanilla(settings, kit, settings.retrieve.top_k),
}


def paper_plan(file: Path, task: str, retrieved: Path | None, systems: str, limit: int | None, seed: int) -> PaperPlan:
    """Read a plan as it is written on the command line, systems with commas between.

    Raises:
        InputError: the task or a system is unknown.
    """
    named = named_systems(systems, SYSTEMS)
    match task:
        case "popqa" | "pubhealth" | "arc":
            return PaperPlan(file, task, retrieved, named, limit, seed)
        case _:
            raise InputError(f"--task: {task}; write popqa, pubhealth or arc")


async def bench_paper(asked: PaperPlan, loaded: Loaded, progress: Progress) -> Results:
    """Ask every system every question, and return figures and traces beside what the paper reports.

    Raises:
        InputError: the file cannot be read, or a line of it cannot be counted in this task.
        ConfigurationError, ComponentError: what the settings name cannot work, or failed.
    """
    every = read_items(asked.file, asked.retrieved)
    for item in every:
        if said := misfit(asked.task, item):
            raise InputError(f"{item.where}: {said}; is --task {asked.task} right?")
    items = sample(every, asked.limit, asked.seed)
    _unattended(loaded.settings)
    with tempfile.TemporaryDirectory(prefix="crag-bench-") as folder:
        settings = _with_empty_index(loaded.settings, folder)
        runs, web_off = {}, ""
        for system in asked.systems:
            kit = build_components(settings)  # of its own: no system inherits another's cache
            web_off = kit.web_off
            runs[system] = await _ask_all(system, kit, settings, asked.task, items, progress)
    return _results(asked, loaded, len(every), items, runs) | {"differs": _differs(loaded.settings, web_off)}


def given(item: Item) -> Search:
    """Return the search that finds the passages of one item, in their order, each once, whatever it is asked."""
    documents = unique(_document(item, passage) for passage in item.passages)
    return RunnableLambda(lambda _: documents, name="given")


def _document(item: Item, passage: Passage) -> Document:
    named = {"origin": "internal", "source": item.where.rpartition(":")[0], "title": passage.title, "heading": ""}
    document = Document(passage.text, metadata={**named, "start": 0})
    document.id = hashlib.sha256(passage_text(document).encode(errors="replace")).hexdigest()[:32]
    return document


def _unattended(settings: Settings) -> None:
    """Refuse settings that wait for a person: nobody sits beside a thousand questions."""
    if settings.web.approve:
        raise ConfigurationError("web.approve is true, and nobody is there to approve: set it to false for this run")
    if settings.corrections.on_insufficient == "ask":
        raise ConfigurationError("corrections.on_insufficient is ask, and nobody is there: set it to abstain")


def _with_empty_index(settings: Settings, folder: str) -> Settings:
    """Return the settings without an index of the user's own: its words would shape the queries of `keywords`."""
    values = settings.model_dump()
    values["index"] |= {"path": folder, "host": None}
    values["web"]["remember"] |= {"collection": None}  # what one question found is not kept for the next
    values["llm"]["cache"] = None
    values["generator"]["on_failure"] = "error"  # quotes would earn the points of a model that failed
    return Settings.model_validate(values)


async def _ask_all(
    system: str, kit: Components, settings: Settings, task: Task, items: Sequence[Item], progress: Progress
) -> list[Run]:
    """Ask one system everything, one question at a time; an error that it raises ends the run, as in `crag bench`."""
    runs = []
    for done, item in enumerate(items, 1):
        own = replace(
            kit,
            search=given(item),
            generator=Instructed(kit.generator, task, item),
            unsupported=Instructed(kit.unsupported, task, item) if kit.unsupported else None,
        )
        ask = SYSTEMS[system](settings, own)
        state, trace = await traced(ask, item.question, settings.generator.no_evidence)
        scores = [grade["score"] for grade in state.get("grades", [])]
        right = not trace["abstained"] and correct(task, trace["answer"], item.answers)
        runs.append(Run(**trace, scores=scores, correct=right))
        progress(system, done, len(items))
    return runs


def _results(
    asked: PaperPlan, loaded: Loaded, questions: int, items: Sequence[Item], runs: dict[str, list[Run]]
) -> Results:
    settings = loaded.settings
    return {
        "command": " ".join(["crag", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "dataset": {
            "name": asked.file.name,
            "sha256": hashlib.sha256(asked.file.read_bytes()).hexdigest(),
            "questions": questions,
            "asked": len(items),
        },
        "plan": {
            "task": asked.task,
            "retrieved": asked.retrieved.name if asked.retrieved else None,
            "seed": asked.seed,
            "limit": asked.limit,
        },
        "profile": loaded.profile,
        "settings": settings.model_dump(mode="json"),
        "thresholds": settings.evaluator.thresholds.model_dump(include={"upper", "lower", "keep", "sufficient"}),
        "versions": versions(),
        "measured": {system: _measured(system, found, asked.seed) for system, found in runs.items()},
        "published": {
            "source": SOURCE,
            "accuracy_percent": [
                {"system": row.system, "generator": row.generator, "value": row.accuracy(asked.task)} for row in TABLE
            ],
        },
        "cases": [
            {
                "where": item.where,
                "question": item.question,
                "asked": instruct(asked.task, item),
                "golds": item.answers,
                "runs": {system: found[n] for system, found in runs.items()},
            }
            for n, item in enumerate(items)
        ],
    }


def _measured(system: str, runs: Sequence[Run], seed: int) -> dict[str, Any]:
    def mean(values: Sequence[float]) -> Figure:
        return ratio(values, [1.0] * len(values), seed)

    seconds = [run["seconds"] for run in runs]
    return {
        "figures": {
            "accuracy": mean([run["correct"] for run in runs]),
            "grounded": mean([run["grounded"] for run in runs]),
            "abstained": mean([run["abstained"] for run in runs]),
            "context_tokens": mean([run["context_tokens"] for run in runs]),
            "model_calls": mean([run["usage"]["model_calls"] for run in runs]),
            "tokens_in": mean([run["usage"]["tokens_in"] for run in runs]),
            "tokens_out": mean([run["usage"]["tokens_out"] for run in runs]),
            "seconds_p50": quantile(seconds, 0.5, seed),
            "seconds_p95": quantile(seconds, 0.95, seed),
        },
        "verdicts": dict(Counter(run["verdict"] for run in runs)) if system == "crag" else {},  # plain RAG has no gate
        "warnings": dict(Counter(kind(warning) for run in runs for warning in run["warnings"]).most_common()),
    }


def kind(warning: str) -> str:
    """Return what kind of warning it is: its words before the first colon, without its numbers.

    >>> kind("2 of 10 documents are ungraded: the model said nothing of them")
    'n of n documents are ungraded'
    """
    return re.sub(r"\d+", "n", warning.partition(":")[0])


def _differs(settings: Settings, web_off: str) -> dict[str, str]:
    """Return part by part what is in use here and what the paper used: accuracies compare only as far as these do."""
    who, model = identify(settings, ""), settings.llm.model
    cut = settings.evaluator.thresholds
    written = f"{model} at temperature {settings.llm.temperature:g}" if settings.generator.use == "llm" else ""
    web = f"off ({web_off})" if web_off else f"{', '.join(settings.web.sources)}, {settings.web.max_results} hits"
    keywords = settings.llm.small_model or model if settings.rewriter.use == "llm" else ""
    return {
        "generator": f"{_named(settings.generator.use, written)}; the paper: LLaMA2-hf-7b and SelfRAG-LLaMA2-7b",
        "evaluator": (
            f"{_named(who.evaluator, who.model)}, upper {cut.upper:g}, lower {cut.lower:g} on a scale of 0 to 1; "
            "the paper: T5-large, fine-tuned on PopQA, with cut-offs per data set (configs/paper-*.yaml)"
        ),
        "strips": (
            f"{settings.refine.filter} judges {settings.refine.mode}, {settings.refine.max_strips} are kept; "
            "the paper: its evaluator, 5 are kept"
        ),
        "rewriter": f"{_named(settings.rewriter.use, keywords)}; the paper: ChatGPT",
        "web": f"{web}; the paper: the web of its day, by the Google Search API, 5 hits, Wikipedia preferred",
        "passages": (
            f"the first {settings.retrieve.top_k} of a question (retrieve.top_k); the paper's code: the first 10"
        ),
        "answers": (
            "cite their evidence, and an abstention counts as wrong. PubHealth counts the first truth value that is "
            "said, ARC the stated letter; the paper's code counts any answer that holds the gold answer as text"
        ),
    }


def _named(use: str, model: str) -> str:
    return f"{use}, {model}" if model else use
