"""Everything that `crag bench-speed` measures, put together."""

import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from crag_graph.measure.bench import scaling
from crag_graph.measure.bench.model_server import Speed
from crag_graph.measure.bench.prices import Prices, per_thousand
from crag_graph.measure.bench.run import versions
from crag_graph.measure.bench.speed import Bench, Cost, Say, compare_modes
from crag_graph.settings import Settings


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    questions: int
    documents: tuple[int, ...]
    sentences: tuple[int, ...]
    concurrency: tuple[int, ...]
    chunks: tuple[int, ...]


FULL = Extent(10, (5, 10, 20, 50), (5, 10, 20, 50), (1, 8, 64), (1_000, 10_000, 100_000))
QUICK = Extent(2, (5, 20), (5, 20), (1, 8), (1_000,))


async def bench_speed(settings: Settings, speed: Speed, extent: Extent, prices: Prices, say: Say) -> dict[str, Any]:
    """Return costs per mode and path, scaling curves, index sizes and prices per thousand questions.

    Raises:
        ConfigurationError, ComponentError: what the settings name cannot work, or failed.
    """
    sizes = await scaling.by_index_size(extent.chunks, say)
    async with Bench(settings, speed) as served:
        costs = await compare_modes(served, extent.questions, say)
        points = await scaling.by_documents(served, extent.documents, extent.questions, say)
        points += await scaling.by_concurrency(served, extent.concurrency, say)
    points += await scaling.by_sentences(settings, speed, extent.sentences, extent.questions, say)
    return {
        "kind": "speed",
        "command": " ".join(["crag", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "speed": asdict(speed),
        "costs": costs,
        "points": points,
        "index_sizes": sizes,
        "prices": {"date": prices.date, "currency": prices.currency, "per_thousand": _priced(costs, prices)},
    }


def _priced(costs: list[Cost], prices: Prices) -> list[dict[str, Any]]:
    return [
        {
            "model": price.model,
            "mode": cost["mode"],
            "path": cost["path"],
            "price": per_thousand(price, cost["tokens_in"], cost["tokens_out"]),
        }
        for price in prices.models
        for cost in costs
    ]
