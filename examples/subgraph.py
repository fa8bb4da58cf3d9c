"""Use the corrective graph as one node of a larger agent.

The parent shares the keys `question`, `answer`, `sources` and `warnings` with it; everything else stays inside. To see
the answer's tokens while they are written, stream the parent with `subgraphs=True`.

    crag ingest examples/corpus
    python examples/subgraph.py "How often are the bearings of the cup anemometer replaced?"
"""

import sys
from typing import Literal

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from crag_graph import build_graph, load_settings
from crag_graph.state import Evidence


class DeskState(TypedDict):
    """What the help desk knows."""

    question: str
    answer: str
    grounded: bool
    sources: list[Evidence]
    warnings: list[str]
    ticket: str


def close_or_escalate(state: DeskState) -> Literal["file", "escalate"]:
    """Trust an answer only when it rests on checked evidence."""
    return "file" if state["grounded"] else "escalate"


def file(state: DeskState) -> dict[str, str]:
    return {"ticket": f"answered from {len(state['sources'])} source(s)"}


def escalate(state: DeskState) -> dict[str, str]:
    return {"ticket": f"a person has to look at: {state['question']}"}


def build_desk():
    """Return the parent graph; a checkpointer would be given here, to the outermost graph."""
    desk = StateGraph(DeskState)
    desk.add_node("research", build_graph(load_settings()))
    desk.add_node("file", file)
    desk.add_node("escalate", escalate)
    desk.add_edge(START, "research")
    desk.add_conditional_edges("research", close_or_escalate)
    desk.add_edge("file", END)
    desk.add_edge("escalate", END)
    return desk.compile()


if __name__ == "__main__":
    question = " ".join(sys.argv[1:]) or "How often are the bearings of the cup anemometer replaced?"
    for _, mode, part in build_desk().stream(
        {"question": question}, stream_mode=["messages", "values"], subgraphs=True
    ):
        if mode == "messages":
            print(part[0].text, end="", flush=True)
        elif "ticket" in part:
            print(f"\n\nticket: {part['ticket']}")
