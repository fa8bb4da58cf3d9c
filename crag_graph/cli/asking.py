"""`crag ask`: one run, shown while it happens."""

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from rich.console import Console
from rich.text import Text

from crag_graph.cli import print_json
from crag_graph.cli.person import answer_of_person
from crag_graph.cli.report import report
from crag_graph.cli.show import show_result, verdict_line
from crag_graph.factory import build_components, build_graph
from crag_graph.load import Loaded
from crag_graph.state import CragInput, CragOutput, CragState, Turn

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from crag_graph.settings import RunContext

    Graph = CompiledStateGraph[CragState, RunContext, CragInput, CragOutput]


async def ask_and_show(
    loaded: Loaded, question: str, history: list[Turn], *, as_json: bool, explain: bool
) -> dict[str, Any]:
    """Answer a question, print it as a person or a program wants it, and return the whole report."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    err.print(Text(f"{'profile':<20}{loaded.profile} ({loaded.path.name})", style="dim"))
    kit = build_components(loaded.settings)
    if kit.web_off:
        err.print(Text(f"{'web':<20}off: {kit.web_off}", style="dim"))
    asked = CragInput(question=question, history=history) if history else CragInput(question=question)
    state = await _run(build_graph(loaded.settings, kit), asked, out, err, as_json=as_json)
    result = report(CragState(**state), kit.prompts)  # type: ignore[typeddict-item]
    if as_json:
        print_json(result)
    else:
        out.print()
        show_result(out, result, explain=explain)
    return result


async def _run(graph: "Graph", asked: CragInput, out: Console, err: Console, *, as_json: bool) -> dict[str, Any]:
    """Run the graph to its end, asking the person where it pauses for one, and return the last state."""
    graph = graph.copy(update={"checkpointer": InMemorySaver()})  # holds a paused run
    config: RunnableConfig = {"configurable": {"thread_id": "ask"}}
    state: dict[str, Any] = {**asked}
    coming: CragInput | Command[Any] | None = asked
    while coming is not None:
        stream, coming = graph.astream(coming, config, stream_mode=["updates", "messages"]), None
        async for mode, part in stream:
            if mode == "messages":
                if not as_json and isinstance(part[0], AIMessageChunk):
                    out.print(part[0].text, end="", markup=False, soft_wrap=True)
            elif isinstance(part, dict) and "__interrupt__" in part:
                shown = part["__interrupt__"][0].value
                coming = Command(resume=answer_of_person(shown, err, can_ask=not as_json))
            elif isinstance(part, dict):
                for node, update in part.items():
                    state |= update or {}
                    _progress(err, node, state)
    return state


def _next(state: dict[str, Any]) -> str:
    """Return what this round looks for."""
    if "decompose" in state["actions"]:
        return "; ".join(part["question"] for part in state["parts"])
    return "; ".join(state["queries"]) or "nothing new to search for"


def _progress(err: Console, node: str, state: dict[str, Any]) -> None:
    """Say on stderr what a node brought."""
    match node:
        case "retrieve":
            said = Text(f"{len(state['documents'])} documents")
            if state["standalone_question"]:
                said.append(f", searched as: {state['standalone_question']}", style="italic")
        case "evaluate_retrieval":
            said = verdict_line(state["verdict"], state["reason"])
        case "rewrite_query":
            said = Text(_next(state), style="italic")
        case "requery":
            said = Text(f"{len(state['documents'])} documents in all  ") + verdict_line(
                state["verdict"], state["reason"]
            )
        case "web_search":
            said = Text(f"{len(state['web_docs'])} documents so far")
        case "refine":
            said = Text(f"{len(state['kept_strips'])} of {len(state['strips'])} strips kept")
        case _:
            return
    err.print(Text.assemble((f"{node:<20}", "dim"), said))
