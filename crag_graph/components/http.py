"""One HTTP client for every event loop of the process.

An `httpx.AsyncClient` keeps connections open, and each belongs to the event loop that made it. The graph is used from
many loops (one per `asyncio.run`, one for synchronous calls, the server's own), so the client here keeps one inner
client per loop.
"""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from crag_graph.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx


def async_client(
    timeout_s: float, on_response: "Callable[[httpx.Response], Awaitable[None]] | None" = None
) -> "httpx.AsyncClient":
    """Return a client that may be used across event loops and threads, and never needs closing.

    Proxies and certificates come from the environment (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` ...). Give every
    vendor its own client: vendors put their key into its headers. `on_response`, a plain function, sees each response
    before the caller does.

    Raises:
        ConfigurationError: a proxy or certificate variable cannot be used.
    """
    import httpx

    class AnyLoopClient(httpx.AsyncClient):
        """Builds requests itself and sends each by the client of the running loop."""

        async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
            return await (await clients.current()).send(request, **options)

    def build(kind: type[httpx.AsyncClient]) -> httpx.AsyncClient:
        hooks = {"response": [on_response]} if on_response else {}
        return kind(verify=certificates, timeout=timeout_s, follow_redirects=True, event_hooks=hooks)

    try:
        certificates = httpx.create_ssl_context()  # reads files, so it happens here and not on a running loop
        client = build(AnyLoopClient)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigurationError(
            f"HTTP client: {error}; check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error
    clients = _ClientPerLoop(lambda: build(httpx.AsyncClient))
    weakref.finalize(client, clients.close).atexit = False
    return client


class _ClientPerLoop:
    """Opens one client per running loop, and closes it when that loop shuts down."""

    def __init__(self, build: "Callable[[], httpx.AsyncClient]") -> None:
        self._build = build
        self._open: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[httpx.AsyncClient]]] = {}

    async def current(self) -> "httpx.AsyncClient":
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            self._forget_closed_loops()
            keeper = self._keep(loop)
            self._open[loop] = await anext(keeper), keeper
        return self._open[loop][0]

    async def _keep(self, loop: asyncio.AbstractEventLoop) -> "AsyncGenerator[httpx.AsyncClient]":
        """Yield one client. A loop finishes its suspended async generators before it closes, and so this one."""
        client = self._build()
        try:
            yield client
        finally:
            self._open.pop(loop, None)
            await client.aclose()

    def close(self) -> None:
        """Have every client closed by the loop it belongs to; callable from any thread."""
        self._forget_closed_loops()
        for loop, (_, keeper) in list(self._open.items()):
            asyncio.run_coroutine_threadsafe(keeper.aclose(), loop)

    def _forget_closed_loops(self) -> None:
        for loop in [known for known in list(self._open) if known.is_closed()]:
            self._open.pop(loop, None)
