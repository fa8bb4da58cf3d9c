"""What `crag cache` prints. A look creates nothing: no file, no folder, no collection."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crag_graph.cli import print_json
from crag_graph.components.web_cache import WebCache
from crag_graph.components.web_memory import WebMemory
from crag_graph.factory import build_embedder, build_memory
from crag_graph.settings import Settings


class Row(TypedDict):
    """One search, page or passage that is remembered; `stored` is ISO in UTC."""

    provider: str
    what: str  # the query, or the address of the page
    stored: str
    chars: int
    expired: bool


async def show(settings: Settings, provider: str | None, *, evidence: bool, as_json: bool) -> None:
    """Print what is remembered, the newest first.

    Raises:
        ConfigurationError: the file or the collection cannot be read.
        RetrievalError: as above, and it may work later.
    """
    rows = await _passages(settings) if evidence else await asyncio.to_thread(_searches, settings)
    rows = [row for row in rows if provider in (None, row["provider"])]
    where = _where(settings, evidence=evidence)
    if as_json:
        print_json({"where": where, "entries": rows})
        return
    console = Console(highlight=False)
    if rows:
        console.print(_table(rows))
    console.print(_summary(len(rows), "remembered", where, evidence=evidence), markup=False)


async def clear(settings: Settings, provider: str | None, *, evidence: bool, as_json: bool) -> None:
    """Forget what is remembered, and print how much that was; raises as `show`."""
    if evidence:
        memory = _memory(settings)
        removed = await memory.forget(provider) if memory else 0
    else:
        cache = _cache(settings)
        removed = await asyncio.to_thread(cache.clear, provider) if cache else 0
    where = _where(settings, evidence=evidence)
    if as_json:
        print_json({"where": where, "removed": removed})
    else:
        Console(highlight=False).print(_summary(removed, "forgotten", where, evidence=evidence), markup=False)


def _searches(settings: Settings) -> list[Row]:
    cache = _cache(settings)
    return [
        Row(
            provider=entry.provider,
            what=entry.asked,
            stored=datetime.fromtimestamp(entry.stored, UTC).isoformat(timespec="seconds"),
            chars=entry.chars,
            expired=entry.expired,
        )
        for entry in (cache.entries() if cache else [])
    ]


async def _passages(settings: Settings) -> list[Row]:
    memory = _memory(settings)
    rows = (
        [
            Row(
                provider=str(entry.metadata.get("provider", "")),
                what=str(entry.metadata["url"]),
                stored=str(entry.metadata["retrieved"]),
                chars=len(entry.page_content),
                expired=memory.expired(entry),
            )
            for entry in await memory.entries()
        ]
        if memory
        else []
    )
    return sorted(rows, key=lambda row: row["stored"], reverse=True)


def _cache(settings: Settings) -> WebCache | None:
    """Return the cache, if there is a file: opening one makes it."""
    cache = settings.web.cache
    if not cache.path or not Path(cache.path).is_file():
        return None
    return WebCache(Path(cache.path), cache.ttl_hours * 3600)


def _memory(settings: Settings) -> WebMemory | None:
    """Return the memory, if the settings name one; an embedder is not made for nothing."""
    if settings.web.remember.collection is None:
        return None
    return build_memory(settings, build_embedder(settings))


def _where(settings: Settings, *, evidence: bool) -> str | None:
    return settings.web.remember.collection if evidence else settings.web.cache.path


def _summary(count: int, done: str, where: str | None, *, evidence: bool) -> str:
    setting = "web.remember.collection" if evidence else "web.cache.path"
    if where is None:
        return f"{setting} is null: nothing is remembered"
    kind = "passage" if evidence else "search or page"
    plural = "passages" if evidence else "searches and pages"
    return f"{count} {kind if count == 1 else plural} {done} ({where})"


def _table(rows: list[Row]) -> Table:
    table = Table(expand=True)
    for name, ratio in (("provider", 1), ("query or address", 4), ("stored", 2), ("chars", 1)):
        table.add_column(name, ratio=ratio, justify="right" if name == "chars" else "left")
    for row in rows:
        stored = row["stored"] + (" (expired)" if row["expired"] else "")
        style = "dim" if row["expired"] else None
        table.add_row(escape(row["provider"]), escape(row["what"]), stored, str(row["chars"]), style=style)
    return table
