"""What a person sees in the terminal; colours and width degrade by themselves where they are not supported."""

import os
import textwrap
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

PLACES = {"internal": "the index", "web": "the web"}
COLOURS = {"correct": "green", "ambiguous": "yellow", "incorrect": "red"}


def verdict_line(verdict: str, reason: str) -> Text:
    """Return the verdict, coloured, and the numbers behind it."""
    return Text.assemble((f" {verdict.upper()} ", f"bold reverse {COLOURS[verdict]}"), "  ", (reason, "dim"))


def show_result(console: Console, result: dict[str, Any], *, explain: bool) -> None:
    """Print what follows the answer: sources, warnings, cost, and with `explain` all that led to it."""
    if result["sources"]:
        console.print()
        for source in result["sources"]:
            console.print(_source(source))
    for warning in result["warnings"]:
        console.print(Text.assemble(("! ", "bold yellow"), warning))
    if explain:
        console.print(_explanation(result["trace"]))
    console.print(Text(_cost(result["usage"]), style="dim"))


def _source(source: dict[str, Any]) -> Group:
    page = f", page {source['page']}" if source["page"] else ""
    date = f", {source['date']}" if source["date"] else ""
    own = source["origin"] == "internal" and source["path"]
    place = f"{_relative(source['path']) if own else source['url'] or source['path'] or ''}{page}{date}"
    head = Text.assemble((f"[{source['number']}] ", "bold cyan"), (source["title"] or place, "bold"))
    where = Text.assemble((f"{source['origin']}  ", "magenta"), (place, "dim"))
    return Group(head, Padding(where, (0, 0, 0, 4)), Padding(Text(source["passage"]), (0, 0, 0, 4)))


def _relative(path: str) -> str:
    """Return a path as seen from here, where that is shorter."""
    return min(path, os.path.relpath(path), key=len)


def _explanation(trace: dict[str, Any]) -> Group:
    parts: list[Any] = [Text()]
    if trace["standalone_question"]:
        parts.append(Text.assemble(("searched as: ", "bold"), trace["standalone_question"]))
    if trace["documents"]:
        parts.append(_documents(trace["documents"]))
    for number, part in enumerate(trace["parts"], 1):
        found = f"found in {PLACES[part['where']]}" if part["answered"] else "found nowhere"
        parts.append(Text.assemble((f"part {number}: ", "bold"), part["question"], (f"  {found}", "dim")))
    for number, query in enumerate(trace["web_queries"], 1):
        parts.append(Text.assemble((f"query {number}: ", "bold"), query))
    if trace["human"]:
        parts.append(Text.assemble(("a person: ", "bold"), trace["human"]))
    if trace["web_docs"]:
        parts.append(_web_docs(trace["web_docs"]))
    if trace["strips"]:
        parts.append(_strips(trace["strips"]))
    return Group(*parts)


def _documents(documents: list[dict[str, Any]]) -> Table:
    table = Table(title="Documents graded", title_justify="left", expand=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("document", ratio=3)
    table.add_column("why", ratio=4)
    for item in documents:
        name = " › ".join(str(item[key]) for key in ("title", "heading") if item[key]) or item["id"]
        page = f" (page {item['page']})" if item["page"] else ""
        table.add_row(_score(item["score"]), _mark(item["good"]), escape(name + page), escape(item["reason"]))
    return table


def _web_docs(documents: list[dict[str, Any]]) -> Table:
    table = Table(title="Found on the web", title_justify="left", expand=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("title", ratio=3)
    table.add_column("address", ratio=4)
    for item in documents:
        table.add_row(_score(item["grade"]), escape(item["title"] or ""), escape(item["url"] or ""))
    return table


def _strips(strips: list[dict[str, Any]]) -> Table:
    table = Table(title="Strips judged", title_justify="left", expand=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("strip", ratio=5)
    table.add_column("why", ratio=2)
    for item in sorted(strips, key=lambda strip: (not strip["kept"], -(strip["score"] or 0))):
        style = None if item["kept"] else "dim"
        text = " ".join(f"{item['title']}: {item['text']}".split()) if item["title"] else item["text"]
        text = escape(text if item["kept"] else textwrap.shorten(text, 80, placeholder=" …"))
        table.add_row(_score(item["score"]), _mark(item["kept"]), text, escape(item["why"]), style=style)
    return table


def _score(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"


def _mark(good: bool) -> str:
    return "[green]kept[/]" if good else "[red]dropped[/]"


def _cost(usage: dict[str, Any]) -> str:
    tokens = f"{usage['tokens_in']} tokens in, {usage['tokens_out']} out, " if usage["model_calls"] else ""
    calls = "1 model call" if usage["model_calls"] == 1 else f"{usage['model_calls']} model calls"
    slowest = max(usage["by_node"], key=lambda node: usage["by_node"][node]["seconds"])
    return f"{calls}, {tokens}{usage['seconds']:.2f} s (most in {slowest})"


def error_panel(message: str) -> Panel:
    """Return an error as a person should read it."""
    return Panel(Text(message), title="[bold red]crag cannot go on", title_align="left", border_style="red")
