"""The graph that `langgraph.json` serves: compiled once, without a checkpointer, which the server brings itself."""

from crag_graph.factory import build_graph

graph = build_graph()
