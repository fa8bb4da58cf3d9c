"""The web side of the factory: sources in a chain or fused, remembered and read in full where the settings say so."""

from pathlib import Path
from typing import TYPE_CHECKING

from crag_graph.errors import ConfigurationError
from crag_graph.factory.imported import imported
from crag_graph.protocols import Search
from crag_graph.settings import PageSettings, Settings, WebSettings

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from crag_graph.components.web_cache import WebCache


def build_web(settings: Settings) -> tuple[Search | None, str]:
    """Return the web search, or None and why it is off. A source without its key is no error: others may answer."""
    from crag_graph.components.search.chain import fallback_search, merged_search, missing_source, preferring

    web = settings.web
    cache = _cache(settings)
    sources: dict[str, Search] = {}
    missing: list[str] = []
    for name in web.sources:
        if ":" in name:
            sources[name] = _remembered(web, imported(name, "web.use"), name, cache)
            continue
        try:
            sources[name] = _remembered(web, _source(settings, name), name, cache)
        except ConfigurationError as error:
            missing.append(str(error))
            sources[name] = missing_source(name, str(error))
    if len(missing) == len(sources):
        return None, "; ".join(missing) or "web.use is off"
    if web.merge:
        search = merged_search(sources, web.max_results, settings.retrieve.hybrid.rrf_k)
    else:
        search = fallback_search(sources) if len(sources) > 1 else next(iter(sources.values()))
    return _with_pages(web.pages, preferring(search, web.prefer), cache), ""


def _source(settings: Settings, name: str) -> Search:
    web = settings.web
    match name:
        case "tavily":
            from crag_graph.components.search.tavily import TavilySearch

            return TavilySearch(web)
        case "wikipedia":
            from crag_graph.components.search.wikipedia import WikipediaSearch

            return WikipediaSearch(web.wikipedia, web)
        case "searxng":
            from crag_graph.components.search.searxng import SearxngSearch

            return SearxngSearch(web.searxng, web)
        case _:
            return _folder_web(settings)


def _cache(settings: Settings) -> "WebCache | None":
    cache = settings.web.cache
    if not cache.path:
        return None
    from crag_graph.components.web_cache import WebCache

    return WebCache(Path(cache.path), cache.ttl_hours * 3600)


def _remembered(web: WebSettings, search: Search, name: str, cache: "WebCache | None") -> Search:
    if cache is None or name == "folder":
        return search
    from crag_graph.components.web_cache import cached

    scope = web.model_dump_json(include={"max_results", "allow_domains", "deny_domains", name})
    return cached(search, cache, name, scope)


def _with_pages(pages: PageSettings, search: Search, cache: "WebCache | None") -> Search:
    if not pages.max_pages:
        return search
    from crag_graph.components.fetch import Fetch, PageFetch
    from crag_graph.components.search.page_text import with_page_text

    fetch: Fetch = PageFetch(pages)
    if cache is not None:
        from crag_graph.components.web_cache import cached_pages

        fetch = cached_pages(fetch, cache)
    return with_page_text(search, fetch, pages.max_pages, pages.max_chars)


def _folder_web(settings: Settings) -> Search:
    """Return the search of the folder that stands in for the web.

    Raises:
        ConfigurationError: there is no such folder.
    """
    from crag_graph.components.search.folder import folder_search

    folder = Path(settings.web.folder.path)
    if not folder.is_dir():
        raise ConfigurationError(f"web.folder.path: there is no folder {folder}; name one that holds documents")

    def load() -> "list[Document]":
        from crag_graph.ingest.loaders import load_folder

        return load_folder(folder, settings.ingest)

    return folder_search(load, settings.web.max_results)
