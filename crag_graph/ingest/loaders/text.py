"""Plain text and markdown, in whatever encoding they come."""

import re
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders.loaded import LoadedFile
from crag_graph.ingest.loaders.plain import iso_date
from crag_graph.ingest.markdown import only_title

# UTF-32 first: its mark begins with the one of UTF-16.
_MARKS = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
# The legacy encodings that files really come in; among more of them, short texts are guessed wrong.
_LEGACY = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("iso8859_2", "iso8859_5", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp866"),
    "latin_1",
)
_SAMPLE = 65_536  # bytes that are looked at where a glance must do
_CONTEXT = 60  # bytes on either side of an accent that tell what it is
_HIGH = bytes(range(128, 256))
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_DECLARED = re.compile(rb"""(?:charset|encoding)=["']?[\w-]+["']?""")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def read_text(path: Path, raw: bytes) -> LoadedFile:
    """Read plain text; nothing in it is taken for markup."""
    text, warnings = decode(raw)
    return LoadedFile([Document(text, metadata={"title": path.stem})], markdown=False, warnings=warnings)


def read_markdown(path: Path, raw: bytes) -> LoadedFile:
    """Read markdown. YAML front matter becomes metadata; the title is its `title`, else the only top heading."""
    text, warnings = decode(raw)
    metadata, body = _split_front_matter(text)
    metadata["title"] = str(metadata.get("title") or only_title(body) or path.stem)
    metadata |= {"date": iso_date(metadata.get("date")), "page": None}
    return LoadedFile([Document(body, metadata=metadata)], warnings=warnings)


def decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, with `\\n` as its only line break and without a byte order mark, and warnings.

    Raises:
        InputError: the bytes are no text.
    """
    encoding = _encoding(raw)
    warnings: tuple[str, ...] = ()
    try:
        text = raw.decode(encoding, "surrogatepass" if encoding.startswith("utf") else "strict")
    except UnicodeDecodeError:
        text = raw.decode(encoding, "replace")
        warnings = (f"bytes that are not {encoding} were replaced",)
    # A few NULs in sound Unicode are a slip, which is mended later; as many as in an archive are not.
    tolerated = 0.3 if encoding.startswith("utf") else 0.02
    sample = text[:_SAMPLE]
    if len(_CONTROLS.findall(sample)) > tolerated * len(sample):
        raise InputError("binary content under the name of a text file")
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), warnings


def _encoding(raw: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            return encoding
    sample = raw[:_SAMPLE]
    # Latin letters in UTF-16 have every other byte zero, and would pass as UTF-8 with NULs between them.
    for encoding, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if zeros.count(0) > 0.4 * len(zeros) and sample.count(0) < 0.6 * len(sample):
            return encoding
    return "utf-8" if _is_utf8(raw) else _legacy_encoding(raw)


def _is_utf8(raw: bytes) -> bool:
    """Tell whether the bytes are UTF-8, maybe damaged: ten sound characters beyond ASCII for each broken byte."""
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        broken = text.count("\ufffd")
        return len(text) - len(text.encode("ascii", "ignore")) > 11 * broken
    return True


def _legacy_encoding(raw: bytes) -> str:
    from charset_normalizer import from_bytes

    matches = from_bytes(_telling_part(raw), cp_isolation=list(_LEGACY))
    best = matches.best()
    if best is None:
        raise InputError("binary content, or text in an unknown encoding")
    if best.encoding == "latin_1":  # what calls itself Latin-1 mostly is its superset
        return "cp1252"
    # Western text fits several encodings equally well, all the more when accents are rare: the commonest is meant.
    accents_are_rare = len(raw) - len(raw.translate(None, _HIGH)) < 0.02 * len(raw)
    for match in matches:
        is_as_good = match.chaos <= best.chaos and (accents_are_rare or match.coherence >= best.coherence)
        if is_as_good and "cp1252" in match.could_be_from_charset:
            return "cp1252"
    return best.encoding


def _telling_part(raw: bytes) -> bytes:
    """Return the encoding that a page declares, and what stands around bytes beyond ASCII.

    The detector looks at a few places only, which in long text may hold none of these bytes.
    """
    declared = _DECLARED.search(raw[:_SAMPLE])
    parts, end = [declared[0] if declared else b""], 0
    for run in islice(_HIGH_RUN.finditer(raw), 2_000):
        parts.append(raw[max(end, run.start() - _CONTEXT) : run.end() + _CONTEXT])
        end = run.end() + _CONTEXT
    return b"".join(parts)


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    found = _FRONT_MATTER.match(text)
    if not found:
        return {}, text
    try:
        # Aliases let a few lines stand for gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(found[1], Loader=yaml.SafeLoader)):
            return {}, text
        metadata = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError):
        return {}, text
    return (metadata, text[found.end() :]) if isinstance(metadata, dict) else ({}, text)
