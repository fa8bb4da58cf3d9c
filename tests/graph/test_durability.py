"""Checkpoints: plain state that survives a restart, and no call that blocks the event loop."""

import asyncio
import os
import subprocess
import sys
import textwrap

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.graph.kit import WEB_TEXT, document, graph_of, hit

QUESTION = {"question": "How long is the warranty?"}
DOCUMENTS = [document("The warranty is two years.")]

RESUME = textwrap.dedent(
    """
    import sys
    from langgraph.checkpoint.sqlite import SqliteSaver
    from tests.graph.kit import WEB_TEXT, Scorer, document, graph_of, hit

    documents = [document("The warranty is two years.")]
    graph = graph_of(documents, [hit(WEB_TEXT)], grader=Scorer(otherwise=0.5))
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        graph = graph.copy(update={"checkpointer": saver})
        result = graph.invoke(None, {"configurable": {"thread_id": "1"}})
    print(result["answer"], len(result["usage"]["by_node"]))
    """
)


def test_a_run_that_is_interrupted_resumes_in_a_new_process_with_nothing_lost(tmp_path):
    from tests.graph.kit import Scorer

    path = str(tmp_path / "threads.sqlite")
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], grader=Scorer(otherwise=0.5))
    config = {"configurable": {"thread_id": "1"}}
    with SqliteSaver.from_conn_string(path) as saver:
        paused = graph.copy(update={"checkpointer": saver})
        paused.invoke(QUESTION, config, interrupt_before=["refine"])
        state = paused.get_state(config)
        assert state.next == ("refine",)
        assert all(isinstance(found, Document) for found in state.values["web_docs"])
    environment = os.environ | {"LANGGRAPH_STRICT_MSGPACK": "true"}
    command = [sys.executable, "-W", "error", "-c", RESUME, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The answer is here [1]. 6"
    assert done.stderr == ""


def test_no_node_blocks_the_event_loop():
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)])

    async def run():
        with blockbuster_ctx("crag_graph"):
            return await graph.ainvoke(QUESTION)

    assert asyncio.run(run())["grounded"] is True


@pytest.mark.parametrize("name", ["documents", "good_docs", "web_docs", "strips", "kept_strips"])
def test_every_document_in_the_state_has_plain_metadata(name):
    graph = graph_of(DOCUMENTS, [hit(WEB_TEXT)], settings={"evaluator": {"llm": {"upper": 0.95}}})
    state = {}
    for step in graph.stream(QUESTION, stream_mode="updates"):
        for update in step.values():
            state |= update
    assert state[name]
    for found in state[name]:
        assert all(isinstance(value, str | int | float | bool | None) for value in found.metadata.values())
