"""A made-up corpus with known right answers: pages about numbered stations, all alike but for their facts."""

from crag_graph.measure.bench.data import Paragraph, Place

SENTENCES = 6  # of about 95 characters, so that a page is about as long as a paragraph of an encyclopedia
_TOPICS = ("wind", "rain", "frost", "pressure", "sunshine", "humidity", "snow", "visibility")


def page(number: int, place: Place, sentences: int = SENTENCES) -> Paragraph:
    """Return the page of station `K-<number>`; its first sentence answers `question(number)`."""
    topic = _topic(number)
    lines = [f"Station K-{number} measures {topic} every {number % 50 + 10} minutes from a hill above the river."]
    for n in range(sentences - 1):
        other = _TOPICS[(number + n) % len(_TOPICS)]
        lines.append(f"In spring its keeper noted the {other} {_ordinal(n)} and sent a letter about it to the valley.")
    return Paragraph(f"station-{number}", f"Station K-{number}", " ".join(lines), place)


def question(number: int) -> str:
    """Return what only the page of this station answers."""
    return f"How often does station K-{number} measure {_topic(number)}?"


def _topic(number: int) -> str:
    return _TOPICS[number % len(_TOPICS)]


def _ordinal(n: int) -> str:
    return ("by day", "by night", "at noon", "at dawn", "at dusk")[n % 5]
