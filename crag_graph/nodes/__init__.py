"""The steps of the graph, in the order they run: each reads the state, asks rules and components, returns an update.

`kit` holds the components, `policy` the numbers in force for this run.
"""

from crag_graph.nodes.answering import generate
from crag_graph.nodes.correcting import next_actions, requery, rewrite_query, web_search
from crag_graph.nodes.people import ask_human
from crag_graph.nodes.refining import refine
from crag_graph.nodes.retrieving import evaluate_retrieval, retrieve

__all__ = [
    "ask_human",
    "evaluate_retrieval",
    "generate",
    "next_actions",
    "refine",
    "requery",
    "retrieve",
    "rewrite_query",
    "web_search",
]
