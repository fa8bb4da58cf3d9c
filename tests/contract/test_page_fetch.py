"""Reading pages over real connections: where the client goes, where it does not, and what it makes of what it gets."""

import asyncio
import datetime
import gzip
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.fetch import PageFetch
from crag_graph.components.search.page_text import with_page_text
from crag_graph.errors import SearchError
from crag_graph.notices import noticed
from crag_graph.protocols import Search
from crag_graph.web_settings import PageSettings
from tests.servers.page_server import Answer, PageServer, dripping, dropped, endless, html, moved, raw

pytestmark = pytest.mark.anyio
WEIGHT = "The Falcon weighs three kilograms, batteries and camera included."
HTML = {"Content-Type": "text/html"}
PAGE = f"<html><body><article><p>{WEIGHT}</p></article></body></html>".encode()


@pytest.fixture
def site() -> Iterator[PageServer]:
    with PageServer({"/": html(WEIGHT, title="The Falcon")}) as server:
        yield server


def _fetch(site: PageServer, *, addresses: dict[str, list[str]] | None = None, **settings: Any) -> PageFetch:
    """A client to whom 127.0.0.1 is the public internet, and every other loopback address is private."""

    async def resolve(host: str, port: int) -> list[str]:
        if addresses and host in addresses:
            return addresses[host]
        return [host]

    settings = {"ports": (80, 443, site.port), **settings}
    return PageFetch(PageSettings(**settings), resolve, lambda address: address == "127.0.0.1")


async def test_a_page_comes_as_its_main_text(site: PageServer) -> None:
    page = await _fetch(site)(site.origin + "/")
    assert page.text == WEIGHT
    assert page.title == "The Falcon"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1/", "not on the public internet"),
        ("https://localhost/", "not on the public internet"),
        ("http://[::1]/", "not on the public internet"),
        ("http://169.254.169.254/latest/meta-data/", "not on the public internet"),
        ("http://2130706433/", "not on the public internet"),
        ("http://0177.0.0.1/", "no web address"),
        ("http://0x7f.1/", "not on the public internet"),
        ("http://127.1/", "not on the public internet"),
        ("http://0/", "not on the public internet"),
        ("http://10.0.0.8/", "not on the public internet"),
        ("http://192.168.1.1/", "not on the public internet"),
        ("http://100.64.0.1/", "not on the public internet"),
        ("http://224.0.0.1/", "not on the public internet"),
        ("http://255.255.255.255/", "not on the public internet"),
        ("http://[::ffff:127.0.0.1]/", "not on the public internet"),
        ("http://[::ffff:a9fe:a9fe]/", "not on the public internet"),
        ("http://[64:ff9b::7f00:1]/", "not on the public internet"),
        ("http://[2002:7f00:1::]/", "not on the public internet"),
        ("http://[fd00:ec2::254]/", "not on the public internet"),
        ("http://[fe80::1]/", "not on the public internet"),
        ("http://[::]/", "not on the public internet"),
        ("http://user@127.0.0.1/", "user name"),
        ("http://example.com@127.0.0.1/", "user name"),
        ("http://127.0.0.1\\@example.com/", "user name"),
        ("http://example.com:22/", "port 22"),
        ("http://example.com:0/", "port 0"),
        ("https://example.com:8443/", "port 8443"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://127.0.0.1:70/1", "only http and https"),
        ("ftp://example.com/", "only http and https"),
        ("data:text/html,<p>x</p>", "only http and https"),
        ("//example.com/", "only http and https"),
        ("http:///etc/passwd", "only http and https"),
        ("http://[::1", "no web address"),
        ("http://" + "a" * 70 + ".example/", "no web address"),
        ("", "only http and https"),
    ],
)
async def test_where_no_page_should_lead_nothing_is_asked(url: str, reason: str) -> None:
    with pytest.raises(SearchError, match=reason) as caught:
        await PageFetch(PageSettings())(url)
    assert not caught.value.transient


@pytest.mark.parametrize("others", [["127.0.0.2"], ["::1"], ["10.1.2.3"], ["not an address"]])
async def test_a_name_with_one_private_address_is_refused_whatever_its_others_are(
    site: PageServer, others: list[str]
) -> None:
    fetch = _fetch(site, addresses={"pages.example": ["127.0.0.1", *others]})
    with pytest.raises(SearchError, match=r"not on the public internet"):
        await fetch(f"http://pages.example:{site.port}/")
    assert site.requests == []


