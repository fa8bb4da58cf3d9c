"""What every test may use."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import real_model as model
from tests.servers.openai_server import OpenAIServer
from tests.servers.tavily_server import TavilyServer


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with public data for measuring; it lies beside the project, never in it."""
    folder = Path(os.environ.get("MEASURING_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measuring data at {folder}: set MEASURING_DATA")
    return folder


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    """A server that speaks the OpenAI protocol and says what the test scripts."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def tavily_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TavilyServer]:
    """A server that speaks the Tavily protocol; its key is in the environment."""
    with TavilyServer() as server:
        monkeypatch.setenv("TAVILY_API_KEY", server.api_key)
        yield server


@pytest.fixture(scope="session")
def real_model() -> Iterator[str]:
    """The base URL of a real small model that speaks the OpenAI protocol; it judges at random."""
    if not model.WEIGHTS.exists():
        pytest.skip(f"no model weights: run {model.FETCH}")
    with model.running() as base_url:
        yield base_url


@pytest.fixture(scope="session", autouse=True)
def _no_proxy() -> Iterator[None]:
    """Keep the proxy of the developer's machine out of talks with loopback."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            environment.delenv(name, raising=False)
            environment.delenv(name.lower(), raising=False)
        yield
