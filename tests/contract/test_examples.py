"""The examples in the repository run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    index = tmp_path_factory.mktemp("examples") / "index"
    hidden = ("OPENAI_API_KEY", "TAVILY_API_KEY", "CRAG_CONFIG")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"CRAG_INDEX__PATH": str(index)}
    run("-m", "crag_graph.cli", "ingest", "examples/corpus", environment=environment)
    return environment


def run(*arguments: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_streams_an_answer_and_shows_what_it_rests_on(environment):
    said = run("examples/script.py", environment=environment)
    assert "[1]" in said
    assert "verdict: correct" in said


def test_the_subgraph_streams_tokens_and_decides_by_grounded(environment):
    assert "ticket: answered from" in run("examples/subgraph.py", environment=environment)
    unknown = run("examples/subgraph.py", "Who won the chess championship of 1886?", environment=environment)
    assert "ticket: a person has to look at" in unknown