async def test_the_connection_goes_to_the_address_that_was_checked(site: PageServer) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    fetch = PageFetch(PageSettings(ports=(site.port,)), resolve, lambda address: address == "127.0.0.1")
    url = f"http://no-such-host.example:{site.port}/"
    assert (await fetch(url)).text == WEIGHT
    assert asked == ["no-such-host.example"]
    assert site.requests[0].headers["Host"] == f"no-such-host.example:{site.port}"
    with pytest.raises(SearchError, match=r"127\.0\.0\.2, which is not on the public internet"):
        await fetch(url)
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "http://[::1]:{port}/",
        "http://inside.example:{port}/",
        "//169.254.169.254/latest/",
        "http://127.0.0.1:6379/",
        "http://a:b@127.0.0.1:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
    ],
)
async def test_a_redirect_is_checked_like_the_page_itself(site: PageServer, location: str) -> None:
    site.pages["/out"] = moved(location.format(port=site.port))
    fetch = _fetch(site, addresses={"inside.example": ["127.0.0.2"]})
    with pytest.raises(SearchError, match=r"not on the public internet|not among|only http|user name"):
        await fetch(site.origin + "/out")
    assert site.paths == ["/out"]


async def test_a_redirect_is_followed_with_the_name_of_its_own_host(site: PageServer) -> None:
    site.pages["/out"] = moved(f"http://other.example:{site.port}/in")
    site.pages["/in"] = moved("/", status=308)
    fetch = _fetch(site, addresses={"other.example": ["127.0.0.1"]})
    assert (await fetch(site.origin + "/out")).text == WEIGHT
    assert [request.headers["Host"].split(":")[0] for request in site.requests] == [
        "127.0.0.1",
        "other.example",
        "other.example",
    ]


async def test_redirects_in_a_circle_end(site: PageServer) -> None:
    site.pages["/round"] = moved("/round")
    with pytest.raises(SearchError, match="more than 5 redirects"):
        await _fetch(site)(site.origin + "/round")
    assert len(site.requests) == 6


async def test_a_proxy_of_the_environment_sees_nothing(site: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with PageServer({}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        monkeypatch.setenv("ALL_PROXY", proxy.origin)
        assert (await _fetch(site)(site.origin + "/")).text == WEIGHT
        assert proxy.requests == []


async def test_private_addresses_are_read_where_the_settings_allow_it(site: PageServer) -> None:
    fetch = PageFetch(PageSettings(ports=(site.port,), allow_private=True))
    assert (await fetch(f"http://localhost:{site.port}/")).text == WEIGHT


async def test_an_address_that_does_not_answer_leaves_the_next_one(site: PageServer) -> None:
    fetch = PageFetch(
        PageSettings(ports=(site.port,), allow_private=True), lambda host, port: _addresses("::1", "127.0.0.1")
    )
    assert (await fetch(f"http://pages.example:{site.port}/")).text == WEIGHT


async def _addresses(*addresses: str) -> list[str]:
    return list(addresses)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (endless(), "larger than"),
        (raw(b"<p>x</p>" * 40_000, HTML), "larger than"),
        (raw(gzip.compress(b"0" * 50_000_000), {**HTML, "Content-Encoding": "gzip"}), "larger than"),
        (raw(zlib.compress(b"0" * 50_000_000), {**HTML, "Content-Encoding": "deflate"}), "larger than"),
        (raw(b"not compressed", {**HTML, "Content-Encoding": "gzip"}), "compression is damaged"),
        (raw(PAGE, {**HTML, "Content-Encoding": "br"}), "compressed as br"),
        (
            raw(gzip.compress(gzip.compress(PAGE)), {**HTML, "Content-Encoding": "gzip, gzip"}),
            "compressed as gzip, gzip",
        ),
        (raw(b"%PDF-1.7", {"Content-Type": "application/pdf"}), "it is application/pdf"),
        (raw(b"{}", {"Content-Type": "application/json"}), "it is application/json"),
        (raw(PAGE, {"Content-Type": ""}), "of no named type"),
        (raw(b"", HTML), "no text"),
        (raw(b"<html><body><script>draw()</script></body></html>", HTML), "no text"),
        (raw(b"gone", HTML, 404), "HTTP status 404"),
        (raw(b"", {}, 302), "HTTP status 302"),
    ],
)
async def test_what_is_no_readable_page_is_refused(site: PageServer, answer: Answer, reason: str) -> None:
    site.pages["/bad"] = answer
    with pytest.raises(SearchError, match=reason) as caught:
        await _fetch(site, max_mb=0.25)(site.origin + "/bad")
    assert not caught.value.transient
    await asyncio.to_thread(site.wait_until_idle)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(raw(b"", HTML, 503), "HTTP status 503"), (raw(b"", HTML, 429), "429"), (dropped(), "unreachable")],
)
async def test_a_passing_fault_is_called_one(site: PageServer, answer: Answer, reason: str) -> None:
    site.pages["/bad"] = answer
    with pytest.raises(SearchError, match=reason) as caught:
        await _fetch(site)(site.origin + "/bad")
    assert caught.value.transient


async def test_a_page_that_drips_costs_no_more_than_the_time_allowed(site: PageServer) -> None:
    site.pages["/slow"] = dripping()
    started = time.monotonic()
    with pytest.raises(SearchError, match=r"timeout.*web\.pages\.timeout_s") as caught:
        await _fetch(site, timeout_s=0.5)(site.origin + "/slow")
    assert time.monotonic() - started < 1.5
    assert caught.value.transient


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, bytes])
async def test_compressed_pages_are_read(site: PageServer, pack: Callable[[bytes], bytes]) -> None:
    encoding = {gzip.compress: "gzip", zlib.compress: "deflate", bytes: "identity"}[pack]
    site.pages["/packed"] = raw(pack(PAGE), {**HTML, "Content-Encoding": encoding})
    assert (await _fetch(site)(site.origin + "/packed")).text == WEIGHT


