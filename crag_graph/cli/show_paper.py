"""What `crag bench-paper` prints and writes."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crag_graph.cli.show_bench import progress, wide_console, write_json
from crag_graph.load import Loaded
from crag_graph.measure.bench.paper_run import PaperPlan, bench_paper
from crag_graph.measure.bench.run import Results


async def bench_paper_and_show(loaded: Loaded, plan: PaperPlan, json_out: Path | None) -> None:
    """Run the benchmark; progress goes to stderr, the tables to stdout."""
    results = await bench_paper(plan, loaded, progress)
    if json_out:
        write_json(json_out, results)
    show_paper(wide_console(), results)


def show_paper(out: Console, results: Results) -> None:
    """Print accuracy beside the paper's, then the other figures, the warnings, and what differs from the paper."""
    out.print(_accuracies(results))
    out.print(f"the paper: {results['published']['source']}", style="dim")
    out.print()
    out.print(_figures(results["measured"]))
    for system, measured in results["measured"].items():
        for kind, count in measured["warnings"].items():
            out.print(f"{system}: {count} × {kind}", markup=False, soft_wrap=True)
    out.print("\nWhat differs from the paper:")
    for part, said in results["differs"].items():
        out.print(f"- {part}: {said}", markup=False, soft_wrap=True)


def _accuracies(results: Results) -> Table:
    data = results["dataset"]
    share = "" if data["asked"] == data["questions"] else f", {data['asked']} of {data['questions']} questions"
    table = _table(f"accuracy in percent, {results['plan']['task']} ({data['name']}{share})", "system")
    for heading in ("generator", "accuracy", "95% interval", "where"):
        table.add_column(heading, no_wrap=True, justify="right" if heading.startswith(("a", "9")) else "left")
    settings = results["settings"]
    generator = settings["llm"]["model"] if settings["generator"]["use"] == "llm" else settings["generator"]["use"]
    for system, measured in results["measured"].items():
        figure = measured["figures"]["accuracy"]
        low, value, high = (f"{100 * figure[key]:.1f}" for key in ("low", "value", "high"))
        table.add_row(system, generator, value, f"{low} to {high}", f"measured here, n={figure['n']}")
    for row in results["published"]["accuracy_percent"]:
        table.add_row(row["system"], row["generator"], f"{row['value']:.1f}", "", "the paper")
    return table


def _figures(measured: dict[str, Any]) -> Table:
    table = _table("per question", "figure")
    for system in measured:
        table.add_column(system, justify="right", no_wrap=True)
    names = next(iter(measured.values()))["figures"]
    for name in [name for name in names if name != "accuracy"]:
        table.add_row(name, *(_cell(found["figures"][name]) for found in measured.values()))
    for verdict in ("correct", "ambiguous", "incorrect"):
        counts = (str(found["verdicts"].get(verdict, 0)) if found["verdicts"] else "–" for found in measured.values())
        table.add_row(f"verdict {verdict}", *counts)
    return table


def _cell(figure: dict[str, float]) -> str:
    return f"{figure['value']:.3g} [{figure['low']:.3g}, {figure['high']:.3g}]"


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    return table
