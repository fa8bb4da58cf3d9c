r"""What is sent to a search engine, and which of the addresses that come back are the same or welcome.

A query is one clean line. Whatever a model wraps around it goes: thinking, code fences, JSON, a label such as "Search
query:", bullets, quotes around the whole; of several lines the first that says something counts. It is cut at a word to
the provider's limit. Two queries are the same when they differ only in case, spacing, punctuation.

>>> clean_query('<think>Hm.</think>\n```\nSearch query: "Falcon drone  weight"\n```', 400)
'Falcon drone weight'
>>> clean_query('{"query": "Falcon drone weight"}', 13)
'Falcon drone'
>>> canonical_query("Falcon, drone: WEIGHT?") == canonical_query("falcon drone weight")
True

Two addresses are the same when they differ only in case of scheme and host, default port, user name, fragment, tracking
parameters or a slash at the end. A domain stands for itself and everything below it; denied beats allowed, and with
nothing allowed by name, everything is.

>>> canonical_url("HTTPS://Example.com:443/a/?utm_source=x&id=7#top")
'https://example.com/a?id=7'
>>> host_allowed("https://docs.example.com/", allow=["example.com"], deny=[])
True
>>> host_allowed("https://badexample.com/", allow=["example.com"], deny=[])
False
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

_THINKING = re.compile(
    r"<(think(?:ing)?)>.*?</\1>|^\s*<think(?:ing)?>.*|^.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
_FENCE = re.compile(r"^\s*(?:```|~~~)[\w-]*\s*$")
_BULLET = re.compile(r"^(?:[-*•‣–>]\s+|#+\s+)+")
_NUMBER = re.compile(r"^(?:\(?\d{1,2}[.)]\s+)+")
_LABEL = re.compile(
    r"^[*_`]*(?:(?:the|web|search|rewritten|refined|improved|optimi[sz]ed|better|new|final|standalone)\s+)*"
    r"(?:query|question|search|keywords)[*_`]*\s*[:：][*_`]*\s*",
    re.IGNORECASE,
)
_QUOTES = {"```": "```", '"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»", "「": "」", "**": "**"}
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"
_EMOJI_PARTS = ("\u200d", *map(chr, range(0x1F3FB, 0x1F400)), *map(chr, range(0xE0020, 0xE0080)))
_TRACKING = re.compile(
    r"utm_.*|gclid|gclsrc|dclid|gbraid|wbraid|srsltid|fbclid|msclkid|twclid|ttclid|yclid|igshid|li_fat_id|mc_[ce]id"
    r"|mkt_tok|_hsenc|_hsmi|_gl",
    re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def clean_query(text: str, max_chars: int) -> str:
    """Return the query in whatever a model wrote, as one line of at most `max_chars`; empty when there is none."""
    while (cleaner := clip(_unwrap(text), max_chars)) != text:
        text = cleaner
    return text


def clip(text: str, max_chars: int) -> str:
    """Cut `text` to at most `max_chars` characters at a word border; never blank unless `text` is.

    Where the last word would take more than half of what is left (scripts without spaces, long tokens, rows of emoji),
    it is cut too, between characters as a reader sees them.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    border = max((match.start() for match in re.finditer(r"\s", text[: max_chars + 1])), default=0)
    if 2 * border < max_chars:
        border = _grapheme_border(text, max_chars) or max_chars
    return text[:border].rstrip()


def canonical_query(text: str) -> str:
    """Return what is left of a query without case, spacing and punctuation, to compare it with others."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (c if c == "#" or unicodedata.category(c)[0] in "LMNS" else " " for c in folded)
    return " ".join("".join(kept).split())


def canonical_url(url: str) -> str:
    """Return one spelling for all addresses of a page; text that is no address comes back stripped."""
    url = url.strip()
    parts, host = _split(url)
    if not parts or not host:
        return url
    netloc = f"[{host}]" if ":" in host else host
    port = _port(parts)
    if port is not None and port != _DEFAULT_PORTS.get(parts.scheme):
        netloc = f"{netloc}:{port}"
    kept = [p for p in parts.query.split("&") if p and not _TRACKING.fullmatch(p.split("=", 1)[0])]
    return SplitResult(parts.scheme, netloc, parts.path.rstrip("/"), "&".join(kept), "").geturl()


def host_allowed(url: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    """Return whether the host of `url` is under a domain of `allow` (or `allow` is empty) and under none of `deny`."""
    _, host = _split(url)
    if not host or any(_is_under(host, domain) for domain in deny):
        return False
    return not allow or any(_is_under(host, domain) for domain in allow)


def _unwrap(text: str) -> str:
    """Take one layer of wrapping off."""
    text = "\n".join(line for line in _THINKING.sub("", text).splitlines() if not _FENCE.match(line)).strip()
    from_json = _query_of_json(text)
    if from_json is not None:
        text = from_json
    lines = [line for line in (_visible(line) for line in text.splitlines()) if line]
    said = [line for line in lines if not line.endswith((":", "："))] or lines
    if not said:
        return ""
    line = _BULLET.sub("", said[0])
    if len(lines) > 1:  # alone, "1. FC Köln" is a name
        line = _NUMBER.sub("", line)
    return _unquote(_LABEL.sub("", line)).strip()


def _query_of_json(text: str) -> str | None:
    if not text.startswith(("{", "[", '"')):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _query_of(value)


def _query_of(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return next((found for item in value if (found := _query_of(item))), None)
    if isinstance(value, dict):
        named = [v for key, v in value.items() if re.search("quer|question|search|keyword", key, re.IGNORECASE)]
        return _query_of(named or (list(value.values()) if len(value) == 1 else []))
    return None


def _visible(line: str) -> str:
    """Return one line with single spaces and nothing that cannot be seen or encoded."""
    kept = (" " if unicodedata.category(c) == "Cc" else c for c in line if c not in _INVISIBLE)
    return " ".join("".join(c for c in kept if unicodedata.category(c) != "Cs").split())


def _unquote(line: str) -> str:
    for opening, closing in _QUOTES.items():
        inner = line[len(opening) : -len(closing)]
        whole = line.startswith(opening) and line.endswith(closing) and len(line) >= len(opening) + len(closing)
        if whole and opening not in inner and closing not in inner:
            return inner
    return line


def _grapheme_border(text: str, at: int) -> int:
    """Return the last place up to `at` that does not split an accented letter, a flag or a composed emoji."""
    while at and (_continues(text[at]) or text[at - 1] == "\u200d" or _splits_flag(text, at)):
        at -= 1
    return at


def _continues(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" or char in _EMOJI_PARTS


def _splits_flag(text: str, at: int) -> bool:
    before = re.search("[\U0001f1e6-\U0001f1ff]*$", text[:at])
    return "\U0001f1e6" <= text[at] <= "\U0001f1ff" and before is not None and len(before[0]) % 2 == 1


def _split(url: str) -> tuple[SplitResult | None, str]:
    """Return the parts of an address and its host in one spelling; no host when there is none to trust."""
    try:
        parts = urlsplit(url.strip())
        host = unquote(parts.hostname or "").rstrip(".")
    except ValueError:
        return None, ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode().rstrip(".")
        except UnicodeError:
            return parts, ""
    host = host.lower()
    return parts, host if re.fullmatch(r"[\w.-]+|[0-9a-f:.]+", host) else ""


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        return None


def _is_under(host: str, domain: str) -> bool:
    spelled = domain.strip().removeprefix("*.").lstrip(".")
    _, suffix = _split(spelled if "://" in spelled else f"//{spelled}")
    return bool(suffix) and (host == suffix or host.endswith(f".{suffix}"))
