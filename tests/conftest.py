"""What every test may use."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.openai_server import OpenAIServer


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with public data for measuring; it lies beside the project, never in it."""
    folder = Path(os.environ.get("CRAG_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measuring data at {folder}: set CRAG_DATA")
    return folder


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    """A server that speaks the OpenAI protocol and says what the test scripts."""
    with OpenAIServer() as server:
        yield server
