"""`python -m crag_graph.cli` is `crag`."""

from crag_graph.cli import main

main()
