"""The text of a PDF, page by page."""

import io
import logging
import struct
import zlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.plain import iso_date

if TYPE_CHECKING:
    from pypdf import PdfReader

# A damaged file leads pypdf anywhere: besides its own errors it raises these.
_DAMAGE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError, zlib.error, struct.error)


def read_pdf(path: Path, raw: bytes) -> LoadedFile:
    """Read every page that has text; pages are numbered as in the file, from 1.

    Raises:
        InputError: the file needs a password, is damaged, or holds only images.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    # Its log lines would repeat on stderr what the reason says.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    # A file cut short lacks its index, and pypdf would make do with whatever pages it can find.
    if b"%%EOF" not in raw.rstrip(b"\0\r\n\t ")[-1024:]:
        raise InputError("corrupt: the end of the PDF is missing")
    try:
        reader = PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError("password-protected: save a copy without a password")
        texts = [page.extract_text() for page in reader.pages]
        known = {"title": _title(reader) or path.stem, "date": _date(reader)}
    except (PyPdfError, *_DAMAGE) as error:
        raise InputError(f"corrupt: not readable as PDF ({error})") from error
    empty = sum(not text.strip() for text in texts)
    if empty == len(texts):
        raise InputError("no extractable text (scanned?): run text recognition on it first")
    documents = [
        Document(text, metadata={**known, "page": number}) for number, text in enumerate(texts, start=1) if text.strip()
    ]
    warnings = (f"{empty} of {len(texts)} pages empty (scanned?)",) if empty else ()
    return LoadedFile(documents, markdown=False, warnings=warnings)


def _title(reader: "PdfReader") -> str:
    title = reader.metadata.title if reader.metadata else None
    return (title or "").strip()


def _date(reader: "PdfReader") -> str | None:
    known = reader.metadata
    dates: list[datetime | None] = []
    try:
        dates = [known.modification_date, known.creation_date] if known else []
    except ValueError:  # a date that is none does not make the text worse
        return None
    return next((iso_date(day) for day in dates if day), None)
