"""Texts that are longer than a model reads are scored in windows, and the best window counts."""

from collections.abc import Callable, Iterator

from crag_graph.rules.passage import split_passage
from crag_graph.rules.strips import units

_LEAST = 40  # characters; what does not fit even so is left to the model to cut


def windows(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halve a passage, between sentences where it can, until every piece fits; a blank one has no window.

    Each window carries the heading line, because without it a passage often does not name its subject.

    >>> windows("Falcon\\nIt flew in the year 2019. It weighs 3 kg without the battery.", lambda text: len(text) < 60)
    ['Falcon\\nIt flew in the year 2019. ', 'Falcon\\nIt weighs 3 kg without the battery.']
    """
    heading, body = split_passage(text)
    head = f"{heading}\n" if heading else ""
    pieces = _halves(body, lambda piece: fits(head + piece))
    return [head + piece for piece in pieces if piece.strip()]


def _halves(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    if len(text) <= _LEAST or fits(text):
        yield text
        return
    middle = _middle(text)
    yield from _halves(text[:middle], fits)
    yield from _halves(text[middle:], fits)


def _middle(text: str) -> int:
    """Return the place near the middle where a cut hurts least: between units, else between words, else anywhere."""
    half, quarter = len(text) // 2, len(text) // 4
    nearest = min((unit.end for unit in units(text)), key=lambda end: abs(end - half))
    if abs(nearest - half) <= quarter:
        return nearest
    return text.rfind(" ", quarter, half) + 1 or half
