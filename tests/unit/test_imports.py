"""What importing costs, and what `--help` may not need."""

import subprocess
import sys

import pytest

VENDORS = (
    "langgraph langchain_core langchain_openai openai chromadb tavily numpy onnxruntime bm25s pydantic yaml".split()
)


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import crag_graph", "import crag_graph.cli"])
def test_importing_loads_no_vendor(statement):
    assert loaded_after(statement).isdisjoint(VENDORS)


def test_every_public_name_can_be_imported():
    loaded_after(
        "from crag_graph import build_graph, load_settings, CragInput, CragOutput, CragState, RunContext, Settings"
    )


def test_an_unknown_name_is_an_attribute_error():
    import crag_graph

    with pytest.raises(AttributeError, match="nothing_like_it"):
        crag_graph.nothing_like_it  # noqa: B018
