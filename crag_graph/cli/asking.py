"""`crag ask`: one run, shown while it happens."""

from typing import Any

from langchain_core.messages import AIMessageChunk
from rich.console import Console
from rich.text import Text

from crag_graph.cli import print_json
from crag_graph.cli.report import report
from crag_graph.cli.show import show_result, verdict_line
from crag_graph.factory import build_components, build_graph
from crag_graph.load import Loaded
from crag_graph.state import CragInput, CragState, Turn


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
    state: dict[str, Any] = {**asked}
    async for mode, part in build_graph(loaded.settings, kit).astream(asked, stream_mode=["updates", "messages"]):
        if mode == "updates" and isinstance(part, dict):
            for node, update in part.items():
                state |= update or {}
                _progress(err, node, state)
        elif not as_json and isinstance(part[0], AIMessageChunk):
            out.print(part[0].text, end="", markup=False, soft_wrap=True)
    result = report(CragState(**state), kit.prompts)  # type: ignore[typeddict-item]
    if as_json:
        print_json(result)
    else:
        out.print()
        show_result(out, result, explain=explain)
    return result


def _progress(err: Console, node: str, state: dict[str, Any]) -> None:
    """Say on stderr what a node brought."""
    match node:
        case "retrieve":
            said = Text(f"{len(state['documents'])} documents")
        case "evaluate_retrieval":
            said = verdict_line(state["verdict"], state["reason"])
        case "rewrite_query":
            said = Text(state["web_query"] or "nothing new to search for", style="italic")
        case "web_search":
            said = Text(f"{len(state['web_docs'])} documents so far")
        case "refine":
            said = Text(f"{len(state['kept_strips'])} of {len(state['strips'])} strips kept")
        case _:
            return
    err.print(Text.assemble((f"{node:<20}", "dim"), said))
