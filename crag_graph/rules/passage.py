"""What is shown of a document: its title and heading, then its text.

A passage from the middle of a page often never names its subject; the title does. The same text is embedded when a
document is indexed, graded when it comes back, and shown to the model, so that all three judge the same thing.

>>> print(passage_text(Document("It weighs 3 kg.", metadata={"title": "Falcon", "heading": "Specs"})))
Falcon › Specs
It weighs 3 kg.
"""

from langchain_core.documents import Document


def heading_line(document: Document) -> str:
    """Return title and heading path as one line; empty when there is neither."""
    parts = (str(document.metadata.get(key) or "").strip() for key in ("title", "heading"))
    return " › ".join(dict.fromkeys(part for part in parts if part))


def passage_text(document: Document) -> str:
    """Return the text of a document under its heading line."""
    head = heading_line(document)
    return f"{head}\n{document.page_content}" if head else document.page_content


def split_passage(text: str) -> tuple[str, str]:
    """Return heading line and body of what `passage_text` made; the heading is empty where there seems to be none.

    A first line counts as a heading when more follows, it is short, and it does not end like a sentence.

    >>> split_passage("Falcon › Specs\\nIt weighs 3 kg."), split_passage("It weighs 3 kg.\\nIt flies.")
    (('Falcon › Specs', 'It weighs 3 kg.'), ('', 'It weighs 3 kg.\\nIt flies.'))
    """
    first, _, rest = text.partition("\n")
    is_heading = bool(rest.strip()) and len(first) <= 200 and first.rstrip()[-1:] not in ".!?。！？।:;,|"
    return (first, rest) if is_heading else ("", text)


def strip_text(heading: str, lead: str, text: str) -> str:
    """Return what is shown of a strip: the heading line of its document, the line it depends on, and itself.

    >>> strip_text("Tools", "The kit has:", "- a wrench")
    'Tools\\nThe kit has:\\n- a wrench'
    """
    return "\n".join(part for part in (heading, lead, text) if part)
