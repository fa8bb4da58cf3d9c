"""Web search by the real Tavily client against a server that speaks its protocol."""

import asyncio
import logging
import time
import traceback
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from langchain_core.documents import Document

from crag_graph.components.search.tavily import TavilySearch
from crag_graph.errors import ConfigurationError, SearchError
from crag_graph.settings import TavilySettings, WebSettings
from tests.servers.tavily_server import TavilyServer, answer, black_hole, dropped, found, hit, raw, refused

pytestmark = pytest.mark.anyio
GOOD = hit("https://example.com/a", "It weighs 3 kg.")


def _search(server: TavilyServer, timeout_s: float = 10, max_retries: int = 2, **web: Any) -> TavilySearch:
    tavily = TavilySettings(base_url=server.origin, timeout_s=timeout_s, max_retries=max_retries)
    return TavilySearch(WebSettings(tavily=tavily, **web))


async def test_hits_become_documents(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [
        found(
            hit(
                "https://Example.com/a?utm_source=x",
                "It weighs 3 kg.",
                "The  Falcon\n drone",
                0.87,
                raw_content="<the whole page>",
                published_date="Thu, 02 May 2024 10:00:00 GMT",
            ),
            hit("https://example.org/b", "Two hours.", published_date="2024-05-03T08:00:00Z"),
            hit("https://example.net/c", "Undated.", published_date="last week", score=float("nan")),
        )
    ]
    first, second, third = await _search(tavily_server).ainvoke("falcon weight")
    assert first.page_content == "It weighs 3 kg."
    assert first.metadata == {
        "origin": "web",
        "provider": "tavily",
        "url": "https://Example.com/a?utm_source=x",
        "title": "The Falcon drone",
        "date": "2024-05-02",
        "retrieval_score": 0.87,
    }
    assert first.id is not None
    assert first.id.startswith("web-")
    assert second.metadata["date"] == "2024-05-03"
    assert "date" not in third.metadata
    assert "retrieval_score" not in third.metadata


async def test_the_settings_reach_the_service(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [found()]
    search = _search(tavily_server, max_results=7, allow_domains=("example.com",), deny_domains=("bad.example.com",))
    assert await search.ainvoke("falcon weight") == []
    sent = tavily_server.searches[0]
    assert sent["query"] == "falcon weight"
    assert sent["max_results"] == 7
    assert sent["search_depth"] == "basic"
    assert sent["include_domains"] == ["example.com"]
    assert sent["exclude_domains"] == ["bad.example.com"]
    assert "include_raw_content" not in sent


def test_synchronous_code_gets_the_same_hits_as_often_as_it_asks(tavily_server: TavilyServer) -> None:
    tavily_server.replies = lambda _: found(GOOD)
    search = _search(tavily_server)
    for _ in range(2):
        assert [hit.page_content for hit in search.invoke("falcon weight")] == ["It weighs 3 kg."]
    assert [hit.page_content for hit in asyncio.run(search.ainvoke("falcon weight"))] == ["It weighs 3 kg."]


@pytest.mark.parametrize(
    ("query", "length"), [("corrective retrieval " * 150, 398), ("a" * 395 + " weight", 395), ("😀" * 500, 400)]
)
async def test_a_query_is_cut_at_a_word_to_what_the_service_takes(
    tavily_server: TavilyServer, query: str, length: int
) -> None:
    tavily_server.replies = [found(GOOD)]
    assert len(await _search(tavily_server).ainvoke(query)) == 1
    sent = tavily_server.searches[0]["query"]
    assert len(sent) == length
    assert query.startswith(sent)


async def test_a_query_arrives_as_one_line_with_all_its_characters(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [found()]
    await _search(tavily_server).ainvoke('price of {x} "$5"\n\\frac{1}{2} 日本 {{y}}')
    assert tavily_server.searches[0]["query"] == 'price of {x} "$5" \\frac{1}{2} 日本 {{y}}'


async def test_hosts_are_checked_again_on_our_side(tavily_server: TavilyServer) -> None:
    pages = [
        "https://docs.example.com/1",
        "https://badexample.com/2",
        "https://bad.example.com/3",
        "https://other.org/4",
    ]
    tavily_server.replies = [found(*(hit(page, "text") for page in pages))]
    search = _search(tavily_server, allow_domains=("example.com",), deny_domains=("bad.example.com",))
    assert [d.metadata["url"] for d in await search.ainvoke("q")] == ["https://docs.example.com/1"]


async def test_a_page_that_comes_twice_is_kept_once_and_the_best_first(tavily_server: TavilyServer) -> None:
    pages = ["https://example.com/a", "https://EXAMPLE.com/a/?utm_medium=x#top", "https://example.com/b"]
    tavily_server.replies = [found(*(hit(page, f"text {n}") for n, page in enumerate(pages)))]
    assert [d.page_content for d in await _search(tavily_server).ainvoke("q")] == ["text 0", "text 2"]


async def test_no_more_hits_are_kept_than_asked_for(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [found(*(hit(f"https://example.com/{n}", "text") for n in range(9)))]
    assert len(await _search(tavily_server, max_results=2).ainvoke("q")) == 2


@pytest.mark.parametrize(
    "bad",
    [
        {"url": "https://example.com/x"},
        {"content": "text"},
        hit("https://example.com/x", None),
        hit("https://example.com/x", " \n"),
        hit(None, "text"),
        hit("javascript:alert(1)", "text"),
        hit("file:///etc/passwd", "text"),
        hit("https://", "text"),
        hit("https://example.com/x", ["text"]),
        "https://example.com/x",
        None,
        7,
    ],
)
async def test_a_malformed_hit_is_dropped_and_the_others_stay(tavily_server: TavilyServer, bad: Any) -> None:
    tavily_server.replies = [found(bad, GOOD)]
    assert [d.page_content for d in await _search(tavily_server).ainvoke("q")] == ["It weighs 3 kg."]


async def test_odd_fields_of_a_good_hit_do_no_harm(tavily_server: TavilyServer) -> None:
    odd = hit("https://example.com/x", "half \ud835 letter", title=None, score="high", published_date=["2024"])
    tavily_server.replies = [found(odd, {"url": "https://example.com/y", "content": "bare"})]
    first, second = await _search(tavily_server).ainvoke("q")
    assert first.page_content == "half ? letter"
    assert first.metadata["title"] == ""
    assert second.metadata == {
        "origin": "web",
        "provider": "tavily",
        "url": "https://example.com/y",
        "title": "",
    }


@pytest.mark.parametrize(
    "reply",
    [
        answer(None),
        answer([]),
        answer("Error 500: try later"),
        answer({"results": None}),
        answer({"results": "none"}),
        answer({"results": ["text", "text"]}),
        answer({"error": "no credits"}),
        raw(b"<html>Sign in to the hotel Wi-Fi</html>"),
        raw(b"", 204),
        raw(b'{"results": [', content_type="application/json"),
        raw(b'{"results": ["\xff"]}', content_type="application/json"),
        raw(b"Not Found", 404),
    ],
)
async def test_an_answer_that_is_none_is_called_unreadable_and_not_asked_for_again(
    tavily_server: TavilyServer, reply: Any
) -> None:
    tavily_server.replies = [reply]
    with pytest.raises(SearchError, match="unreadable answer") as caught:
        await _search(tavily_server).ainvoke("q")
    assert not caught.value.transient
    assert len(tavily_server.requests) == 1


async def test_no_results_is_not_an_error(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [found()]
    assert await _search(tavily_server).ainvoke("q") == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "bad request"),
        (401, "key refused .*check TAVILY_API_KEY"),
        (403, "key refused .*check TAVILY_API_KEY"),
        (422, "bad request"),
        (432, "quota of the plan"),
        (433, "quota of pay-as-you-go"),
    ],
)
async def test_what_a_retry_cannot_mend_is_asked_once_and_says_why(
    tavily_server: TavilyServer, status: int, reason: str
) -> None:
    tavily_server.replies = [refused(status, "said by the service"), found(GOOD)]
    with pytest.raises(SearchError, match=reason) as caught:
        await _search(tavily_server).ainvoke("q")
    assert not caught.value.transient
    assert f"({status})" in str(caught.value)
    assert "said by the service" in str(caught.value)
    assert len(tavily_server.requests) == 1


@pytest.mark.parametrize("failure", [refused(429, retry_after=0), refused(500), raw(b"<html>", 503), dropped()])
async def test_a_passing_fault_is_retried(tavily_server: TavilyServer, failure: Any) -> None:
    tavily_server.replies = [failure, found(GOOD)]
    assert len(await _search(tavily_server).ainvoke("q")) == 1
    assert len(tavily_server.requests) == 2


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(refused(429, retry_after=0), "rate limit"), (refused(500), "server error"), (dropped(), "unreachable")],
)
async def test_a_fault_that_does_not_pass_is_given_up_and_called_passing(
    tavily_server: TavilyServer, failure: Any, reason: str
) -> None:
    tavily_server.replies = lambda _: failure
    with pytest.raises(SearchError, match=reason) as caught:
        await _search(tavily_server, max_retries=1).ainvoke("q")
    assert caught.value.transient
    assert len(tavily_server.requests) == 2


