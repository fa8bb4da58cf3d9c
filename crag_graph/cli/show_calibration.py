"""What `crag calibrate` does and shows: progress on stderr; tables, a picture in characters and the YAML on stdout."""

import asyncio
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crag_graph.cli import print_json
from crag_graph.cli.show_measure import name, progress, write
from crag_graph.errors import InputError
from crag_graph.factory import build_graders
from crag_graph.measure.calibrating import SHIFT, Report, calibrate, yaml_fragment
from crag_graph.measure.pairs import read_pairs
from crag_graph.measure.plot import need_matplotlib, plot
from crag_graph.settings import Settings, Thresholds

MEANS = {
    "upper": "documents: at or above, correct",
    "lower": "documents: below, thrown away",
    "keep": "strips: below, dropped",
    "sufficient": "strips: one must reach it",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 50, 3  # of a histogram, in characters


async def calibrate_and_show(
    settings: Settings, path: Path, *, cost: float, seed: int, picture: Path | None, out: Path | None, as_json: bool
) -> None:
    """Calibrate, write what is asked for, and print the report."""
    pairs = read_pairs(path)
    _check_writable(out)
    _check_writable(picture)
    if picture:
        need_matplotlib()
    graders = build_graders(settings)
    with progress(path.name) as told:
        report = await calibrate(path, pairs, graders, settings, cost=cost, seed=seed, progress=told)
    if picture:
        await asyncio.to_thread(plot, report, picture)
    if out:
        head = f"# Found by `crag calibrate` at cost {cost:g}: copy this block into your config.\n"
        await asyncio.to_thread(write, out, head + yaml_fragment(report.settings))
    if as_json:
        print_json(report.plain())
    else:
        show(Console(highlight=False), report, settings.evaluator.thresholds, out)


def _check_writable(path: Path | None) -> None:
    """Refuse a file in a folder that does not exist, before the long part begins."""
    if path and not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")


def show(console: Console, report: Report, now: Thresholds, out: Path | None) -> None:
    """Print the report as a person should read it."""
    console.print(Text.assemble(("Cut-offs ", "bold"), f"for {name(report.identity)}"))
    ungraded = f", {report.ungraded} ungraded" if report.ungraded else ""
    counts = f"{report.pairs} pairs{ungraded}, {report.questions} questions; auc {report.auc:.3f}"
    console.print(Text(f"{counts}; a wrong correct hurts as much as {report.cost:g} needless searches\n", style="dim"))
    console.print(_thresholds(report, now))
    console.print()
    console.print(_histograms(report))
    console.print()
    console.print(_trade_off(report))
    console.print()
    for line in _doubts(report):
        console.print(line)
    if out:
        console.print(Text(f"\nWritten to {out}: copy its block into your config.", style="bold"))
    else:
        console.print(Text("\nTo put them in force, copy into your config:\n", style="bold"))
        console.print(Text(textwrap.indent(yaml_fragment(report.settings), "  ")), soft_wrap=True)


def _thresholds(report: Report, now: Thresholds) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "now", "found", "95% of resamples"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_column("", style="dim")
    for key, threshold in report.thresholds.items():
        low_high = "as configured" if threshold.interval is None else "{:.2f} – {:.2f}".format(*threshold.interval)
        table.add_row(
            key, f"{getattr(now, key):.2f}", Text(f"{threshold.value:.3f}", style="bold cyan"), low_high, MEANS[key]
        )
    return table


def _histograms(report: Report) -> Text:
    """Return where the scores of both labels lie, and the cut-offs below them."""
    text = Text.assemble(("Where the labels lie", "bold"), ("  (height: square root of the share)\n", "dim"))
    for label, title, style in ((1, "help", "green"), (0, "do not help", "red")):
        rows = histogram([score for pair, score in report.graded if pair.label == label])
        for place, row in enumerate(rows):
            text.append(f"{title if place == len(rows) - 1 else '':>12} ")
            text.append(f"{row}\n", style=style)
    marks = [" "] * (_WIDTH + 1)
    for key in ("lower", "upper"):
        marks[min(int(report.thresholds[key].value * _WIDTH), _WIDTH - 1)] = "▲"
    text.append(f"{'':>12} {''.join(marks).rstrip()}  lower, upper\n", style="cyan")
    text.append(f"{'':>12} 0{'score':^{_WIDTH - 2}}1", style="dim")
    return text


def histogram(scores: Sequence[float], width: int = _WIDTH, height: int = _HEIGHT) -> list[str]:
    """Return the distribution of scores in [0, 1] as rows of block characters, top row first.

    >>> histogram([0.1, 0.1, 0.1, 0.1, 0.9], width=2, height=1)
    ['█▄']
    """
    counts = [0] * width
    for score in scores:
        counts[min(int(score * width), width - 1)] += 1
    top = max(counts)
    levels = [math.ceil(8 * height * math.sqrt(count / top)) for count in counts]
    return ["".join(_BLOCKS[min(max(level - 8 * row, 0), 8)] for level in levels) for row in reversed(range(height))]


def _trade_off(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title="What a cost leads to", title_justify="left")
    table.title_style = "bold"
    for heading in ("cost", "upper", "lower", "false correct", "needless search", "evidence lost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.trade_off:
        table.add_row(
            f"{row.cost:g}",
            f"{row.upper:.2f}",
            f"{row.lower:.2f}",
            f"{row.false_correct:.1%}",
            f"{row.needless_search:.1%}",
            f"{row.evidence_lost:.1%}",
            style="bold cyan" if row.cost == report.cost else "",
        )
    return table


def _doubts(report: Report) -> list[Text]:
    if report.is_calibrated:
        meaning = "already calibrated on these pairs, a score can be read as a probability"
    else:
        meaning = "on these pairs a score is no probability; the cut-offs do not need it to be one"
    up, down = report.changing["up"], report.changing["down"]
    lines = [
        f"Calibration error {report.ece_before:.3f}, held out after isotonic fit {report.ece_after:.3f}: {meaning}.",
        f"If all scores moved by +{SHIFT:.2f}, {up} of {report.questions} questions would change their verdict; "
        f"by -{SHIFT:.2f}, {down}.",
        "False correct: questions whose useless texts alone would be called correct. Needless search: questions with a "
        "helpful text that are searched all the same. Evidence lost: those whose helpful texts are thrown away. "
        "Counted on the pairs that the cut-offs were found on.",
    ]
    return [
        Text(lines[0]),
        Text(lines[1]),
        *(Text(f"! {note}", style="yellow") for note in report.notes),
        Text(lines[2], style="dim"),
    ]
