"""What a person types at the terminal, and what the run is told."""

import io

import pytest
from rich.console import Console

from crag_graph.cli import person

INSUFFICIENT = {"kind": "insufficient", "reason": "nothing was retrieved", "queries": ["a"], "open": ["b"]}
APPROVE = {"kind": "approve", "queries": ["secret words"]}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def answer(monkeypatch, shown, typed):
    monkeypatch.setattr("sys.stdin", Terminal(f"{typed}\n"))
    console = Console(file=io.StringIO())
    return person.answer_of_person(shown, console, can_ask=True), console.file.getvalue()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("", "stop"), ("other words", {"search": "other words"}), ("= two years", {"text": "two years"}), ("=", "stop")],
)
def test_what_a_person_adds(monkeypatch, typed, meant):
    told, printed = answer(monkeypatch, INSUFFICIENT, typed)
    assert told == meant
    assert "tried: a" in printed
    assert "open: b" in printed


@pytest.mark.parametrize(("typed", "meant"), [("y", True), ("No", False), ("", False), ("harmless", "harmless")])
def test_what_a_person_lets_leave(monkeypatch, typed, meant):
    told, printed = answer(monkeypatch, APPROVE, typed)
    assert told == meant
    assert "secret words" in printed
