"""A server that speaks the JSON API of SearXNG and finds what the test scripts.

    with SearxngServer() as server:
        server.replies = [refused(429, retry_after=0), found(hit("https://example.com/a", "It weighs 3 kg."))]
        ... use base_url=server.origin ...
        assert server.searches[0]["q"] == "falcon weight"

Like a fresh instance it can be told to give HTML only: then JSON is refused with 403. A script that has run out answers
500, which fails the test rather than finding things.
"""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.servers import Call, Delivery, LoopbackServer
from tests.servers.tavily_server import Reply

Body = dict[str, Any]


def hit(url: Any, content: Any, title: Any = "", **more: Any) -> Body:
    """Return one hit, well-formed as long as its values are; `more` adds fields."""
    return {"url": url, "title": title, "content": content, "engine": "scripted", "score": 1.0} | more


def found(*hits: Any, unresponsive: Any = ()) -> Reply:
    """Answer with these results, and with the engines that gave none."""
    return Reply({"query": "", "results": list(hits), "answers": [], "unresponsive_engines": list(unresponsive)})


def refused(status: int, said: str = "scripted", *, retry_after: float | None = None) -> Reply:
    """Answer with an HTTP error in the protocol's own shape."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Reply({"error": said}, Delivery(status, headers))


class SearxngServer(LoopbackServer):
    """Speaks `GET /search`; `formats` are those that the instance gives."""

    formats = ("html", "json")

    @property
    def searches(self) -> list[dict[str, str]]:
        """The parameters of all searches so far."""
        return [dict(parse_qsl(urlsplit(request.path).query)) for request in self.requests]

    def answer(self, call: Call) -> None:
        asked = dict(parse_qsl(urlsplit(call.request.path).query))
        if urlsplit(call.request.path).path != "/search":
            reply = Reply(delivery=Delivery(404, {"Content-Type": "text/html"}, b"<h1>Page not found</h1>"))
        elif asked.get("format") not in self.formats:
            reply = Reply(delivery=Delivery(403, {"Content-Type": "text/html"}, b"<h1>403 Forbidden</h1>"))
        elif not asked.get("q"):
            reply = refused(400, "No query")
        else:
            reply = self.next_reply(asked, refused(500, "the test scripted no further reply"))
        if not call.deliver(reply.delivery):
            call.send(reply.delivery.status, reply.answer, reply.delivery.headers)
