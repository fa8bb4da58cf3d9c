"""What was found on the web and is still here: `crag cache show`, `crag cache clear`."""

import asyncio
from typing import Annotated

import typer

from crag_graph.cli import AsJson, Config, app, failing_politely, load_config

cache = typer.Typer(help="Show or forget what was found on the web.", no_args_is_help=True)
app.add_typer(cache, name="cache")

Provider = Annotated[str | None, typer.Option(help="Only what this one found; page: pages that were read.")]
Evidence = Annotated[bool, typer.Option("--evidence", help="Remembered evidence instead of searches and pages.")]


@cache.command("show")
def show_cache(
    provider: Provider = None, evidence: Evidence = False, config: Config = None, as_json: AsJson = False
) -> None:
    """List what is remembered."""
    with failing_politely(as_json):
        from crag_graph.cli.show_cache import show

        asyncio.run(show(load_config(config).settings, provider, evidence=evidence, as_json=as_json))


@cache.command("clear")
def clear_cache(
    provider: Provider = None, evidence: Evidence = False, config: Config = None, as_json: AsJson = False
) -> None:
    """Forget it; your own documents stay."""
    with failing_politely(as_json):
        from crag_graph.cli.show_cache import clear

        asyncio.run(clear(load_config(config).settings, provider, evidence=evidence, as_json=as_json))
