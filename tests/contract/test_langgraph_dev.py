"""`langgraph dev` as a person starts it, without any key, driven over its API."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from langgraph_sdk import get_client, get_sync_client

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a dev server over the example corpus, offline."""
    folder = tmp_path_factory.mktemp("dev")
    hidden = ("OPENAI_API_KEY", "TAVILY_API_KEY", "LANGSMITH_API_KEY", "CRAG_CONFIG")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {
        "CRAG_INDEX__PATH": str(folder / "index"),
        "CRAG_WEB__FOLDER__PATH": str(ROOT / "examples" / "web"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
    }
    subprocess.run(["crag", "ingest", str(ROOT / "examples" / "corpus")], env=environment, cwd=folder, check=True)
    port = free_port()
    command = ["langgraph", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    log = (folder / "log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        [*command, "--config", str(ROOT / "langgraph.json")], env=environment, cwd=folder, stdout=log, stderr=log
    )
    try:
        wait_until_ready(port, process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def wait_until_ready(port: int, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"langgraph dev did not start:\n{log.read_text(encoding='utf-8')}")


def test_the_schemas_show_the_question_and_what_a_run_may_change(server):
    with get_sync_client(url=server) as client:
        assistants = client.assistants.search(graph_id="crag")
        schemas = client.assistants.get_schemas(assistants[0]["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) == {"question", "history"}
    assert schemas["context_schema"]["properties"]["upper"]["description"]
    assert "grounded" in schemas["output_schema"]["properties"]


def test_a_run_streams_to_a_grounded_answer_without_any_key(server):
    async def run():
        tokens, values = "", {}
        async with get_client(url=server) as client:
            thread = await client.threads.create()
            stream = client.runs.stream(
                thread["thread_id"],
                "crag",
                input={"question": "How often are the bearings of the cup anemometer replaced?"},
                stream_mode=["messages-tuple", "values"],
            )
            async for part in stream:
                if part.event == "messages":
                    tokens += part.data[0]["content"]
                elif part.event == "values":
                    values = part.data
        return tokens, values

    tokens, values = asyncio.run(run())
    assert values["grounded"] is True
    assert values["sources"][0]["origin"] == "internal"
    assert tokens == values["answer"]


def test_two_assistants_of_one_graph_may_run_with_different_contexts(server):
    with get_sync_client(url=server) as client:
        strict = client.assistants.create("crag", context={"upper": 1.0, "web": False})
        question = {"question": "How often are the bearings of the cup anemometer replaced?"}
        usual = client.runs.wait(None, "crag", input=question)
        strictly = client.runs.wait(None, strict["assistant_id"], input=question)
    assert usual["verdict"] == "correct"
    assert strictly["verdict"] == "ambiguous"


def test_a_context_out_of_bounds_is_refused_with_the_reason(server):
    with get_sync_client(url=server) as client:
        result = client.runs.wait(None, "crag", input={"question": "Any?"}, context={"upper": 7}, raise_error=False)
    assert "upper" in str(result["__error__"])
