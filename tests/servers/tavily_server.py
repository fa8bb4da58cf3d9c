"""A server that speaks the Tavily protocol and finds what the test scripts.

    with TavilyServer() as server:
        server.replies = [refused(429, retry_after=0), found(hit("https://example.com/a", "It weighs 3 kg."))]
        ... use base_url=server.origin, key=server.api_key ...
        assert server.searches[0]["query"] == "falcon weight"

Like the real service it refuses a wrong key with 401 and a query of more than 400 characters with 400.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.servers import Call, Delivery, LoopbackServer

Body = dict[str, Any]
_PLAIN = Delivery()


@dataclass(frozen=True)
class Reply:
    """One answer, any JSON, and how it is delivered. Use the builders below."""

    answer: Any = None
    delivery: Delivery = _PLAIN

    def slow(self, seconds: float) -> "Reply":
        """Return the same reply, sent only after `seconds`."""
        return replace(self, delivery=replace(self.delivery, delay_s=seconds))

    def held(self, until: threading.Event) -> "Reply":
        """Return the same reply, sent only once `until` is set."""
        return replace(self, delivery=replace(self.delivery, hold=until))


def hit(url: Any, content: Any, title: Any = "", score: Any = 0.5, **more: Any) -> Body:
    """Return one hit, well-formed as long as its values are; `more` adds fields."""
    return {"url": url, "title": title, "content": content, "score": score, "raw_content": None} | more


def found(*hits: Any) -> Reply:
    """Answer with these results."""
    return Reply({"query": "", "answer": None, "images": [], "results": list(hits), "response_time": 0.01})


def answer(value: Any) -> Reply:
    """Answer with any JSON at all."""
    return Reply(value)


def refused(status: int, detail: str = "scripted", *, retry_after: float | str | None = None) -> Reply:
    """Answer with an HTTP error in the protocol's own shape."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply({"detail": {"error": detail}}, Delivery(status, headers))


def raw(body: bytes, status: int = 200, content_type: str = "text/html") -> Reply:
    """Answer with bytes that need not be the protocol at all."""
    return Reply(delivery=Delivery(status, {"Content-Type": content_type}, body))


def dropped() -> Reply:
    """Cut the connection without an answer."""
    return Reply(delivery=Delivery(drop_after=0))


def black_hole() -> Reply:
    """Never answer."""
    return Reply().held(threading.Event())


class TavilyServer(LoopbackServer):
    """Speaks `POST /search`. A script that has run out answers 500, which fails the test rather than finding things."""

    def __init__(self, replies: Sequence[Reply] | Callable[[Body], Reply] = (), api_key: str = "tvly-test-key") -> None:
        self.api_key = api_key
        super().__init__(replies)

    @property
    def searches(self) -> list[Body]:
        """The bodies of all searches so far."""
        return [request.body for request in self.requests]

    def answer(self, call: Call) -> None:
        if call.request.path != "/search":
            reply = refused(404, "Not Found")
        elif call.request.headers.get("Authorization") != f"Bearer {self.api_key}":
            reply = refused(401, "Unauthorized: missing or invalid API key.")
        elif len(call.request.body["query"]) > 400:
            reply = refused(400, "Query is too long. Max query length is 400 characters.")
        else:
            reply = self.next_reply(call.request.body, refused(500, "the test scripted no further reply"))
        if not call.deliver(reply.delivery):
            call.send(reply.delivery.status, reply.answer, reply.delivery.headers)
