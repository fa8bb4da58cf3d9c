"""How cost grows: with documents, with their length, with questions at one time, and with the size of the index."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from crag_graph.errors import InputError
from crag_graph.factory import build_components
from crag_graph.measure.bench.made_up import question
from crag_graph.measure.bench.model_server import Speed
from crag_graph.measure.bench.speed import (
    MODES,
    PAGES,
    Bench,
    Mode,
    Say,
    changed_settings,
    quantile95,
    summed,
    timed,
)
from crag_graph.settings import Settings

_SCALED = [mode for mode in MODES if mode.name in ("crag llm", "crag one pass", "crag local")]


class Point(TypedDict):
    """One point of one curve."""

    curve: str
    mode: str
    x: float
    seconds_p50: float
    seconds_p95: float
    model_calls: float
    tokens_in: float
    per_second: float  # questions answered per second of wall time


class IndexSize(TypedDict):
    """What an index of so many chunks takes."""

    chunks: int
    build_s: float
    memory_mb: float  # resident set of the process that searches
    query_p50_ms: float
    query_p95_ms: float


async def by_documents(settings: Settings, counts: Sequence[int], questions: int, say: Say) -> list[Point]:
    """Return the cost for so many graded documents per question."""
    points = []
    for count in counts:
        change = {"retrieve": {"top_k": count, "fetch_k": max(count, settings.retrieve.fetch_k)}}
        for mode in _SCALED:
            say(f"{count} documents, {mode.name}")
            points.append(await _point("documents", mode, count, changed_settings(settings, change), questions, 1))
    return points


async def by_sentences(
    configured: Settings, speed: Speed, counts: Sequence[int], questions: int, say: Say
) -> list[Point]:
    """Return the cost for documents of so many sentences: the more sentences, the more strips."""
    points = []
    for count in counts:
        async with Bench(configured, speed, sentences=count) as settings:
            for mode in _SCALED:
                say(f"{count} sentences per document, {mode.name}")
                points.append(await _point("sentences per document", mode, count, settings, questions, 1))
    return points


async def by_concurrency(settings: Settings, counts: Sequence[int], say: Say) -> list[Point]:
    """Return the cost with so many questions at one time."""
    points = []
    for count in counts:
        for mode in _SCALED:
            say(f"{count} at one time, {mode.name}")
            points.append(await _point("questions at one time", mode, count, settings, 2 * count, count))
    return points


async def _point(curve: str, mode: Mode, x: int, settings: Settings, questions: int, at_once: int) -> Point:
    changed = changed_settings(settings, mode.change)
    ask = mode.system(changed, build_components(changed))
    await ask(question(0))
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> Any:
        async with gate:
            return await timed(ask, question(1 + number % (PAGES - 1)))

    started = time.perf_counter()
    runs = await asyncio.gather(*(one(n) for n in range(questions)))
    wall = time.perf_counter() - started
    cost = summed(mode.name, "index", runs)
    return Point(
        curve=curve,
        mode=mode.name,
        x=x,
        seconds_p50=cost["seconds_p50"],
        seconds_p95=cost["seconds_p95"],
        model_calls=cost["model_calls"],
        tokens_in=cost["tokens_in"],
        per_second=questions / wall,
    )


async def by_index_size(counts: Sequence[int], say: Say) -> list[IndexSize]:
    """Return memory and query time per index size, each measured in a process of its own.

    Raises:
        InputError: the process failed; what it said is in the message.
    """
    sizes: list[IndexSize] = []
    for count in counts:
        say(f"index of {count} chunks")
        command = (sys.executable, "-m", "crag_graph.measure.bench.index_size", str(count))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        if process.returncode:
            raise InputError(f"an index of {count} chunks could not be measured: {err.decode(errors='replace')[-500:]}")
        sizes.append(json.loads(out))
    return sizes


def index_size(chunks: int, build_s: float, memory_mb: float, seconds: Sequence[float]) -> IndexSize:
    """Return the figures of one index from the seconds of its queries."""
    return IndexSize(
        chunks=chunks,
        build_s=build_s,
        memory_mb=memory_mb,
        query_p50_ms=1000 * statistics.median(seconds),
        query_p95_ms=1000 * quantile95(seconds),
    )