async def test_plain_text_stays_as_it_is(site: PageServer) -> None:
    site.pages["/txt"] = raw("Größe:\r\n  3 kg <b>".encode("latin-1"), {"Content-Type": "text/plain; charset=latin-1"})
    assert (await _fetch(site)(site.origin + "/txt")).text == "Größe:\n  3 kg <b>"


def test_one_client_serves_successive_event_loops(site: PageServer) -> None:
    fetch = _fetch(site)
    for _ in range(2):
        assert asyncio.run(fetch(site.origin + "/")).text == WEIGHT


def _certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate for a host name, signed by itself, and a server's context that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(1)
    )
    certificate = (
        builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = folder / "key.pem"
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return path, context


async def test_over_tls_the_certificate_is_checked_against_the_name_and_not_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = _certificate(tmp_path, "pages.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)
    with PageServer({"/": html(WEIGHT)}, tls=context) as site:
        fetch = _fetch(site, addresses={"pages.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]})
        assert (await fetch(f"https://pages.example:{site.port}/")).text == WEIGHT
        with pytest.raises(SearchError, match=r"unreachable: .*certificate"):
            await fetch(f"https://other.example:{site.port}/")
        assert names == ["pages.example", "other.example"]
        assert len(site.requests) == 1


def _hits(*hits: Document) -> Search:
    async def search(query: str) -> list[Document]:
        return list(hits)

    return RunnableLambda(search)


def _hit(url: str, text: str = "Snippet.", **metadata: Any) -> Document:
    return Document(text, id=url, metadata={"origin": "web", "provider": "tavily", "url": url, "title": ""} | metadata)


async def test_the_text_of_the_best_pages_replaces_their_snippets(site: PageServer) -> None:
    site.pages["/other"] = html("Another page with a sentence of its own, long enough to be read.")
    hits = _hit(site.origin + "/"), _hit(site.origin + "/other", title="Own title"), _hit(site.origin + "/third")
    first, second, third = await with_page_text(_hits(*hits), _fetch(site), 2, 1000).ainvoke("weight")
    assert first.page_content == WEIGHT
    assert first.metadata == {**hits[0].metadata, "title": "The Falcon"}
    assert first.id == hits[0].id
    assert second.metadata["title"] == "Own title"
    assert third is hits[2]
    assert sorted(site.paths) == ["/", "/other"]


async def test_a_page_that_cannot_be_read_leaves_the_snippet_and_a_notice(site: PageServer) -> None:
    hits = _hit(site.origin + "/gone"), _hit(site.origin + "/")
    with noticed() as said:
        first, second = await with_page_text(_hits(*hits), _fetch(site), 5, 1000).ainvoke("weight")
    assert first is hits[0]
    assert second.page_content == WEIGHT
    assert said == [f"1 of 2 pages were not read, their snippets stand in: page: {site.origin}/gone: HTTP status 404"]


async def test_a_page_that_says_less_than_its_snippet_leaves_the_snippet(site: PageServer) -> None:
    hit = _hit(site.origin + "/", "The snippet says much more than the page, which wants cookies first. " * 3)
    assert await with_page_text(_hits(hit), _fetch(site), 1, 1000).ainvoke("weight") == [hit]


async def test_of_a_long_page_the_part_that_fits_the_query_is_taken(site: PageServer) -> None:
    filler = [f"In part {n} of this story nothing of any interest happened at all." for n in range(50)]
    site.pages["/long"] = html("The story of the Falcon.", *filler, WEIGHT, *filler)
    [hit] = await with_page_text(_hits(_hit(site.origin + "/long")), _fetch(site), 1, 500).ainvoke("Falcon weighs")
    assert WEIGHT in hit.page_content
    assert len(hit.page_content) <= 500


async def test_hits_that_are_text_of_the_page_already_are_not_fetched(site: PageServer) -> None:
    hit = _hit(site.origin + "/", provider="wikipedia")
    assert await with_page_text(_hits(hit), _fetch(site), 1, 1000).ainvoke("weight") == [hit]
    assert site.requests == []


async def test_pages_are_read_side_by_side(site: PageServer) -> None:
    both_here = threading.Barrier(2, timeout=10)

    def answer(call: Any) -> None:
        both_here.wait()
        html(WEIGHT)(call)

    site.pages |= {"/1": answer, "/2": answer}
    hits = _hit(site.origin + "/1"), _hit(site.origin + "/2")
    found = await with_page_text(_hits(*hits), _fetch(site), 2, 1000).ainvoke("weight")
    assert [hit.page_content for hit in found] == [WEIGHT, WEIGHT]
