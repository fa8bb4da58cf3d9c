"""One client, many event loops; one limit, many threads."""

import asyncio
import gc
import threading
import warnings
import weakref

import httpx
import pytest

from crag_graph.components.http import async_client
from crag_graph.components.limits import Limiter
from crag_graph.errors import ConfigurationError
from tests.servers.openai_server import OpenAIServer, text


async def _ask(client: httpx.AsyncClient, server: OpenAIServer, times: int = 1) -> list[int]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    return [(await client.post(f"{server.base_url}/chat/completions", json=body)).status_code for _ in range(times)]


def test_one_client_serves_successive_event_loops_and_leaves_nothing_open(openai_server: OpenAIServer) -> None:
    openai_server.replies = lambda _: text("hi")
    client = async_client(5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert asyncio.run(_ask(client, openai_server, times=2)) == [200, 200]
        gc.collect()
    assert [str(w.message) for w in caught] == []
    assert openai_server.connections == 3  # one kept open per loop


def test_one_client_serves_two_loops_at_the_same_time(openai_server: OpenAIServer) -> None:
    both_here = threading.Barrier(2, timeout=10)

    def reply(_: object) -> object:
        both_here.wait()
        return text("hi")

    openai_server.replies = reply
    client = async_client(10)
    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(asyncio.run(_ask(client, openai_server)))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[200], [200]]


def test_a_loop_that_was_closed_without_shutting_down_is_forgotten(openai_server: OpenAIServer) -> None:
    openai_server.replies = lambda _: text("hi")
    client = async_client(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # such a loop abandons its sockets
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(_ask(client, openai_server)) == [200]
        loop.close()
        assert asyncio.run(_ask(client, openai_server)) == [200]
        remembered = weakref.ref(loop)
        del loop
        gc.collect()
    assert remembered() is None


def test_a_client_nobody_holds_any_more_closes_its_connections(openai_server: OpenAIServer) -> None:
    openai_server.replies = lambda _: text("hi")

    async def ask_and_drop() -> None:
        await _ask(async_client(5), openai_server)
        gc.collect()
        await asyncio.to_thread(openai_server.wait_until_idle)

    asyncio.run(ask_and_drop())


def test_the_proxy_of_the_environment_is_used(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", openai_server.origin)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def ask() -> None:
        await client.post("http://search.example/search", json={"query": "x"})

    client = async_client(5)
    asyncio.run(ask())
    assert openai_server.requests[0].path == "http://search.example/search"
    assert openai_server.requests[0].headers["Host"] == "search.example"


def test_hosts_of_no_proxy_are_reached_directly(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    openai_server.replies = [text("hi")]
    assert asyncio.run(_ask(async_client(5), openai_server)) == [200]


@pytest.mark.parametrize(
    ("name", "value"), [("HTTPS_PROXY", "gopher://proxy.example"), ("SSL_CERT_FILE", "/nonexistent/ca.pem")]
)
def test_an_unusable_proxy_or_certificate_variable_is_refused_when_building(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        async_client(5)


class _Room:
    """Counts who is inside."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = self.peak = self.visits = 0

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            self.visits += 1
            self.peak = max(self.peak, self.inside)

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1


def test_the_limit_holds_across_loops_in_several_threads() -> None:
    limiter, room = Limiter(3), _Room()

    async def visit() -> None:
        async with limiter:
            room.enter()
            await asyncio.sleep(0.002)
            room.leave()

    async def crowd() -> None:
        await asyncio.gather(*(visit() for _ in range(40)))

    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (room.visits, room.peak, room.inside) == (80, 3, 0)


@pytest.mark.anyio
async def test_a_cancelled_waiter_neither_takes_nor_loses_a_place() -> None:
    limiter = Limiter(1)

    async def visit() -> str:
        async with limiter:
            return "was in"

    async with limiter:
        first, second = asyncio.create_task(visit()), asyncio.create_task(visit())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert await second == "was in"
    assert await asyncio.wait_for(visit(), 1) == "was in"


@pytest.mark.anyio
async def test_a_place_handed_over_at_the_moment_of_cancellation_is_passed_on() -> None:
    limiter = Limiter(1)

    async def visit() -> str:
        async with limiter:
            return "was in"

    async with limiter:
        waiter = asyncio.create_task(visit())
        await asyncio.sleep(0)
    waiter.cancel()  # the place is already the waiter's, but it has not run since
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert await asyncio.wait_for(visit(), 1) == "was in"


@pytest.mark.anyio
async def test_an_error_inside_gives_the_place_back() -> None:
    limiter = Limiter(1)
    with pytest.raises(ZeroDivisionError):
        async with limiter:
            1 / 0  # noqa: B018
    async with asyncio.timeout(1), limiter:
        pass
