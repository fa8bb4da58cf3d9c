"""What `crag measure` and `crag pairs` do and show: progress on stderr, the result on stdout."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from crag_graph.cli import print_json
from crag_graph.components.evaluators.identity import Identity
from crag_graph.errors import InputError
from crag_graph.factory import build_graders
from crag_graph.measure.measuring import Progress as Told
from crag_graph.measure.measuring import figures, score_pairs
from crag_graph.measure.own_pairs import own_pairs, read_passages
from crag_graph.measure.pairs import read_pairs
from crag_graph.settings import Settings


async def measure_and_show(settings: Settings, files: Sequence[Path], *, as_json: bool) -> None:
    """Score every file and print its figures."""
    pairs = {path: read_pairs(path) for path in files}
    graders, cut = build_graders(settings), settings.evaluator.thresholds
    rows = []
    for path, found in pairs.items():
        with progress(path.name) as told:
            scored = await score_pairs(graders.documents, found, told)
        rows.append({"file": str(path), **figures(scored, cut)})
    who = {**graders.identity._asdict(), "upper": cut.upper, "lower": cut.lower, "accuracy_at": "upper"}
    if as_json:
        print_json({**who, "files": rows})
        return
    out = Console(highlight=False)
    out.print(_figures(rows))
    said = (
        f"scored by {name(graders.identity)}; accuracy: a text counts as relevant at or above upper ({cut.upper:g}), "
        "where it is trusted without a search; balanced: the mean of the accuracies of both labels"
    )
    out.print(Text(said, style="dim"))


def name(identity: Identity) -> str:
    """Return who scores, in one line."""
    return ", ".join(part for part in identity if part)


def _figures(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    shares = ("auc", "accuracy", "balanced_accuracy", "ece")
    for heading in ("pairs", *shares, "ms_per_pair", *(["ungraded"] if any(row["ungraded"] for row in rows) else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Path(row["file"]).name,
            str(row["pairs"]),
            *("–" if row[share] is None else f"{row[share]:.3f}" for share in shares),
            f"{row['ms_per_pair']:.1f}",
            *([str(row["ungraded"])] if len(table.columns) == 8 else []),
        )
    return table


async def make_and_show(
    settings: Settings, place: Path | None, out: Path, *, seed: int, limit: int, as_json: bool
) -> None:
    """Make the pairs, write them, and say what they are."""
    passages = await read_passages(settings, place)
    rows = await asyncio.to_thread(own_pairs, passages, seed, limit)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    await asyncio.to_thread(write, out, lines)
    kinds = Counter(row["kind"] for row in rows)
    counts = {"passages": len(passages), "pairs": len(rows), "questions": kinds["own"], "kinds": kinds, "out": str(out)}
    if as_json:
        print_json(counts)
        return
    console = Console(highlight=False)
    console.print(
        Text.assemble(
            (f"{len(rows)} pairs", "bold"), f" of {kinds['own']} questions from {len(passages)} passages → {out}"
        )
    )
    console.print(
        Text(
            f"{kinds['own']} passages of their own, {kinds['neighbour']} neighbours in the same document, "
            f"{kinds['elsewhere']} from other documents",
            style="dim",
        )
    )
    for row in [row for row in rows if row["label"]][:3]:
        console.print(Text(f"  {row['question']}", style="italic"))
    console.print(Text(f"look them over, then: crag calibrate {out}", style="dim"))


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def progress(what: str) -> Iterator[Told]:
    """Show on stderr how many pairs are done."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(what[:40], total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
