"""What every measurement needs: an index of its own, and settings that point to servers on loopback."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from crag_graph.errors import ConfigurationError
from crag_graph.factory import build_embedder, build_index
from crag_graph.ingest.run import ingest
from crag_graph.measure.bench.data import Paragraph
from crag_graph.measure.bench.loopback import go_direct
from crag_graph.settings import Settings

_WEB_KEY = "BENCH_WEB_KEY"


def with_own_index_and_web(settings: Settings, folder: Path, web_origin: str) -> Settings:
    """Return the settings with an index in `folder` and the served web; all else is as configured."""
    os.environ[_WEB_KEY] = "loopback"  # the client insists on a key; the served web asks for none
    go_direct()
    values = settings.model_dump()
    values["index"] |= {"path": str(folder / "index"), "host": None}
    values["web"] |= {"use": "tavily", "allow_domains": (), "deny_domains": (), "approve": False}
    values["web"]["pages"] |= {"max_pages": 0}  # the served addresses lead nowhere
    values["web"]["cache"] |= {"path": None}  # a search costs what it costs, every time
    values["web"]["remember"] |= {"collection": None}  # what one question found is not there for the next
    values["llm"]["cache"] = None
    values["generator"]["on_failure"] = "error"  # quotes would earn the points of a model that failed
    values["web"]["tavily"] |= {"base_url": web_origin, "api_key_env": _WEB_KEY}
    return Settings.model_validate(values)


async def ingest_paragraphs(paragraphs: Sequence[Paragraph], folder: Path, settings: Settings) -> None:
    """Write every paragraph as a file under its article's title, and ingest the folder as a person would.

    Raises:
        ConfigurationError: a paragraph cannot be ingested.
    """
    await asyncio.to_thread(_write, paragraphs, folder)
    summary = await ingest([folder], build_index(settings, build_embedder(settings)), settings)
    if summary["failed"]:
        failed = summary["failed"][0]
        raise ConfigurationError(f"{failed['path']}: cannot be ingested: {failed['reason']}")


def _write(paragraphs: Sequence[Paragraph], folder: Path) -> None:
    folder.mkdir()
    for paragraph in paragraphs:
        head = f"---\ntitle: {_quoted(paragraph.article)}\n---\n\n"
        (folder / f"{paragraph.id}.md").write_text(head + paragraph.text + "\n", encoding="utf-8")


def _quoted(title: str) -> str:
    return "'" + title.replace("'", "''") + "'"
