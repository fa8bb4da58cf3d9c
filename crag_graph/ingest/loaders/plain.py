"""Text and metadata as every store takes them."""

import json
import re
from collections.abc import Mapping
from datetime import date, datetime

_BROKEN = re.compile("[\x00\ud800-\udfff]")


def repair(text: str) -> tuple[str, int]:
    """Return `text` with split surrogate pairs re-joined and what no encoder takes replaced, and how often."""
    if not _BROKEN.search(text):
        return text, 0
    joined = text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined, joined.count("\ufffd") - text.count("\ufffd")


def iso_date(value: object) -> str | None:
    """Return the day of a date as YYYY-MM-DD, or None when `value` is not a date."""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    try:
        return datetime.fromisoformat(str(value).strip()).date().isoformat()
    except ValueError:
        return None


def plain_metadata(metadata: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return metadata as a store takes it.

    Dates become ISO text, lists and dicts JSON text, and anything else its `str`; None and whatever is empty is left
    out, as is a `page` that is not a number.
    """
    plain: dict[str, str | int | float | bool] = {}
    for key, value in metadata.items():
        if value is None or value in ("", [], (), {}) or (key == "page" and not isinstance(value, int)):
            continue
        if isinstance(value, bool | int | float):
            plain[key] = value
        elif isinstance(value, date):  # a datetime is one, too
            plain[key] = value.isoformat()
        elif isinstance(value, list | tuple | dict):
            plain[key] = repair(json.dumps(value, ensure_ascii=False, default=str))[0]
        else:
            plain[key] = repair(str(value))[0]
    return plain
