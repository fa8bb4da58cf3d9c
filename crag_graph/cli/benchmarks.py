"""How good and how fast: `crag bench`, `crag bench-paper`, `crag bench-speed`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from crag_graph.cli import FAILED, Config, app, failing_politely, load_config
from crag_graph.errors import InputError

JsonOut = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]


@app.command()
def bench(
    dataset: Annotated[Path | None, typer.Argument(help="A file in SQuAD format.")] = None,
    json_out: JsonOut = None,
    html_out: Annotated[Path | None, typer.Option("--html", help="Write a report to look at to this file.")] = None,
    speed: Annotated[Path | None, typer.Option(help="JSON of bench-speed, to be drawn in the report too.")] = None,
    config: Config = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only this many questions, drawn by the seed.")] = None,
    seed: Annotated[int, typer.Option(help="Deals the knowledge out and draws the intervals.")] = 7,
    systems: Annotated[str, typer.Option(help="Which of crag, vanilla, tutorial.")] = "crag,vanilla,tutorial",
    split: Annotated[str, typer.Option(help="What goes missing: whole articles, or single paragraphs.")] = "article",
    compare: Annotated[tuple[Path, Path] | None, typer.Option(help="Two JSON files: old and new.")] = None,
    fail_on: Annotated[
        list[str] | None, typer.Option(help="[SYSTEM.][GROUP.]METRIC[:TOLERANCE] that may not get worse.")
    ] = None,
) -> None:
    """Measure against plain RAG and the tutorials' way, or compare two measurements.

    On data of the CRAG paper, beside its published figures: bench-paper.
    """
    with failing_politely(as_json=False):
        from crag_graph.cli.show_bench import bench_and_show, compare_and_show
        from crag_graph.measure.bench.run import plan

        if fail_on and not compare:
            raise InputError("--fail-on compares two measurements: add --compare OLD.json NEW.json")
        if compare and dataset:
            raise InputError("--compare reads two measurements and makes none: leave the dataset out")
        if compare:
            raise typer.Exit(0 if compare_and_show(*compare, fail_on or []) else FAILED)
        if dataset is None:
            raise InputError("name a file in SQuAD format, or --compare OLD.json NEW.json")
        asked = plan(dataset, seed, split, limit, systems)
        asyncio.run(bench_and_show(load_config(config), asked, json_out, html_out, speed))


@app.command()
def bench_paper(
    file: Annotated[Path, typer.Argument(help="Self-RAG's JSON Lines: question, ctxs, answers.")],
    task: Annotated[str, typer.Option(help="What is asked, and counted as right: popqa, pubhealth or arc.")],
    retrieved: Annotated[
        Path | None, typer.Option(help="Passages instead of ctxs: the paper's retrieved_psgs, one line per question.")
    ] = None,
    systems: Annotated[str, typer.Option(help="Which of crag, vanilla.")] = "crag,vanilla",
    config: Config = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only this many questions, drawn by the seed.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the questions and the intervals.")] = 7,
    json_out: JsonOut = None,
) -> None:
    """Run a data set of the CRAG paper beside its published figures.

    The passages in the file stand in for the retriever; the web, the evaluator and the models are the configured ones.
    """
    with failing_politely(as_json=False):
        from crag_graph.cli.show_paper import bench_paper_and_show
        from crag_graph.measure.bench.paper_run import paper_plan

        asked = paper_plan(file, task, retrieved, systems, limit, seed)
        asyncio.run(bench_paper_and_show(load_config(config), asked, json_out))


@app.command()
def bench_speed(
    json_out: JsonOut = None,
    config: Config = None,
    call_ms: Annotated[float, typer.Option(min=0, help="What one model call takes, in milliseconds.")] = 400,
    token_ms: Annotated[float, typer.Option(min=0, help="What one written token takes besides.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer questions and shorter curves.")] = False,
    prices: Annotated[Path | None, typer.Option(help="Your price table; see configs/prices/example.yaml.")] = None,
) -> None:
    """Measure wall time, model calls and tokens against a served model of a stated speed."""
    with failing_politely(as_json=False):
        from crag_graph.cli.show_speed import bench_speed_and_show
        from crag_graph.measure.bench.model_server import Speed

        speed = Speed(call_ms / 1000, token_ms / 1000)
        asyncio.run(bench_speed_and_show(load_config(config), speed, prices, json_out, quick=quick))
