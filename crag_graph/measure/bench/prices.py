"""What a thousand questions cost at list prices that a table gives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crag_graph.errors import InputError


@dataclass(frozen=True)
class Price:
    """List price of one model, per million tokens."""

    model: str
    input: float
    output: float


@dataclass(frozen=True)
class Prices:
    """A dated price table in one currency."""

    date: str
    currency: str
    models: tuple[Price, ...]


def read_prices(path: Path) -> Prices:
    """Read a price table: `date`, `currency`, and `input` and `output` per million tokens for each of `models`.

    Raises:
        InputError: the file cannot be read or is no such table.
    """
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        models = tuple(Price(str(k), float(v["input"]), float(v["output"])) for k, v in data["models"].items())
        return Prices(str(data["date"]), str(data["currency"]), models)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: no price table (date, currency, models: input, output): {error}") from error


def per_thousand(price: Price, tokens_in: float, tokens_out: float) -> float:
    """Return the price of a thousand questions that take so many tokens each.

    >>> per_thousand(Price("m", input=1.0, output=4.0), tokens_in=2000, tokens_out=100)
    2.4
    """
    return 1000 * (tokens_in * price.input + tokens_out * price.output) / 1_000_000
