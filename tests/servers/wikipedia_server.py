"""A server that speaks the query part of the MediaWiki API, over the articles that the test gives.

    with WikipediaServer([Article("Falcon", "The Falcon is a drone.\\n\\n\\n== Specs ==\\nIt weighs 3 kg.")]) as server:
        server.replies = [api_error("maxlag", "Waiting for a database", retry_after=0)]
        ... use base_url=server.base_url ...
        assert server.queries[0]["gsrsearch"] == "falcon weight"

`replies` are used up before the articles are searched. Like the real service it finds the articles that have all words,
or any of the words between which `OR` stands, and refuses queries of more than 300 characters.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.servers import Call, Delivery, LoopbackServer
from tests.servers.tavily_server import Reply

Body = dict[str, Any]


@dataclass(frozen=True)
class Article:
    """One page of the wiki; its text marks headings by `== ... ==`."""

    title: str
    text: str
    edited: str = "2024-05-02T10:00:00Z"
    disambiguation: bool = False
    missing: bool = False


def api_error(code: str, info: str, *, retry_after: float | None = None) -> Reply:
    """Answer with an error in the protocol's own shape, which has status 200."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Reply({"error": {"code": code, "info": info}}, Delivery(200, headers))


class WikipediaServer(LoopbackServer):
    """Speaks `GET /w/api.php?action=query`."""

    def __init__(self, articles: Sequence[Article] = (), *, extracts: bool = True) -> None:
        self.articles = list(articles)
        self.extracts = extracts  # whether TextExtracts is installed
        super().__init__()

    @property
    def base_url(self) -> str:
        """What goes into `base_url` of a client."""
        return f"{self.origin}/w/api.php"

    @property
    def queries(self) -> list[dict[str, str]]:
        """The parameters of all requests so far."""
        return [_parameters(request.path) for request in self.requests]

    def answer(self, call: Call) -> None:
        asked = _parameters(call.request.path)
        reply = self.next_reply(asked, None) or Reply(self._query(asked))
        if not call.deliver(reply.delivery):
            call.send(reply.delivery.status, reply.answer, reply.delivery.headers)

    def _query(self, asked: dict[str, str]) -> Body:
        if asked.get("action") != "query" or asked.get("formatversion") != "2":
            return {"error": {"code": "badvalue", "info": "unexpected parameters"}}
        if "pageids" in asked:
            found = [article for n, article in enumerate(self.articles, 1) if str(n) == asked["pageids"]]
            return {"batchcomplete": True, "query": {"pages": [self._page(a, asked) for a in found]}}
        query = asked["gsrsearch"]
        if len(query) > 300:
            return {"error": {"code": "cirrussearch-query-too-long", "info": f"{len(query)} of 300 characters"}}
        found = [a for a in self.articles if _matches(a, query)][: int(asked["gsrlimit"])]
        if not found:
            return {"batchcomplete": True}
        pages = [self._page(a, asked) | {"index": n} for n, a in enumerate(found, 1)]
        return {"batchcomplete": True, "query": {"pages": sorted(pages, key=lambda page: page["pageid"], reverse=True)}}

    def _page(self, article: Article, asked: dict[str, str]) -> Body:
        if article.missing:
            return {"ns": 0, "title": article.title, "missing": True, "pageid": 0}
        page_id = self.articles.index(article) + 1
        page: Body = {"pageid": page_id, "ns": 0, "title": article.title}
        wanted = asked["prop"].split("|")
        if "extracts" in wanted and self.extracts:
            page["extract"] = article.text.split("\n==")[0].strip() if "exintro" in asked else article.text
        if "revisions" in wanted:
            page["revisions"] = [{"timestamp": article.edited}]
        if "info" in wanted and asked.get("inprop") == "url":
            page["fullurl"] = f"https://en.wikipedia.org/wiki/{article.title.replace(' ', '_')}"
        if "pageprops" in wanted and article.disambiguation:
            page["pageprops"] = {"disambiguation": ""}
        return page


def _parameters(path: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(path).query))


def _matches(article: Article, query: str) -> bool:
    text = f"{article.title} {article.text}".lower()
    words = [word.lower() for word in re.findall(r"\w+", query) if word != "OR"]
    return (any if " OR " in query else all)(word in text for word in words)
