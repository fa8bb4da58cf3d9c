"""The command line: `crag ask`, `ingest`, `doctor`, `config`, `graph`; more in `measuring`, `benchmarks`, `caching`.

Exit codes: 0 done, or a grounded answer; 3 no supporting evidence; 2 bad input or settings; 1 a component failed.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crag_graph.errors import ComponentError, ConfigurationError, CragError, InputError, NothingIngested

if TYPE_CHECKING:
    from rich.console import Console

    from crag_graph.ingest.run import Summary
    from crag_graph.load import Loaded

T = TypeVar("T")
app = typer.Typer(
    help="Ask your documents; the evidence is checked first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path | None, typer.Option("--config", "-c", help="A YAML file, or the name of a shipped profile.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]

NO_EVIDENCE, BAD_INPUT, FAILED = 3, 2, 1


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    config: Config = None,
    as_json: AsJson = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show documents, queries and strips too.")] = False,
    history: Annotated[Path | None, typer.Option(help="Earlier turns: a JSON list of {role, content}.")] = None,
) -> None:
    """Answer a question from checked evidence."""
    with failing_politely(as_json), _without_collecting():
        from crag_graph.cli.asking import ask_and_show
        from crag_graph.rules.question import is_blank

        if is_blank(question):
            raise InputError("the question is blank: write what you want to know")
        result = _run(ask_and_show(load_config(config), question, _history(history), as_json=as_json, explain=explain))
    raise typer.Exit(0 if result["grounded"] else NO_EVIDENCE)


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.")],
    config: Config = None,
    as_json: AsJson = False,
    sync: Annotated[bool, typer.Option("--sync", help="Remove what is gone from these folders.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Start the collection anew, as for a new embedder.")
    ] = False,
) -> None:
    """Read documents into the index; what is unchanged costs nothing."""
    with failing_politely(as_json):
        from crag_graph.cli.ingesting import ingest_and_show

        summary: Summary = _run(
            ingest_and_show(load_config(config), paths, sync=sync, rebuild=rebuild, as_json=as_json)
        )
    raise typer.Exit(FAILED if summary["failed"] else 0)


@app.command()
def doctor(config: Config = None, as_json: AsJson = False) -> None:
    """Show what is on, off or missing, and how to mend it."""
    with failing_politely(as_json):
        from crag_graph.cli.doctor import examine, show_findings

        findings = _run(examine(load_config(config)))
        if as_json:
            print_json([finding._asdict() for finding in findings])
        else:
            show_findings(_console(), findings)
    raise typer.Exit(BAD_INPUT if any(finding.state == "broken" for finding in findings) else 0)


@app.command("config")
def show_config(config: Config = None, as_json: AsJson = False) -> None:
    """Show the settings in force and where each comes from."""
    with failing_politely(as_json):
        from crag_graph.cli.doctor import effective, show_effective

        rows = effective(load_config(config))
        if as_json:
            print_json(rows)
        else:
            show_effective(_console(), rows)


@app.command()
def graph(config: Config = None) -> None:
    """Print the graph as a Mermaid diagram."""
    with failing_politely(as_json=False):
        from crag_graph.factory import build_graph

        typer.echo(build_graph(load_config(config).settings).get_graph().draw_mermaid())


def main() -> None:
    """Run the command line."""
    app()


@contextmanager
def failing_politely(as_json: bool) -> Iterator[None]:
    """Turn our errors into one readable message and the right exit code."""
    try:
        yield
    except CragError as error:
        code = BAD_INPUT if isinstance(error, ConfigurationError | InputError | NothingIngested) else FAILED
        if as_json:
            print_json({"error": {"kind": type(error).__name__, "message": str(error)}} | _kept(error))
        else:
            from crag_graph.cli.show import error_panel

            _console(stderr=True).print(error_panel(str(error)))
        raise typer.Exit(code) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Keep the garbage collector off: a tenth of a short run goes into collecting while modules load."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _kept(error: CragError) -> dict[str, Any]:
    """Return the evidence that an error carries: the work up to it need not be lost."""
    evidence = getattr(error, "evidence", ())
    return {"sources": list(evidence)} if isinstance(error, ComponentError) and evidence else {}


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def load_config(config: Path | None) -> "Loaded":
    """Read `.env` and the settings."""
    from dotenv import load_dotenv

    from crag_graph.load import load

    load_dotenv(".env")
    return load(config)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _is_turn(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in ("user", "assistant") and isinstance(turn.get("content"), str)


def _history(path: Path | None) -> list[Any]:
    if path is None:
        return []
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--history {path}: cannot be read as JSON: {error}") from error
    if not isinstance(turns, list) or not all(map(_is_turn, turns)):
        raise InputError(f'--history {path}: must be a list of {{"role": "user" or "assistant", "content": "..."}}')
    return turns


from crag_graph.cli import benchmarks, caching, measuring  # noqa: E402, F401 - add their commands to `app`
