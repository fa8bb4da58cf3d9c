"""`crag ingest`: progress on stderr, the summary on stdout."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from crag_graph.cli import print_json
from crag_graph.factory import build_embedder, build_index
from crag_graph.ingest.run import Summary, ingest
from crag_graph.load import Loaded


async def ingest_and_show(loaded: Loaded, paths: list[Path], *, sync: bool, rebuild: bool, as_json: bool) -> Summary:
    """Ingest the paths and print what became of every file."""
    settings = loaded.settings
    index = build_index(settings, build_embedder(settings))
    err = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=err.is_terminal) as bar:
        files = bar.add_task("reading", total=None)
        chunks = bar.add_task("storing chunks", total=None, visible=False)

        def read(path: str, done: int, total: int) -> None:
            bar.update(files, description=Path(path).name[:40], completed=done, total=total)

        def stored(done: int, total: int) -> None:
            bar.update(chunks, completed=done, total=total, visible=True)

        summary = await ingest(paths, index, settings, sync=sync, rebuild=rebuild, progress=read, chunk_progress=stored)
    if as_json:
        print_json(summary)
    else:
        _show(Console(highlight=False), summary)
    return summary


def _show(out: Console, summary: Summary) -> None:
    counts = ", ".join(f"{summary[key]} {key}" for key in ("added", "updated", "unchanged", "removed"))
    out.print(f"[bold]{counts}[/]  ({summary['chunks']} chunks)")
    for item in summary["warnings"]:
        out.print(Text.assemble((f"! {item['path']}", "yellow"), f": {item['reason']}"))
    for item in summary["failed"]:
        out.print(Text.assemble((f"x {item['path']}", "red"), f": {item['reason']}"))
