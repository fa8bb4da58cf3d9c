"""How a component tells of what went worse than it should, and yet not wrong.

A failure is an exception. Where one source of several fails and the others answer, nothing is raised; the run still
has to know. What is said inside `noticed()` arrives in its list, whatever task or thread says it, and in no other run.

>>> with noticed() as said:
...     notice("one of two sources was not asked")
>>> said
['one of two sources was not asked']
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[list[str] | None] = ContextVar("crag_notices", default=None)


def notice(text: str) -> None:
    """Tell whoever listens, once; where nobody does, the text is dropped."""
    said = _listener.get()
    if said is not None and text not in said:
        said.append(text)


@contextmanager
def noticed() -> Iterator[list[str]]:
    """Collect what is said while the block runs."""
    said: list[str] = []
    token = _listener.set(said)
    try:
        yield said
    finally:
        _listener.reset(token)
