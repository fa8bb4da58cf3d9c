"""Reading web pages without being sent where nobody should go.

The address of a page comes from a search engine, so it may lead anywhere. Every hop is checked, redirects included:
scheme, port, and every network address its name resolves to. The connection then goes to a checked address and nowhere
else, so a name that resolves differently a moment later changes nothing; `Host`, the TLS server name and the
certificate check keep the name. Proxies of the environment are not used: behind one, nothing could be checked.
"""

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from crag_graph.components.main_text import Page, main_text
from crag_graph.components.search.service import user_agent
from crag_graph.errors import SearchError
from crag_graph.rules.address import is_public
from crag_graph.rules.query import canonical_url
from crag_graph.web_settings import PageSettings

if TYPE_CHECKING:
    import httpx

Fetch: TypeAlias = Callable[[str], Awaitable[Page]]
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Host and port in, numeric addresses out, best first; raises OSError when there are none."""

_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
_MAX_REDIRECTS = 5
_MAX_ADDRESSES = 3  # of one host that are tried
_REDIRECTS = (301, 302, 303, 307, 308)


class PageFetch:
    """Fetch one page and return its main text: `await fetch(url)`.

    HTML and plain text only, at most `max_mb` after decompression, all within `timeout_s`. `may_visit` says which
    numeric addresses are allowed: those of the public internet, or all with `allow_private`.

    Raises (when called):
        SearchError: the page may not be fetched, cannot be, or has no text; `transient` where a later try may succeed.
    """

    def __init__(
        self, settings: PageSettings, resolve: Resolve | None = None, may_visit: Callable[[str], bool] = is_public
    ) -> None:
        import httpx

        self._settings = settings
        self._resolve = resolve or resolve_host
        self._may_visit = may_visit
        self._max_bytes = int(settings.max_mb * 2**20)
        self._user_agent = user_agent()
        self._certificates = httpx.create_ssl_context()  # reads files, so not on a running loop

    async def __call__(self, url: str) -> Page:
        import httpx

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                body, media_type, charset = await self._body(url)
                page = await asyncio.to_thread(main_text, body, media_type, charset)
        except TimeoutError as error:
            allowed = f"web.pages.timeout_s ({self._settings.timeout_s:g} s)"
            raise _failed(url, f"timeout: not read within {allowed}", transient=True) from error
        except httpx.InvalidURL as error:
            raise _failed(url, f"no web address: {error}") from error
        except zlib.error as error:
            raise _failed(url, "its compression is damaged") from error
        except (httpx.HTTPError, OSError) as error:
            raise _failed(url, f"unreachable: {error or type(error).__name__}", transient=True) from error
        if page is None:
            raise _failed(url, "no text: the page may be built by scripts")
        return page

    async def _body(self, url: str) -> tuple[bytes, str, str | None]:
        """Return the bytes of the page, their media type and the encoding the server names."""
        import httpx

        target = httpx.URL(url)
        for _ in range(_MAX_REDIRECTS + 1):
            async with self._response(target) as response:
                if response.status_code in _REDIRECTS and "Location" in response.headers:
                    target = target.join(response.headers["Location"])
                    continue
                if response.status_code != 200:
                    status = response.status_code
                    raise _failed(url, f"HTTP status {status}", transient=status == 429 or status >= 500)
                media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                if media_type not in _TYPES:
                    raise _failed(url, f"it is {media_type or 'of no named type'}, not HTML or plain text")
                return await self._read(response, url), media_type, response.charset_encoding
        raise _failed(url, f"more than {_MAX_REDIRECTS} redirects")

    @asynccontextmanager
    async def _response(self, url: "httpx.URL") -> "AsyncIterator[httpx.Response]":
        """Ask one hop, over a connection of its own: a kept one could have been opened for another name."""
        import httpx

        addresses = await self._allowed(url)
        host = url.raw_host.decode().rstrip(".")
        async with httpx.AsyncClient(
            verify=self._certificates, trust_env=False, timeout=self._settings.timeout_s / 2
        ) as client:
            for address in addresses:
                request = client.build_request(
                    "GET",
                    url.copy_with(host=address),
                    headers={
                        "Host": url.netloc.decode(),
                        "User-Agent": self._user_agent,
                        "Accept": ", ".join(_TYPES),
                        "Accept-Encoding": "gzip",
                        "Connection": "close",
                    },
                    extensions={"sni_hostname": host},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if address == addresses[-1]:
                        raise
                    continue
                try:
                    yield response
                finally:
                    await response.aclose()
                return

    async def _allowed(self, url: "httpx.URL") -> list[str]:
        """Return the network addresses to ask for this URL; raise when it may not be asked at all."""
        settings = self._settings
        shown = str(url)
        if url.scheme not in ("http", "https") or not url.host:
            raise _failed(shown, "only http and https addresses are fetched")
        if url.userinfo:
            raise _failed(shown, "an address with a user name is not fetched")
        port = url.port if url.port is not None else {"http": 80, "https": 443}[url.scheme]
        if port not in settings.ports:
            raise _failed(shown, f"port {port} is not among web.pages.ports")
        try:
            addresses = list(dict.fromkeys(await self._resolve(url.raw_host.decode(), port)))
        except UnicodeError as error:  # a label that is too long
            raise _failed(shown, f"no web address: {error}") from error
        if not addresses:
            raise _failed(shown, "its host has no address")
        refused = [address for address in addresses if not settings.allow_private and not self._may_visit(address)]
        if refused:
            raise _failed(shown, f"its host is at {refused[0]}, which is not on the public internet")
        return addresses[:_MAX_ADDRESSES]

    async def _read(self, response: "httpx.Response", url: str) -> bytes:
        """Return the decoded body; stop as soon as it is longer than allowed, compressed or not."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip", "deflate", ""):
            raise _failed(url, f"compressed as {encoding}, which was not asked for")
        inflate: Any = None if encoding in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 32)
        body = bytearray()
        async for piece in response.aiter_raw():
            body += inflate.decompress(piece, self._max_bytes + 1 - len(body)) if inflate else piece
            if len(body) > self._max_bytes:
                raise _failed(url, f"larger than web.pages.max_mb ({self._settings.max_mb:g} MB)")
        return bytes(body)


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the numeric addresses of a host, as the system orders them.

    Raises:
        OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _failed(url: str, reason: str, *, transient: bool = False) -> SearchError:
    return SearchError(f"{canonical_url(url)[:200]}: {reason}", component="page", transient=transient)
