"""Asking the person at the terminal, where a run pauses for one."""

import sys
from typing import Any

from rich.console import Console
from rich.text import Text


def answer_of_person(shown: dict[str, Any], err: Console, *, can_ask: bool) -> Any:
    """Show what a paused run asks and return the answer; where nobody can be asked, the answer is no."""
    asks_leave = shown["kind"] == "approve"
    if not (can_ask and sys.stdin.isatty()):
        err.print(Text("nobody is at the terminal, so the answer is no", style="yellow"))
        return False if asks_leave else "stop"
    return _leave(shown, err) if asks_leave else _help(shown, err)


def _leave(shown: dict[str, Any], err: Console) -> Any:
    err.print(Text("This would be sent to the web search:", style="bold"))
    for query in shown["queries"]:
        err.print(Text(f"  {query}"))
    said = err.input("Send it? (y)es, (n)o, or type what to send instead: ").strip()
    return {"y": True, "yes": True, "n": False, "no": False, "": False}.get(said.lower(), said)


def _help(shown: dict[str, Any], err: Console) -> Any:
    err.print(Text(f"The evidence is not enough: {shown['reason']}", style="bold"))
    for name in ("queries", "open"):
        for line in shown[name]:
            err.print(Text(f"  {'tried' if name == 'queries' else 'open'}: {line}"))
    said = err.input("Type other words to search, = and a text to add as evidence, or Enter to stop: ").strip()
    if not said.lstrip("="):
        return "stop"
    return {"text": said[1:].strip()} if said.startswith("=") else {"search": said}
