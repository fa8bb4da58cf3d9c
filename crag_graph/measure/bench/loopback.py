"""A small JSON server on loopback, for the parts of the outside world that a measurement stands in for."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Body = dict[str, Any]
_PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def go_direct() -> None:
    """Keep the proxy that the environment may name out of this process's talks with loopback."""
    if not any(os.environ.get(name) for name in _PROXIES):
        return
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join(dict.fromkeys([*hosts, "127.0.0.1"]))


class Exchange:
    """One request being answered."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        self.path = handler.path
        self.body = body
        self._handler = handler

    def send(self, status: int, answer: Body) -> None:
        """Send a whole JSON response."""
        data = json.dumps(answer).encode()
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(data))})
        self._handler.wfile.write(data)

    def start_events(self) -> None:
        """Begin a stream of server-sent events."""
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def event(self, data: Body | str) -> None:
        """Send one event: a string as it is, anything else as JSON."""
        line = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self._handler.wfile.flush()

    def end_events(self) -> None:
        """End the stream; the connection stays open."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


class JsonServer:
    """Serves 127.0.0.1 on a port of its own while it is entered; one thread per connection."""

    def __init__(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open, as with the real services
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                owner.answer(Exchange(self, json.loads(self.rfile.read(length) or b"{}")))

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: a measurement's standard error is for its progress."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, exchange: Exchange) -> None:
        """Answer one request; every server does it its own way."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that hung up; anything else is a fault of the server."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
