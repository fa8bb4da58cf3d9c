"""The regression gate: no named metric may get worse by more than its tolerance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crag_graph.errors import InputError
from crag_graph.measure.bench.data import PLACES
from crag_graph.measure.bench.summary import QUANTILES, RATIOS, better

_GROUPS = ("overall", "answerable", *PLACES)


@dataclass(frozen=True)
class Rule:
    """One metric of one group of one system, and by how much it may get worse (in its own unit)."""

    system: str
    group: str
    metric: str
    tolerance: float

    @property
    def name(self) -> str:
        """The rule's metric as it is written on the command line."""
        return f"{self.system}.{self.group}.{self.metric}"


@dataclass(frozen=True)
class Finding:
    """What a rule found; `failed` says why, and is empty when all is well."""

    rule: Rule
    old: float | None
    new: float | None
    failed: str


def parse_rule(written: str) -> Rule:
    """Read `[SYSTEM.][GROUP.]METRIC[:TOLERANCE]`.

    >>> parse_rule("web.evidence_recall:0.02")
    Rule(system='crag', group='web', metric='evidence_recall', tolerance=0.02)

    Raises:
        InputError: the metric or group is unknown, or the tolerance is no number of at least 0.
    """
    name, _, tolerance = written.partition(":")
    *before, metric = name.split(".")
    group = before.pop() if before and before[-1] in _GROUPS else "overall"
    system = before.pop() if before else "crag"
    if metric not in RATIOS and metric not in QUANTILES:
        raise InputError(f"--fail-on {written}: no metric {metric!r}; write one of {', '.join([*RATIOS, *QUANTILES])}")
    try:
        allowed = float(tolerance or 0)
    except ValueError:
        allowed = math.nan
    if before or not (math.isfinite(allowed) and allowed >= 0):
        raise InputError(f"--fail-on {written}: write [SYSTEM.][GROUP.]METRIC[:TOLERANCE], the tolerance 0 or more")
    return Rule(system, group, metric, allowed)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], rules: Sequence[Rule]) -> list[Finding]:
    """Check every rule on two results of `crag bench`; a missing or non-finite figure fails.

    Raises:
        InputError: they were measured on different data or by different plans.
    """
    for what in ("dataset", "plan"):
        if what in old and what in new and _identity(old[what]) != _identity(new[what]):
            raise InputError(f"the two runs do not compare, since their {what} differs: {old[what]} and {new[what]}")
    return [_check(rule, _value(old, rule), _value(new, rule)) for rule in rules]


def _identity(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != "name"}  # a file may move


def _check(rule: Rule, old: float | None, new: float | None) -> Finding:
    for which, value in (("old", old), ("new", new)):
        if value is None or not math.isfinite(value):
            said = "is missing" if value is None else f"is {value}"
            return Finding(rule, old, new, f"the figure of the {which} run {said}")
    worse = (old - new) if better(rule.metric) == "higher" else (new - old)  # type: ignore[operator]
    if worse > rule.tolerance + 1e-12:
        return Finding(rule, old, new, f"worse by {worse:.4g}, allowed is {rule.tolerance:g}")
    return Finding(rule, old, new, "")


def _value(results: Mapping[str, Any], rule: Rule) -> float | None:
    found: Any = results
    for key in ("systems", rule.system, rule.group, rule.metric, "value"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
