"""Where to look when the index falls short: every source with its own block."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from crag_graph.settings.base import IMPORT_PATH, Retries, Seconds, Section, read_off

WEB_SOURCES = ("tavily", "wikipedia", "searxng", "folder")
_Language = Annotated[str, Field(pattern=r"^[a-z]{2,12}(-[A-Za-z]{2,12})*$")]
_Port = Annotated[int, Field(ge=1, le=65535)]


class WikipediaSettings(Section):
    """Wikipedia, or any other wiki that runs MediaWiki with extracts."""

    base_url: str = "https://{language}.wikipedia.org/w/api.php"
    language: _Language = "auto"
    full_pages: Annotated[int, Field(ge=0, le=10)] = 3
    max_chars: Annotated[int, Field(ge=200, le=50_000)] = 2_000
    contact: str | None = None
    timeout_s: Seconds = 15
    max_retries: Retries = 2


class SearxngSettings(Section):
    """A SearXNG instance that answers in JSON."""

    base_url: str | None = None
    language: _Language = "all"
    categories: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    timeout_s: Seconds = 15
    max_retries: Retries = 2


class PageSettings(Section):
    """Reading the pages that a search found."""

    max_pages: Annotated[int, Field(ge=0, le=10)] = 0
    max_chars: Annotated[int, Field(ge=200, le=50_000)] = 3_000
    timeout_s: Seconds = 10
    max_mb: Annotated[float, Field(gt=0, le=50, allow_inf_nan=False)] = 2
    ports: tuple[_Port, ...] = (80, 443)
    allow_private: bool = False


class WebCacheSettings(Section):
    """What was found, remembered for a while."""

    path: str | None = None
    ttl_hours: Annotated[float, Field(gt=0, le=24 * 365, allow_inf_nan=False)] = 24


class RememberSettings(Section):
    """Web evidence that carried an answer, kept in a collection of its own beside the index."""

    collection: Annotated[str, Field(max_length=512, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]+[a-zA-Z0-9]$")] | None = None
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] = 30


class TavilySettings(Section):
    """The Tavily search service, or anything that speaks its protocol."""

    base_url: str | None = None
    api_key_env: str = "TAVILY_API_KEY"
    search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = "basic"
    timeout_s: Seconds = 15
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2


class FolderSettings(Section):
    """A folder of documents that stands in for the web."""

    path: str = "examples/web"


class WebSettings(Section):
    """Where to look when the index falls short."""

    use: str | tuple[str, ...] = "tavily"
    merge: bool = False
    prefer: tuple[str, ...] = ()
    max_results: Annotated[int, Field(ge=1, le=20)] = 5
    allow_domains: tuple[str, ...] = ()
    deny_domains: tuple[str, ...] = ()
    approve: bool = False
    tavily: TavilySettings = TavilySettings()
    wikipedia: WikipediaSettings = WikipediaSettings()
    searxng: SearxngSettings = SearxngSettings()
    folder: FolderSettings = FolderSettings()
    pages: PageSettings = PageSettings()
    cache: WebCacheSettings = WebCacheSettings()
    remember: RememberSettings = RememberSettings()

    @field_validator("use")
    @classmethod
    def _check_use(cls, use: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = (use,) if isinstance(use, str) else use
        for name in names:
            if use != "off" and name not in WEB_SOURCES and not re.fullmatch(IMPORT_PATH, name):
                known = ", ".join(WEB_SOURCES)
                raise ValueError(f"{name!r} is no web source: write {known}, package.module:name, or off alone")
        if not names:
            raise ValueError("the list is empty: name a source, or write off")
        return use

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources in the order they are asked; none when the web is off."""
        if isinstance(self.use, str):
            return () if self.use == "off" else (self.use,)
        return self.use

    @model_validator(mode="before")
    @classmethod
    def _read_off(cls, data: Any) -> Any:
        return read_off(data)
