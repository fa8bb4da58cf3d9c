"""How well evidence is judged: `crag measure`, `calibrate`, `pairs`, `fit-evaluator`, `train-evaluator`."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from crag_graph.cli import AsJson, Config, app, failing_politely, load_config
from crag_graph.errors import ConfigurationError

PAIRS = (
    "JSON Lines: question, text, label (1 helps, 0 does not), and optionally title, group; or the paper's lines: "
    "question [SEP] passage <tab> label."
)
Files = Annotated[list[Path], typer.Argument(metavar="PAIRS...", help=PAIRS)]
Seed = Annotated[int, typer.Option(help="Same seed, same result.")]


@app.command()
def measure(pairs: Files, config: Config = None, as_json: AsJson = False) -> None:
    """Show how well the evaluator in use judges labelled pairs."""
    with failing_politely(as_json):
        from crag_graph.cli.show_measure import measure_and_show

        asyncio.run(measure_and_show(load_config(config).settings, pairs, as_json=as_json))


@app.command()
def calibrate(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=PAIRS)],
    config: Config = None,
    cost: Annotated[float, typer.Option(help="How many needless searches are as bad as one wrong 'correct'.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the settings as YAML.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find cut-offs for the evaluator in use, on your own pairs."""
    with failing_politely(as_json):
        from crag_graph.cli.show_calibration import calibrate_and_show

        settings = load_config(config).settings
        asyncio.run(calibrate_and_show(settings, pairs, cost=cost, seed=seed, picture=plot, out=out, as_json=as_json))


@app.command("pairs")
def make_pairs(
    out: Annotated[Path, typer.Option(help="Where the pairs go.")],
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]", help="An index folder, or files that need no index; else the configured index."
        ),
    ] = None,
    config: Config = None,
    limit: Annotated[int, typer.Option(min=1, help="Questions at most.")] = 200,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Make labelled pairs from your own documents."""
    with failing_politely(as_json):
        from crag_graph.cli.show_measure import make_and_show

        settings = load_config(config).settings
        asyncio.run(make_and_show(settings, place, out, seed=seed, limit=limit, as_json=as_json))


@app.command()
def fit_evaluator(
    pairs: Files, out: Annotated[Path, typer.Option(help="Coefficients file to write.")], seed: Seed = 0
) -> None:
    """Fit the local evaluator on labelled pairs.

    Name the file in evaluator.local.coefficients.
    """
    with failing_politely(as_json=False):
        _need("sklearn", "scikit-learn", "fit")
        from crag_graph.measure.fit import main

        main([*map(str, pairs), "--out", str(out), "--seed", str(seed)])


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def train_evaluator(context: typer.Context) -> None:
    """Train a cross-encoder on labelled pairs (--help: its options)."""
    with failing_politely(as_json=False):
        from crag_graph.measure.train import main

        main(context.args)


def _need(module: str, package: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ConfigurationError(f'this command needs {package}: pip install "crag-graph[{extra}]"')
