"""The graph: its nodes, every edge, and the decisions that choose between them.

    START → retrieve → evaluate_retrieval ─ correct ──────────────────────→ refine ─ enough ─→ generate → END
                                          └ ambiguous | incorrect → rewrite_query → web_search → refine
            refine ─ not enough, rounds left → rewrite_query

Settings add two nodes: `requery` (rewrite_query → requery → refine, in one step with web_search where both run), and
`ask_human` before generate, where the evidence is not enough and no round is left.

The longest path takes 4 + 3 * max_rounds steps, the last of which is the end: 10 by default, 19 with the most rounds
that the settings allow, and as many until a person is asked. A resumed run counts anew.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime

from crag_graph import nodes
from crag_graph.policy import Policy, policy
from crag_graph.protocols import Components
from crag_graph.runtime import as_node
from crag_graph.settings import RunContext, Settings
from crag_graph.state import CragInput, CragOutput, CragState

Node = Callable[[CragState, Components, Policy], Coroutine[Any, Any, dict[str, Any]]]


def compile_graph(
    settings: Settings, kit: Components
) -> CompiledStateGraph[CragState, RunContext, CragInput, CragOutput]:
    """Return the corrective graph over ready components, compiled without a checkpointer."""
    correct = settings.corrections
    asks = correct.on_insufficient == "ask"
    requeries = asks or bool({"requery", "decompose"} & {*correct.ambiguous, *correct.incorrect})
    graph = StateGraph(CragState, context_schema=RunContext, input_schema=CragInput, output_schema=CragOutput)
    for node in _nodes(requeries=requeries, asks=asks):
        run = partial(_run, node, settings, kit)
        graph.add_node(node.__name__, as_node(node.__name__, run, beside=node is nodes.requery))

    def after_evaluation(state: CragState, runtime: Runtime[RunContext]) -> str:
        if state["verdict"] == "correct":
            return "refine"
        if nodes.next_actions(state, kit, policy(settings, runtime.context)):
            return "rewrite_query"
        return "refine" if state["good_docs"] else last_resort

    def after_refinement(state: CragState, runtime: Runtime[RunContext]) -> str:
        if state["enough"] and all(part["answered"] for part in state["parts"]):
            return "generate"
        out_of_ideas = state["rounds"] > 0 and not state["actions"]
        if out_of_ideas or not nodes.next_actions(state, kit, policy(settings, runtime.context)):
            return last_resort
        return "rewrite_query"

    def searches(state: CragState, runtime: Runtime[RunContext]) -> list[str]:
        on_the_web = kit.web and policy(settings, runtime.context).web and state["queries"]
        chosen = {
            "web_search": "web" in state["actions"] and on_the_web,
            "requery": bool({"requery", "decompose"} & {*state["actions"]}),
        }
        return [name for name, wanted in chosen.items() if wanted] or ["refine"]

    def after_a_person(state: CragState, runtime: Runtime[RunContext]) -> list[str]:
        match state["human"]:
            case "search":
                return searches(state, runtime)
            case "text":
                return ["refine"]
            case _:
                return ["generate"]

    last_resort = "ask_human" if asks else "generate"
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "evaluate_retrieval")
    graph.add_conditional_edges("evaluate_retrieval", after_evaluation, _to("refine", "rewrite_query", last_resort))
    graph.add_edge("web_search", "refine")
    graph.add_conditional_edges("refine", after_refinement, _to("generate", "rewrite_query", last_resort))
    graph.add_edge("generate", END)
    if requeries:
        graph.add_conditional_edges("rewrite_query", searches, ["web_search", "requery", "refine"])
        graph.add_edge("requery", "refine")
    else:
        graph.add_edge("rewrite_query", "web_search")
    if asks:
        graph.add_conditional_edges("ask_human", after_a_person, ["web_search", "requery", "refine", "generate"])
    return graph.compile(name="crag").with_config(metadata={"crag_prompts": list(kit.prompts)})


def _nodes(*, requeries: bool, asks: bool) -> list[Node]:
    """Return the nodes in the order they run; two of them only where the settings ask for them."""
    searching = [nodes.rewrite_query, nodes.web_search, *([nodes.requery] if requeries else [])]
    person = [nodes.ask_human] if asks else []
    return [nodes.retrieve, nodes.evaluate_retrieval, *searching, nodes.refine, *person, nodes.generate]


def _to(*names: str) -> list[str]:
    return list(dict.fromkeys(names))


async def _run(node: Node, settings: Settings, kit: Components, state: CragState) -> dict[str, Any]:
    return await node(state, kit, policy(settings, get_runtime().context))
