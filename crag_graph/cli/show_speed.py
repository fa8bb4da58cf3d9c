"""What `crag bench-speed` prints and writes."""

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crag_graph.cli.show_bench import wide_console, write_json
from crag_graph.load import Loaded
from crag_graph.measure.bench.model_server import Speed
from crag_graph.measure.bench.prices import read_prices
from crag_graph.measure.bench.speed_run import FULL, QUICK, bench_speed
from crag_graph.resources import resource


async def bench_speed_and_show(
    loaded: Loaded, speed: Speed, prices: Path | None, json_out: Path | None, *, quick: bool
) -> None:
    """Measure; progress goes to stderr, tables to stdout."""
    table = read_prices(prices or resource("configs", "prices/example.yaml"))
    results = await bench_speed(loaded.settings, speed, QUICK if quick else FULL, table, _say)
    if json_out:
        write_json(json_out, results)
    show_speed(wide_console(), results)


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def show_speed(out: Console, results: dict[str, Any]) -> None:
    """Print costs, prices, curves and index sizes as tables."""
    speed = results["speed"]
    priced = results["prices"]
    cost = _table(
        f"per question; a call takes {1000 * speed['call_s']:g} ms and a token {1000 * speed['token_s']:g} ms",
        ["mode", "path", "verdicts", "p50 s", "p95 s", "calls", "tokens in", "tokens out", "of tutorial's time"],
    )
    tutorial = {row["path"]: row["seconds_p50"] for row in results["costs"] if row["mode"] == "tutorial"}
    for row in results["costs"]:
        share = row["seconds_p50"] / tutorial[row["path"]]
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row["verdicts"].items())
        figures = [f"{row[key]:.3g}" for key in ("seconds_p50", "seconds_p95", "model_calls")]
        tokens = [f"{row[key]:.0f}" for key in ("tokens_in", "tokens_out")]
        cost.add_row(row["mode"], row["path"], verdicts, *figures, *tokens, f"{share:.3f}")
    out.print(cost)
    money = _table(
        f"{priced['currency']} per thousand questions, prices of {priced['date']}", ["model", "mode", "path", ""]
    )
    for row in priced["per_thousand"]:
        money.add_row(row["model"], row["mode"], row["path"], f"{row['price']:.2f}")
    out.print(money)
    curves = _table("scaling", ["curve", "mode", "x", "p50 s", "p95 s", "calls", "tokens in", "questions/s"])
    for row in results["points"]:
        keys = ("x", "seconds_p50", "seconds_p95", "model_calls", "tokens_in", "per_second")
        curves.add_row(row["curve"], row["mode"], *(f"{row[key]:.4g}" for key in keys))
    out.print(curves)
    sizes = _table("index", ["chunks", "built in s", "memory MB", "query p50 ms", "query p95 ms"])
    for row in results["index_sizes"]:
        sizes.add_row(
            *(f"{row[key]:.4g}" for key in ("chunks", "build_s", "memory_mb", "query_p50_ms", "query_p95_ms"))
        )
    out.print(sizes)


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
