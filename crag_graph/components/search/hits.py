"""What every web provider does with its hits: read them with care, and keep those that are wanted."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from langchain_core.documents import Document

from crag_graph.rules.query import canonical_url, host_allowed


class Wanted(Protocol):
    """Which hits are wanted, and how many; the `web` settings are one."""

    @property
    def max_results(self) -> int: ...
    @property
    def allow_domains(self) -> tuple[str, ...]: ...
    @property
    def deny_domains(self) -> tuple[str, ...]: ...


def web_document(
    provider: str, url: object, text: object, *, title: object = "", date: object = "", score: object = None
) -> Document | None:
    """Return a hit as a document, whatever types its fields came in; None when it has no text or no web address."""
    body, address = clean_text(text), clean_text(url)
    if not body or not address.lower().startswith(("http://", "https://")):
        return None
    metadata: dict[str, str | float] = {
        "origin": "web",
        "provider": provider,
        "url": address,
        "title": " ".join(clean_text(title).split()),
    }
    if day := iso_day(date):
        metadata["date"] = day
    if isinstance(score, int | float) and 0 <= score <= 1:
        metadata["retrieval_score"] = float(score)
    return Document(body, id=page_id(address), metadata=metadata)


def page_id(url: str) -> str:
    """Return the id of all documents that come from this page."""
    return f"web-{hashlib.sha256(canonical_url(url).encode()).hexdigest()[:16]}"


def keep(documents: Iterable[Document | None], wanted: Wanted) -> list[Document]:
    """Return each page once, from allowed hosts only, at most as many as wanted, in their order."""
    found: dict[str | None, Document] = {}
    for document in documents:
        if document and host_allowed(document.metadata["url"], wanted.allow_domains, wanted.deny_domains):
            found.setdefault(document.id, document)
    return list(found.values())[: wanted.max_results]


def clean_text(value: object) -> str:
    """Return a string without half characters, which no encoder takes; empty for anything else."""
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else ""


def iso_day(value: object) -> str:
    """Return the day of a date in ISO or mail form as YYYY-MM-DD; empty when it is neither."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return parse(clean_text(value)).date().isoformat()
        except (ValueError, OverflowError):
            continue
    return ""
