"""`crag doctor` and `crag config`: what is in force, what is missing, and how to mend it."""

import os
import platform
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crag_graph.errors import CragError
from crag_graph.factory import build_components, build_embedder, build_index
from crag_graph.load import Loaded, known_keys
from crag_graph.settings import Settings

State = Literal["on", "off", "broken"]
STYLES = {"on": "green", "off": "yellow", "broken": "bold red"}
OLDEST_SQLITE = (3, 35, 0)  # Chroma's own requirement


class Finding(NamedTuple):
    """One line of the examination."""

    part: str
    state: State
    detail: str
    mend: str = ""


async def examine(loaded: Loaded) -> list[Finding]:
    """Look at everything a question would need, without asking one and without creating anything."""
    settings = loaded.settings
    findings = [
        Finding("profile", "on", f"{loaded.profile} ({loaded.path})"),
        Finding("python", "on", platform.python_version()),
        _sqlite(),
        *_keys(settings),
    ]
    for part, check in (("embedder", _embedder), ("index", _index), ("components", _components)):
        findings += await _guarded(part, check, settings)
    return findings


async def _guarded(
    part: str, check: Callable[[Settings], Awaitable[list[Finding]]], settings: Settings
) -> list[Finding]:
    try:
        return await check(settings)
    except CragError as error:
        return [Finding(part, "broken", str(error))]


def _sqlite() -> Finding:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info >= OLDEST_SQLITE:
        return Finding("sqlite", "on", version)
    needed = ".".join(map(str, OLDEST_SQLITE))
    return Finding(
        "sqlite", "broken", f"this Python has {version}, Chroma needs {needed}", "use a newer Python, or index.host"
    )


def _keys(settings: Settings) -> list[Finding]:
    """Say of every key that the settings name whether it is there; never the key."""
    named = {settings.web.tavily.api_key_env: "tavily" in settings.web.sources}
    uses_llm = "llm" in (settings.evaluator.use, settings.rewriter.use, settings.refine.filter, settings.generator.use)
    for variable, needed in (
        (settings.llm.api_key_env, uses_llm),
        (settings.embeddings.openai.api_key_env, settings.embeddings.use == "openai"),
    ):
        if variable:
            named[variable] = named.get(variable, False) or needed
    return [_key(variable, needed) for variable, needed in sorted(named.items())]


def _key(variable: str, needed: bool) -> Finding:
    if os.environ.get(variable, "").strip():
        return Finding(f"key {variable}", "on", "present")
    if needed:
        return Finding(f"key {variable}", "off", "missing, and named by the settings", f"set {variable}")
    return Finding(f"key {variable}", "off", "not set, not needed by these settings")


async def _embedder(settings: Settings) -> list[Finding]:
    embedder = build_embedder(settings)
    return [Finding("embedder", "on", f"{embedder.name} ({embedder.dimension}-d, {embedder.fingerprint})")]


async def _index(settings: Settings) -> list[Finding]:
    status = await build_index(settings, build_embedder(settings)).status()
    if not status.chunks:
        return [Finding("index", "off", f"nothing is ingested at {status.location}", "crag ingest PATH")]
    detail = f"{status.chunks} chunks at {status.location}, by {status.stored or 'an unknown embedder'}"
    if not status.fits:
        wrong = f"{detail}; configured is {status.configured}"
        return [Finding("index", "broken", wrong, "crag ingest --rebuild PATH, or the old embedder in embeddings.use")]
    if status.unfinished:
        return [Finding("index", "on", f"{detail}; the last ingest did not finish", "run it again: crag ingest PATH")]
    return [Finding("index", "on", detail)]


async def _components(settings: Settings) -> list[Finding]:
    kit = build_components(settings)
    mend = "until this is mended answers come from the index alone; web.use: off says it is meant"
    sources = ", ".join(settings.web.sources)
    web = Finding("web", "on", sources) if kit.web else Finding("web", "off", kit.web_off, mend)
    return [
        Finding("evaluator", "on", settings.evaluator.use),
        Finding("rewriter", "on", settings.rewriter.use),
        web,
        Finding("generator", "on", settings.generator.use),
        Finding("prompts", "on", ", ".join(kit.prompts) or "none needed"),
    ]


def show_findings(console: Console, findings: list[Finding]) -> None:
    """Print the examination as a table."""
    table = Table(box=None, pad_edge=False)
    for heading in ("part", "state", "detail", "how to mend it"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        state = Text(finding.state, style=STYLES[finding.state])
        table.add_row(Text(finding.part), state, Text(finding.detail), Text(finding.mend))
    console.print(table)


def effective(loaded: Loaded) -> list[dict[str, Any]]:
    """Return every setting with its value and origin."""
    rows = []
    for key in known_keys():
        value: Any = loaded.settings
        for part in key.split("."):
            value = getattr(value, part)
        value = list(value) if isinstance(value, tuple) else value
        rows.append({"setting": key, "value": value, "origin": loaded.origins.get(key, "default")})
    return rows


def show_effective(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print the settings as a table; what differs from the defaults stands out."""
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        changed = row["origin"] != "default"
        origin = Path(row["origin"]).name if changed else "default"
        table.add_row(row["setting"], Text(str(row["value"])), Text(origin), style="bold" if changed else "dim")
    console.print(table)
