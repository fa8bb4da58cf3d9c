"""A web server with the pages that the test gives, and with the bad manners of real ones.

with PageServer({"/a": html("It weighs 3 kg."), "/b": moved("/a")}) as server:
    ... fetch f"{server.origin}/b" ...
    assert server.paths == ["/b", "/a"]
"""

import ssl
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.servers import Call, LoopbackServer

Answer: TypeAlias = Callable[[Call], None]
_PAGE = "<html><head><title>{title}</title></head><body><article>{paragraphs}</article></body></html>"


def html(*paragraphs: str, title: str = "A page", content_type: str = "text/html; charset=utf-8") -> Answer:
    """Answer with a page that has these paragraphs."""
    body = _PAGE.format(title=title, paragraphs="".join(f"<p>{paragraph}</p>" for paragraph in paragraphs))
    return raw(body.encode(), {"Content-Type": content_type})


def raw(body: bytes, headers: Mapping[str, str], status: int = 200) -> Answer:
    """Answer with bytes as they are."""
    return lambda call: call.send(status, body, dict(headers))


def moved(location: str, status: int = 302) -> Answer:
    """Answer that the page is elsewhere."""
    return raw(b"", {"Location": location}, status)


def endless(piece: bytes = b"<p>more and more</p>" * 500) -> Answer:
    """Send and send, until the other side hangs up."""

    def answer(call: Call) -> None:
        call._handler.close_connection = True
        call._start(200, {"Content-Type": "text/html", "Connection": "close"})
        while not call._stopping.is_set():
            call._handler.wfile.write(piece)

    return answer


def dripping() -> Answer:
    """Send one byte now and then, each well within any limit on a single read."""

    def answer(call: Call) -> None:
        call._handler.close_connection = True
        call._start(200, {"Content-Type": "text/html", "Connection": "close"})
        while not call._stopping.wait(0.02):
            call._handler.wfile.write(b"x")

    return answer


def dropped() -> Answer:
    """Cut the connection without an answer."""
    return lambda call: call.drop()


class PageServer(LoopbackServer):
    """Serves pages by path; what it does not have is 404. With `tls` it speaks https."""

    def __init__(self, pages: Mapping[str, Answer], tls: ssl.SSLContext | None = None) -> None:
        self.pages = dict(pages)
        self._scheme = "https" if tls else "http"
        super().__init__()
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def origin(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for so far."""
        return [request.path for request in self.requests]

    def answer(self, call: Call) -> None:
        page = self.pages.get(call.request.path, raw(b"not here", {"Content-Type": "text/plain"}, 404))
        page(call)
