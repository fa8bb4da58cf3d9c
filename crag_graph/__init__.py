"""Corrective RAG on LangGraph: evidence is checked before it is trusted.

Names are imported when they are first used, so that `import crag_graph` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crag_graph.factory import build_graph
    from crag_graph.load import load_settings
    from crag_graph.settings import RunContext, Settings
    from crag_graph.state import CragInput, CragOutput, CragState

_HOMES = {
    "build_graph": "factory",
    "load_settings": "load",
    "RunContext": "settings",
    "Settings": "settings",
    "CragInput": "state",
    "CragOutput": "state",
    "CragState": "state",
}
__all__ = ["CragInput", "CragOutput", "CragState", "RunContext", "Settings", "build_graph", "load_settings"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
