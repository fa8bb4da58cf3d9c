"""Real HTTP servers on loopback that speak the protocols of the outside world.

Each runs in its own threads, records what it was sent, and does what the test scripts:
`with OpenAIServer() as server: ...`.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """One request as it arrived; `body` is its JSON."""

    path: str
    headers: Message  # looks names up in any case
    body: dict[str, Any]


@dataclass(frozen=True)
class Delivery:
    """How a reply leaves the server, whatever it says.

    `hold` keeps the reply back until the event is set (or the server stops); `delay_s` keeps it back that long.
    `drop_after` cuts the connection after that many streamed pieces; 0 cuts it before anything is sent.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # sent as it is, instead of what the server would have made
    delay_s: float = 0
    hold: threading.Event | None = None
    drop_after: int | None = None


class LoopbackServer:
    """What all test servers share: a port of their own, a script, a record of requests, a clean stop.

    `replies` is either a list, used up in order, or a function from the request body to a reply, called in the server's
    threads.
    """

    def __init__(self, replies: Sequence[Any] | Callable[[dict[str, Any]], Any] = ()) -> None:
        self.replies = replies
        self.requests: list[Request] = []
        self.peak = 0  # most requests in flight at one time
        self.connections = 0  # accepted since the start
        self._in_flight = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, call: "Call") -> None:
        """Answer one request; each kind of server does it its own way."""
        raise NotImplementedError

    def wait_for_requests(self, count: int, timeout_s: float = 10) -> None:
        """Wait until `count` requests have arrived in total."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise AssertionError(f"{len(self.requests)} of {count} requests arrived within {timeout_s} s")

    def wait_until_idle(self, timeout_s: float = 10) -> None:
        """Wait until no client holds a connection open."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._sockets, timeout_s):
                raise AssertionError(f"{len(self._sockets)} connections still open after {timeout_s} s")

    def next_reply(self, body: dict[str, Any], otherwise: Any) -> Any:
        """Return what the script says to this request, or `otherwise` when its list has run out."""
        if callable(self.replies):
            return self.replies(body)
        with self._changed:
            if not self.replies:
                return otherwise
            first, *self.replies = self.replies
            return first

    def stop(self) -> None:
        """Cut every connection and join every thread."""
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        for connection in list(self._sockets):
            _cut(connection)
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def handle(self, call: "Call") -> None:
        with self._changed:
            self.requests.append(call.request)
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
            self._changed.notify_all()
        try:
            self.answer(call)
        finally:
            with self._changed:
                self._in_flight -= 1


class Call:
    """One request being answered."""

    def __init__(self, handler: "_Handler", request: Request, stopping: threading.Event) -> None:
        self.request = request
        self._handler = handler
        self._stopping = stopping

    def deliver(self, delivery: Delivery) -> bool:
        """Keep the reply back as told; return whether that was all of it: the connection dropped, or raw bytes sent."""
        self._wait(delivery)
        if delivery.drop_after == 0:
            self.drop()
        elif delivery.body is not None:
            self.send(delivery.status, delivery.body, delivery.headers)
        else:
            return False
        return True

    def _wait(self, delivery: Delivery) -> None:
        if delivery.delay_s:
            self._stopping.wait(delivery.delay_s)
        while delivery.hold and not delivery.hold.wait(0.02) and not self._stopping.is_set():
            pass

    def send(self, status: int, body: Any = b"", headers: dict[str, str] | None = None) -> None:
        """Send a whole response: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._start(status, {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(data))})
        self._handler.wfile.write(data)

    def start_events(self) -> None:
        """Begin a stream of server-sent events; the connection ends with it."""
        self._handler.close_connection = True
        self._start(200, {"Content-Type": "text/event-stream", "Connection": "close", "Transfer-Encoding": "chunked"})

    def event(self, data: Any) -> None:
        """Send one event: a string as it is, anything else as JSON."""
        line = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def end_events(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")

    def drop(self) -> None:
        """Cut the connection in the middle of whatever is going on."""
        self._handler.close_connection = True
        _cut(self._handler.connection)

    def _start(self, status: int, headers: dict[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


class _Server(ThreadingHTTPServer):
    owner: LoopbackServer
    daemon_threads = False  # so that closing the server joins them
    request_queue_size = 128

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self.owner._changed:
            self.owner.connections += 1
            self.owner._sockets.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self.owner._changed:
            self.owner._sockets.discard(request)
            self.owner._changed.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of many tests; anything else is a fault of the test server itself."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        owner = self.server.owner
        owner.handle(Call(self, Request(self.path, self.headers, body), owner._stopping))

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what matters is recorded."""


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster


def now() -> int:
    """Seconds since the epoch, as protocols want them."""
    return int(time.time())
