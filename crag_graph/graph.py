"""The graph: six nodes, every edge, and the two decisions that choose between them.

    START → retrieve → evaluate_retrieval ─ correct ──────────────────────→ refine ─ enough ─→ generate → END
                                          └ ambiguous | incorrect → rewrite_query → web_search → refine
            refine ─ not enough, rounds left → rewrite_query

The longest path takes 4 + 3 * max_rounds steps: 10 by default, 19 with the most rounds that the settings allow.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime

from crag_graph import nodes
from crag_graph.policy import Policy, policy
from crag_graph.protocols import Components
from crag_graph.runtime import as_node
from crag_graph.settings import RunContext, Settings
from crag_graph.state import CragInput, CragOutput, CragState

Node = Callable[[CragState, Components, Policy], Awaitable[dict[str, Any]]]


def compile_graph(
    settings: Settings, kit: Components
) -> CompiledStateGraph[CragState, RunContext, CragInput, CragOutput]:
    """Return the corrective graph over ready components, compiled without a checkpointer."""
    graph = StateGraph(CragState, context_schema=RunContext, input_schema=CragInput, output_schema=CragOutput)
    for node in (
        nodes.retrieve,
        nodes.evaluate_retrieval,
        nodes.rewrite_query,
        nodes.web_search,
        nodes.refine,
        nodes.generate,
    ):
        graph.add_node(node.__name__, as_node(node.__name__, partial(_run, node, settings, kit)))

    def after_evaluation(
        state: CragState, runtime: Runtime[RunContext]
    ) -> Literal["refine", "rewrite_query", "generate"]:
        now = policy(settings, runtime.context)
        if state["verdict"] == "correct":
            return "refine"
        if kit.web and now.web and now.max_rounds:
            return "rewrite_query"
        return "refine" if state["good_docs"] else "generate"

    def after_refinement(state: CragState, runtime: Runtime[RunContext]) -> Literal["generate", "rewrite_query"]:
        now = policy(settings, runtime.context)
        exhausted = state["web_down"] or (state["rounds"] > 0 and state["web_query"] is None)
        if state["enough"] or exhausted or state["rounds"] >= now.max_rounds or not (kit.web and now.web):
            return "generate"
        return "rewrite_query"

    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "evaluate_retrieval")
    graph.add_conditional_edges("evaluate_retrieval", after_evaluation)
    graph.add_edge("rewrite_query", "web_search")
    graph.add_edge("web_search", "refine")
    graph.add_conditional_edges("refine", after_refinement)
    graph.add_edge("generate", END)
    return graph.compile(name="crag").with_config(metadata={"crag_prompts": list(kit.prompts)})


async def _run(node: Node, settings: Settings, kit: Components, state: CragState) -> dict[str, Any]:
    return await node(state, kit, policy(settings, get_runtime().context))
