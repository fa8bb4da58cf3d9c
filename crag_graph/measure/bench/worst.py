"""Which questions went wrong worst: what misleads a reader first, then what is missed, then what is wasted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crag_graph.measure.bench.metrics import answer_match, holds, right_action


@dataclass(frozen=True)
class Fault:
    """One question that went wrong, what went wrong, and how bad it is (higher is worse)."""

    case: Mapping[str, Any]
    run: Mapping[str, Any]
    said: str
    weight: int


def worst(results: Mapping[str, Any], count: int) -> list[Fault]:
    """Return the worst faults of the corrective graph, worst first."""
    found = [_judge(case, case["runs"]["crag"]) for case in results["cases"] if "crag" in case["runs"]]
    return sorted((fault for fault in found if fault.weight), key=lambda fault: -fault.weight)[:count]


def _judge(case: Mapping[str, Any], run: Mapping[str, Any]) -> Fault:
    place, missed = case["place"], not holds(run["context"], case["golds"])
    matched = answer_match(run["answer"], case["golds"])
    faults = {
        "a grounded answer to what nobody knows": (5, place == "nowhere" and run["grounded"]),
        "called correct without the evidence": (4, place != "index" and run["verdict"] == "correct"),
        "answered without the evidence": (3, place != "nowhere" and missed and not run["abstained"]),
        "the evidence did not reach the context": (2, place != "nowhere" and missed),
        "abstained with the evidence at hand": (2, place != "nowhere" and not missed and run["abstained"]),
        "the answer is not in what was said": (
            1,
            place != "nowhere" and not matched,
        ),
        "the wrong action": (1, not right_action(place, run["verdict"], run["abstained"])),
    }
    true = {said: weight for said, (weight, holds_true) in faults.items() if holds_true}
    return Fault(case, run, "; ".join(true), sum(true.values()))
