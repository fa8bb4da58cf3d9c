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
