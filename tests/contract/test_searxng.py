"""Web search by a SearXNG instance, against a server that speaks its JSON API."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crag_graph.components.search.searxng import SearxngSearch
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.settings import SearxngSettings, WebSettings
from tests.servers.searxng_server import SearxngServer, found, hit, refused
from tests.servers.tavily_server import answer, black_hole, dropped, raw

pytestmark = pytest.mark.anyio
GOOD = hit("https://example.com/a", "It weighs 3 kg.")


@pytest.fixture
def instance() -> Iterator[SearxngServer]:
    with SearxngServer() as server:
        yield server


def _search(server: SearxngServer, web: dict[str, Any] | None = None, **settings: Any) -> SearxngSearch:
    return SearxngSearch(SearxngSettings(base_url=server.origin, **settings), WebSettings(**web or {}))


async def test_hits_become_documents(instance: SearxngServer) -> None:
    instance.replies = [
        found(
            hit("https://example.com/a", "It weighs 3 kg.", "The  Falcon", publishedDate="2024-05-02T00:00:00"),
            hit("https://example.org/b", "Two hours.", publishedDate=None),
        )
    ]
    first, second = await _search(instance).ainvoke("falcon weight")
    assert first.page_content == "It weighs 3 kg."
    assert first.metadata == {
        "origin": "web",
        "provider": "searxng",
        "url": "https://example.com/a",
        "title": "The Falcon",
        "date": "2024-05-02",
    }
    assert "date" not in second.metadata


async def test_the_settings_reach_the_instance(instance: SearxngServer) -> None:
    instance.replies = [found()]
    search = _search(instance, language="de", categories=("general", "science"), engines=("wikipedia",))
    assert await search.ainvoke("falcon  weight\n") == []
    assert instance.searches == [
        {
            "q": "falcon weight",
            "format": "json",
            "language": "de",
            "categories": "general,science",
            "engines": "wikipedia",
        }
    ]


@pytest.mark.parametrize(
    ("query", "back"), [("falcon news of today", "day"), ("what changed this week", "month"), ("falcon weight", None)]
)
async def test_only_a_query_about_now_is_limited_in_time(instance: SearxngServer, query: str, back: str | None) -> None:
    instance.replies = [found()]
    await _search(instance).ainvoke(query)
    assert instance.searches[0].get("time_range") == back


@pytest.mark.parametrize("ending", ["/", "/search"])
async def test_the_address_may_be_written_as_the_browser_shows_it(instance: SearxngServer, ending: str) -> None:
    instance.replies = [found(GOOD)]
    search = SearxngSearch(SearxngSettings(base_url=instance.origin + ending), WebSettings())
    assert len(await search.ainvoke("q")) == 1


@pytest.mark.parametrize(
    ("query", "sent"), [("!!g private words", "g private words"), (":fr <9 tour ?x", "fr 9 tour x"), ("a !", "a")]
)
async def test_a_query_cannot_choose_engines_languages_or_time_limits(
    instance: SearxngServer, query: str, sent: str
) -> None:
    instance.replies = [found()]
    await _search(instance).ainvoke(query)
    assert instance.searches[0]["q"] == sent


async def test_pages_are_kept_once_from_allowed_hosts_and_as_many_as_wanted(instance: SearxngServer) -> None:
    pages = [
        "https://a.org/1",
        "https://bad.org/2",
        "https://A.org/1/?utm_source=x",
        "https://a.org/3",
        "https://a.org/4",
    ]
    instance.replies = [found(*(hit(page, f"text {n}") for n, page in enumerate(pages)))]
    search = _search(instance, {"max_results": 2, "deny_domains": ("bad.org",)})
    assert [document.page_content for document in await search.ainvoke("q")] == ["text 0", "text 3"]


@pytest.mark.parametrize("bad", [hit("https://a.org", None), hit(None, "text"), hit("magnet:?x", "text"), "text", None])
async def test_a_malformed_hit_is_dropped_and_the_others_stay(instance: SearxngServer, bad: Any) -> None:
    instance.replies = [found(bad, GOOD)]
    assert [document.page_content for document in await _search(instance).ainvoke("q")] == ["It weighs 3 kg."]


async def test_an_instance_that_gives_no_json_is_told_what_to_change(instance: SearxngServer) -> None:
    instance.formats = ("html",)
    with pytest.raises(SearchError, match=r"gives no JSON.*\(403\).*search\.formats in the settings\.yml") as caught:
        await _search(instance).ainvoke("q")
    assert not caught.value.transient
    assert len(instance.requests) == 1


async def test_a_web_page_instead_of_json_is_told_the_same(instance: SearxngServer) -> None:
    instance.replies = [raw(b"<html>results</html>", content_type="text/html; charset=utf-8")]
    with pytest.raises(SearchError, match=r"a web page instead of JSON; add json to search\.formats"):
        await _search(instance).ainvoke("q")


async def test_nothing_found_is_an_error_only_where_no_engine_answered(instance: SearxngServer) -> None:
    instance.replies = [found(), found(unresponsive=[["duckduckgo", "CAPTCHA"], ["bing", "timeout"]])]
    search = _search(instance)
    assert await search.ainvoke("q") == []
    with pytest.raises(SearchError, match="no engine answered: duckduckgo: CAPTCHA; bing: timeout") as caught:
        await search.ainvoke("q")
    assert caught.value.transient


async def test_engines_that_did_not_respond_do_no_harm_to_the_others(instance: SearxngServer) -> None:
    instance.replies = [found(GOOD, unresponsive=[["bing", "timeout"]])]
    assert len(await _search(instance).ainvoke("q")) == 1


@pytest.mark.parametrize(
    "reply",
    [
        answer(None),
        answer([]),
        answer({"results": None}),
        answer({"results": ["text"]}),
        raw(b"{", content_type="a/json"),
    ],
)
async def test_an_answer_that_is_none_is_called_unreadable(instance: SearxngServer, reply: Any) -> None:
    instance.replies = [reply]
    with pytest.raises(SearchError, match="unreadable answer") as caught:
        await _search(instance).ainvoke("q")
    assert not caught.value.transient


async def test_a_refusal_says_what_the_instance_says(instance: SearxngServer) -> None:
    instance.replies = [refused(400, "unknown language")]
    with pytest.raises(SearchError, match=r"bad request \(400\); unknown language"):
        await _search(instance).ainvoke("q")
    assert len(instance.requests) == 1


@pytest.mark.parametrize("failure", [refused(429, retry_after=0), refused(500), dropped()])
async def test_a_passing_fault_is_retried(instance: SearxngServer, failure: Any) -> None:
    instance.replies = [failure, found(GOOD)]
    assert len(await _search(instance).ainvoke("q")) == 1
    assert len(instance.requests) == 2


async def test_a_black_hole_costs_no_more_than_the_time_allowed(instance: SearxngServer) -> None:
    instance.replies = lambda _: black_hole()
    started = time.monotonic()
    with pytest.raises(SearchError, match=r"timeout.*web\.searxng\.timeout_s") as caught:
        await _search(instance, timeout_s=0.5).ainvoke("q")
    assert caught.value.transient
    assert time.monotonic() - started < 1.5


def test_synchronous_code_gets_the_same_hits(instance: SearxngServer) -> None:
    instance.replies = lambda _: found(GOOD)
    search = _search(instance)
    assert search.invoke("q") == asyncio.run(search.ainvoke("q"))


@pytest.mark.parametrize("url", [None, ""])
def test_a_missing_instance_is_found_when_building(url: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"web\.searxng\.base_url is not set"):
        SearxngSearch(SearxngSettings(base_url=url), WebSettings())


def test_an_address_that_is_none_is_found_when_building() -> None:
    with pytest.raises(ConfigurationError, match=r"web\.searxng\.base_url is 'searx\.example\.com'"):
        SearxngSearch(SearxngSettings(base_url="searx.example.com"), WebSettings())