async def test_the_service_is_asked_again_no_sooner_than_it_wishes(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [refused(429, retry_after=1), found(GOOD)]
    started = time.monotonic()
    assert len(await _search(tavily_server).ainvoke("q")) == 1
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("as_date", [False, True])
async def test_a_wait_longer_than_the_time_allowed_is_not_begun(tavily_server: TavilyServer, as_date: bool) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=65), usegmt=True)
    tavily_server.replies = [refused(429, retry_after=date if as_date else 60)]
    started = time.monotonic()
    with pytest.raises(SearchError, match=r"rate limit.*asks to wait 6\d s") as caught:
        await _search(tavily_server, timeout_s=5).ainvoke("q")
    assert caught.value.transient
    assert time.monotonic() - started < 4


async def test_a_black_hole_costs_no_more_than_the_time_allowed(tavily_server: TavilyServer) -> None:
    tavily_server.replies = lambda _: black_hole()
    started = time.monotonic()
    with pytest.raises(SearchError, match="timeout") as caught:
        await _search(tavily_server, timeout_s=1).ainvoke("q")
    assert time.monotonic() - started < 1.5
    assert caught.value.transient


async def test_one_swallowed_request_leaves_time_for_another(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [black_hole(), found(GOOD)]
    assert len(await _search(tavily_server, timeout_s=3).ainvoke("q")) == 1


async def test_a_service_that_is_not_there_is_named_unreachable(tavily_server: TavilyServer) -> None:
    search = _search(tavily_server, max_retries=0)
    tavily_server.stop()
    with pytest.raises(SearchError, match=r"unreachable: .*127\.0\.0\.1") as caught:
        await search.ainvoke("q")
    assert caught.value.transient


async def test_a_caller_who_gives_up_is_not_told_of_a_timeout(tavily_server: TavilyServer) -> None:
    tavily_server.replies = lambda _: black_hole()
    task = asyncio.create_task(_search(tavily_server).ainvoke("q"))
    await asyncio.to_thread(tavily_server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_found_when_building(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("MY_SEARCH_KEY", raising=False)
    else:
        monkeypatch.setenv("MY_SEARCH_KEY", value)
    with pytest.raises(ConfigurationError, match="MY_SEARCH_KEY is not set"):
        TavilySearch(WebSettings(tavily=TavilySettings(api_key_env="MY_SEARCH_KEY")))


@pytest.mark.parametrize("url", ["api.example.com", "ftp://example.com", "http://", "http://[::1"])
def test_a_base_url_that_is_none_is_found_when_building(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    with pytest.raises(ConfigurationError, match=r"web\.tavily\.base_url"):
        TavilySearch(WebSettings(tavily=TavilySettings(base_url=url)))


async def test_the_key_shows_nowhere(
    tavily_server: TavilyServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = tavily_server.api_key = "tvly-very-secret"
    monkeypatch.setenv("TAVILY_API_KEY", key)
    caplog.set_level(logging.DEBUG)
    tavily_server.replies = [
        refused(401, f"unknown key {key}"),
        answer(None),
        dropped(),
        refused(500, key),
        found(GOOD),
    ]
    search = _search(tavily_server, max_retries=0)
    shown = [repr(search), str(search)]
    for _ in range(4):
        with pytest.raises(SearchError) as caught:
            await search.ainvoke("q")
        shown += ["".join(traceback.format_exception(caught.value))]
    shown += [repr(document) for document in await search.ainvoke("q")]
    assert tavily_server.requests[-1].headers["Authorization"] == f"Bearer {key}"
    assert key not in "".join([*shown, caplog.text])


def test_a_key_with_a_stray_character_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secreté")
    with pytest.raises(ConfigurationError, match="TAVILY_API_KEY") as caught:
        TavilySearch(WebSettings())
    assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_documents_hold_plain_values_only(tavily_server: TavilyServer) -> None:
    tavily_server.replies = [found(GOOD)]
    (document,) = await _search(tavily_server).ainvoke("q")
    assert isinstance(document, Document)
    assert {type(value) for value in document.metadata.values()} <= {str, float}


@pytest.mark.parametrize(
    ("query", "looks_back"),
    [
        ("latest release of X", "year"),
        ("X release news today", "day"),
        ("latest release of X 2031", "year"),
        ("latest release of X 2024", None),
        ("weight of the Falcon drone", None),
    ],
)
async def test_only_a_query_about_now_is_limited_in_time(
    tavily_server: TavilyServer, query: str, looks_back: str | None
) -> None:
    tavily_server.replies = [found(GOOD)]
    settings = WebSettings(tavily=TavilySettings(base_url=tavily_server.origin))
    await TavilySearch(settings, today=lambda: date(2031, 5, 2)).ainvoke(query)
    assert tavily_server.searches[0].get("time_range") == looks_back
    assert tavily_server.searches[0]["query"] == query
