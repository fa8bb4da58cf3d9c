"""Search of a wiki by the real client against a server that speaks the MediaWiki API."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crag_graph.components.search.wikipedia import WikipediaSearch
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.notices import noticed
from crag_graph.settings import WebSettings
from crag_graph.web_settings import WikipediaSettings
from tests.servers.tavily_server import answer, black_hole, dropped, raw, refused
from tests.servers.wikipedia_server import Article, WikipediaServer, api_error

pytestmark = pytest.mark.anyio
FALCON = Article(
    "Falcon (drone)", "The Falcon is a survey drone.\n\n\n== Specifications ==\nIt weighs 3 kg.\n\n\n== See also ==\n"
)
OSPREY = Article("Osprey (drone)", "The Osprey is a larger drone that weighs 9 kg.", edited="2023-01-31T23:59:59Z")
NAMES = Article("Falcon", "Falcon may refer to a bird or a drone.", disambiguation=True)


@pytest.fixture
def wiki() -> Iterator[WikipediaServer]:
    with WikipediaServer([FALCON, OSPREY]) as server:
        yield server


def _search(server: WikipediaServer, web: dict[str, Any] | None = None, **settings: Any) -> WikipediaSearch:
    return WikipediaSearch(WikipediaSettings(base_url=server.base_url, **settings), WebSettings(**web or {}))


async def test_pages_become_documents(wiki: WikipediaServer) -> None:
    [falcon] = await _search(wiki).ainvoke("survey drone")
    assert falcon.page_content == "The Falcon is a survey drone.\n\n## Specifications\n\nIt weighs 3 kg."
    assert falcon.metadata == {
        "origin": "web",
        "provider": "wikipedia",
        "url": "https://en.wikipedia.org/wiki/Falcon_(drone)",
        "title": "Falcon (drone)",
        "date": "2024-05-02",
    }
    assert falcon.id is not None
    assert falcon.id.startswith("web-")


async def test_pages_keep_the_order_of_the_search_and_not_of_the_answer(wiki: WikipediaServer) -> None:
    found = await _search(wiki).ainvoke("drone weighs")
    assert [hit.metadata["title"] for hit in found] == ["Falcon (drone)", "Osprey (drone)"]
    assert [hit.metadata["date"] for hit in found] == ["2024-05-02", "2023-01-31"]


async def test_of_a_long_page_the_part_that_fits_the_query_is_taken(wiki: WikipediaServer) -> None:
    filler = "".join(
        f"\n\n\n== Part {n} ==\nNothing of interest happened in this part of the story." for n in range(60)
    )
    wiki.articles = [Article("Falcon", f"The Falcon is a drone.{filler}\n\n\n== Mass ==\nThe weight is 3 kg.{filler}")]
    [falcon] = await _search(wiki, max_chars=400).ainvoke("Falcon weight")
    assert falcon.page_content.startswith("The Falcon is a drone.")
    assert "## Mass\n\nThe weight is 3 kg." in falcon.page_content
    assert len(falcon.page_content) <= 400


async def test_only_the_first_pages_are_read_whole(wiki: WikipediaServer) -> None:
    found = await _search(wiki, full_pages=0).ainvoke("drone weighs")
    assert found[0].page_content == "The Falcon is a survey drone."
    assert len(wiki.requests) == 1
    await _search(wiki, full_pages=1).ainvoke("drone weighs")
    assert [query.get("pageids") for query in wiki.queries] == [None, None, "1"]


async def test_a_page_that_only_tells_names_apart_is_left_out(wiki: WikipediaServer) -> None:
    wiki.articles = [NAMES, FALCON]
    assert [hit.metadata["title"] for hit in await _search(wiki).ainvoke("falcon drone")] == ["Falcon (drone)"]


async def test_pages_that_are_missing_or_have_no_text_are_left_out(wiki: WikipediaServer) -> None:
    wiki.articles = [Article("Falcon gone", "", missing=True), Article("Falcon stub", ""), Article("Falcon", "A bird.")]
    assert [hit.page_content for hit in await _search(wiki).ainvoke("falcon")] == ["A bird."]


async def test_where_no_page_has_all_words_those_with_any_are_found(wiki: WikipediaServer) -> None:
    found = await _search(wiki).ainvoke('"survey drone" warranty 2026')
    assert [hit.metadata["title"] for hit in found] == ["Falcon (drone)", "Osprey (drone)"]
    assert [query["gsrsearch"] for query in wiki.queries[:2]] == [
        '"survey drone" warranty 2026',
        "survey OR drone OR warranty OR 2026",
    ]


async def test_nothing_found_is_no_error(wiki: WikipediaServer) -> None:
    assert await _search(wiki).ainvoke("anemometer") == []


async def test_hosts_and_number_are_limited_as_for_every_source(wiki: WikipediaServer) -> None:
    assert len(await _search(wiki, {"max_results": 1}).ainvoke("drone")) == 1
    assert await _search(wiki, {"deny_domains": ("wikipedia.org",)}).ainvoke("drone") == []


@pytest.mark.parametrize("query", ["drone " * 200, "😀" * 500, "a" * 500])
async def test_a_query_is_cut_to_what_the_service_takes(wiki: WikipediaServer, query: str) -> None:
    await _search(wiki).ainvoke(query)
    assert all(0 < len(sent["gsrsearch"]) <= 300 for sent in wiki.queries if "gsrsearch" in sent)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("-drone !falcon", "drone falcon"),
        ("Talk: what is insource:/x/?", "Talk what is insource /x/"),
        ("truth table of AND", "truth table of and"),
        ("C++ in std-lib", "C++ in std-lib"),
    ],
)
async def test_what_the_engine_takes_for_an_operator_is_disarmed(wiki: WikipediaServer, query: str, sent: str) -> None:
    await _search(wiki).ainvoke(query)
    assert wiki.queries[0]["gsrsearch"] == sent


async def test_the_language_is_that_of_the_settings_or_of_the_query(wiki: WikipediaServer) -> None:
    base_url = f"{wiki.origin}/{{language}}/api.php"
    for language, query in (
        ("auto", "Wie hoch ist der Turm und das Haus"),
        ("auto", "東京はどこですか"),
        ("fi", "torni"),
    ):
        await WikipediaSearch(WikipediaSettings(base_url=base_url, language=language), WebSettings()).ainvoke(query)
    asked = dict.fromkeys(request.path.split("/")[1] for request in wiki.requests)
    assert list(asked) == ["de", "ja", "fi"]


async def test_the_program_says_who_it_is_and_whom_to_write_to(wiki: WikipediaServer) -> None:
    await _search(wiki, contact="ops@example.com").ainvoke("drone")
    agents = {request.headers["User-Agent"] for request in wiki.requests}
    assert len(agents) == 1
    assert agents.pop().startswith("crag-graph")
    assert wiki.requests[0].headers["User-Agent"].endswith("(ops@example.com)")


@pytest.mark.parametrize(
    "failure",
    [
        api_error("maxlag", "Waiting for a database server", retry_after=0),
        api_error("ratelimited", "too fast"),
        api_error("cirrussearch-too-busy-error", "Search is currently too busy"),
        refused(429, retry_after=0),
        raw(b"<html>our servers are under maintenance</html>", 503),
        dropped(),
    ],
)
async def test_a_passing_fault_is_retried(wiki: WikipediaServer, failure: Any) -> None:
    wiki.replies = [failure]
    assert len(await _search(wiki, full_pages=0).ainvoke("survey drone")) == 1
    assert len(wiki.requests) == 2


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (api_error("badvalue", "Unrecognized value"), "refused, badvalue: Unrecognized value"),
        (answer({"error": "no"}), "refused, an error it does not name"),
        (refused(403), r"refused \(403\); set web\.wikipedia\.contact"),
        (raw(b"Not Found", 404), r"404.*check web\.wikipedia\.base_url"),
        (raw(b"<html>Sign in to the hotel Wi-Fi</html>"), "unreadable answer: not the JSON"),
        (raw(b'{"query": {', content_type="application/json"), "unreadable answer: not the JSON"),
        (answer({}), "unreadable answer: not that of a MediaWiki API"),
        (answer([]), "unreadable answer: not that of a MediaWiki API"),
        (answer(None), "unreadable answer: not that of a MediaWiki API"),
        (answer({"query": 7}), "unreadable answer"),
        (answer({"query": {"pages": [{"title": "x", "extract": "y", "revisions": "z"}]}}), "unreadable answer"),
    ],
)
async def test_what_a_retry_cannot_mend_is_asked_once_and_says_why(
    wiki: WikipediaServer, failure: Any, reason: str
) -> None:
    wiki.replies = [failure]
    with pytest.raises(SearchError, match=reason) as caught:
        await _search(wiki).ainvoke("drone")
    assert not caught.value.transient
    assert len(wiki.requests) == 1


async def test_a_wait_longer_than_the_time_allowed_is_not_begun(wiki: WikipediaServer) -> None:
    wiki.replies = [api_error("maxlag", "Waiting", retry_after=60)]
    started = time.monotonic()
    with pytest.raises(SearchError, match=r"maxlag.*asks to wait 60 s") as caught:
        await _search(wiki, timeout_s=5).ainvoke("drone")
    assert caught.value.transient
    assert time.monotonic() - started < 4


async def test_a_black_hole_costs_no_more_than_the_time_allowed(wiki: WikipediaServer) -> None:
    wiki.replies = lambda _: black_hole()
    started = time.monotonic()
    with pytest.raises(SearchError, match="timeout") as caught:
        await _search(wiki, timeout_s=0.5).ainvoke("drone")
    assert caught.value.transient
    assert time.monotonic() - started < 1.5


async def test_a_whole_page_that_does_not_come_leaves_its_introduction_and_a_notice(wiki: WikipediaServer) -> None:
    wiki.replies = lambda asked: refused(500) if "pageids" in asked else None
    with noticed() as said:
        [hit] = await _search(wiki).ainvoke("survey drone")
    assert hit.page_content == "The Falcon is a survey drone."
    assert said == ["of some pages only the introduction was read: wikipedia: server error (500)"]


async def test_a_wiki_without_extracts_is_told_what_it_lacks() -> None:
    with WikipediaServer([FALCON], extracts=False) as wiki, pytest.raises(SearchError, match="TextExtracts"):
        await _search(wiki).ainvoke("drone")


async def test_a_wiki_that_is_not_there_is_named_unreachable(wiki: WikipediaServer) -> None:
    search = _search(wiki, max_retries=0)
    wiki.stop()
    with pytest.raises(SearchError, match=r"unreachable: .*127\.0\.0\.1") as caught:
        await search.ainvoke("drone")
    assert caught.value.transient


def test_synchronous_code_gets_the_same_pages_as_often_as_it_asks(wiki: WikipediaServer) -> None:
    search = _search(wiki)
    found = [search.invoke("survey drone"), search.invoke("survey drone"), asyncio.run(search.ainvoke("survey drone"))]
    assert [hit.metadata["title"] for hits in found for hit in hits] == ["Falcon (drone)"] * 3


@pytest.mark.parametrize("url", ["en.wikipedia.org", "ftp://example.com", ""])
def test_an_address_that_is_none_is_found_when_building(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"web\.wikipedia\.base_url"):
        WikipediaSearch(WikipediaSettings(base_url=url), WebSettings())
