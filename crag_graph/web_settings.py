"""The settings of the web's parts, each a frozen block; `web` in the settings holds them.

Every key is described once, in `configs/default.yaml`.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
_Retries = Annotated[int, Field(ge=0, le=10)]
_Language = Annotated[str, Field(pattern=r"^[a-z]{2,12}(-[A-Za-z]{2,12})*$")]
_Port = Annotated[int, Field(ge=1, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class WikipediaSettings(_Section):
    """Wikipedia, or any other wiki that runs MediaWiki with extracts."""

    base_url: str = "https://{language}.wikipedia.org/w/api.php"
    language: _Language = "auto"
    full_pages: Annotated[int, Field(ge=0, le=10)] = 3
    max_chars: Annotated[int, Field(ge=200, le=50_000)] = 2_000
    contact: str | None = None
    timeout_s: _Seconds = 15
    max_retries: _Retries = 2


class SearxngSettings(_Section):
    """A SearXNG instance that answers in JSON."""

    base_url: str | None = None
    language: _Language = "all"
    categories: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    timeout_s: _Seconds = 15
    max_retries: _Retries = 2


class PageSettings(_Section):
    """Reading the pages that a search found."""

    max_pages: Annotated[int, Field(ge=0, le=10)] = 0
    max_chars: Annotated[int, Field(ge=200, le=50_000)] = 3_000
    timeout_s: _Seconds = 10
    max_mb: Annotated[float, Field(gt=0, le=50, allow_inf_nan=False)] = 2
    ports: tuple[_Port, ...] = (80, 443)
    allow_private: bool = False


class WebCacheSettings(_Section):
    """What was found, remembered for a while."""

    path: str | None = None
    ttl_hours: Annotated[float, Field(gt=0, le=24 * 365, allow_inf_nan=False)] = 24
