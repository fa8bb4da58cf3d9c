"""What `crag bench` prints and writes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crag_graph.errors import InputError
from crag_graph.load import Loaded
from crag_graph.measure.bench.compare import Finding, compare, parse_rule
from crag_graph.measure.bench.run import Plan, Results, bench


async def bench_and_show(
    loaded: Loaded, plan: Plan, json_out: Path | None, html_out: Path | None, speed: Path | None
) -> None:
    """Run the benchmark; progress goes to stderr, the table to stdout."""
    results = await bench(plan, loaded, progress)
    if json_out:
        write_json(json_out, results)
    if html_out:
        from crag_graph.measure.bench.report import report

        write_text(html_out, report(results, _read(speed, "costs") if speed else None))
    show_figures(wide_console(), results)


def wide_console() -> Console:
    """Return a console on stdout that does not squeeze tables when it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=200)


def progress(system: str, done: int, total: int) -> None:
    """Say on stderr how many questions a system has answered."""
    if sys.stderr.isatty() or done == total:
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{system}: {done} of {total}{end}")
        sys.stderr.flush()


def show_figures(out: Console, results: Results) -> None:
    """Print one table per system: metrics down, classes across."""
    for system, groups in results["systems"].items():
        table = Table(title=system, title_justify="left", box=None, pad_edge=False)
        table.add_column("metric", no_wrap=True)
        for group, figures in groups.items():
            table.add_column(f"{group} (n={figures['seconds_p50']['n']})", justify="right", no_wrap=True)
        for metric in dict.fromkeys(name for figures in groups.values() for name in figures):
            cells = [_cell(figures.get(metric), interval=group == "overall") for group, figures in groups.items()]
            table.add_row(metric, *cells)
        out.print(table)
    for system, reason in results["skipped"].items():
        out.print(f"{system} skipped: {reason}")


def _cell(figure: Any, *, interval: bool) -> str:
    if figure is None:
        return ""
    return f"{figure['value']:.3g}" + (f" [{figure['low']:.3g}, {figure['high']:.3g}]" if interval else "")


def compare_and_show(old: Path, new: Path, fail_on: Sequence[str]) -> bool:
    """Print what the gate found; return whether it passed.

    Raises:
        InputError: a file is not what `crag bench` writes, or no metric is named.
    """
    if not fail_on:
        raise InputError("--compare needs at least one --fail-on METRIC[:TOLERANCE]")
    findings = compare(_read(old), _read(new), [parse_rule(written) for written in fail_on])
    out = Console(highlight=False)
    for finding in findings:
        out.print(_line(finding), markup=False, soft_wrap=True)
    return not any(finding.failed for finding in findings)


def _line(finding: Finding) -> str:
    old, new = ("none" if value is None else f"{value:.4g}" for value in (finding.old, finding.new))
    return f"{'FAIL' if finding.failed else 'ok':<5}{finding.rule.name}: {old} -> {new}  {finding.failed}".rstrip()


def _read(path: Path, key: str = "systems") -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or key not in found:
        raise InputError(f"{path}: not a file that `crag bench{'-speed' if key == 'costs' else ''} --json` writes")
    return found


def write_json(path: Path, value: Any) -> None:
    """Write JSON, with NaN where a figure is none: the gate refuses it."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
