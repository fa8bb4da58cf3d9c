"""What a web page says, without its menus, scripts and advertisements."""

import codecs
import logging
import re
from typing import NamedTuple

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")


class Page(NamedTuple):
    """A page as text; title, ISO date and address are empty where the page does not say."""

    text: str
    title: str = ""
    date: str = ""
    url: str = ""


def main_text(body: bytes, media_type: str, charset: str | None) -> Page | None:
    """Return the main text of a page as markdown; None when it has none. `charset` is what the server said.

    Plain text stays as it is.
    """
    text = _decode(body, charset).replace("\r\n", "\n").replace("\0", "\ufffd")
    if media_type == "text/plain":
        return Page(text.strip()) if text.strip() else None
    return html_page(text)


def html_page(html: str, *, favor_recall: bool = False) -> Page | None:
    """Return the main text of a page as markdown, in doubt more of it on `favor_recall`; None when it has none."""
    import trafilatura

    # What it cannot use it also logs; the caller says as much.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    # The parser refuses a declared encoding in text that is decoded already, and fragments without a document type.
    tree = trafilatura.load_html("<!DOCTYPE html>" + _DECLARATION.sub("", html, count=1))
    if tree is None:
        return None
    known = trafilatura.extract_metadata(tree)
    text = trafilatura.extract(
        tree, output_format="markdown", include_formatting=True, include_comments=False, favor_recall=favor_recall
    )
    return Page(text, known.title or "", known.date or "", known.url or "") if text else None


def _decode(body: bytes, charset: str | None) -> str:
    """Decode as browsers do, but let text that is sound UTF-8 be UTF-8, whatever the page calls itself."""
    for mark, encoding in _MARKS.items():
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        declared = _CHARSET.search(body[:4096])
    for name in (charset, declared and declared[1].decode("ascii")):
        try:
            codec = codecs.lookup(name or "").name
            # What calls itself Latin-1 on the web is its superset.
            return body.decode("cp1252" if codec == "iso8859-1" else codec, "replace")
        except (LookupError, UnicodeError):
            continue
    return body.decode("cp1252", "replace")
