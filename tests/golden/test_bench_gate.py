"""The regression gate on a small set written for it: what was measured once must not get worse.

After a change for the better, write the new figures into `bench.json`.
"""

import asyncio
import json
from pathlib import Path

import pytest

from crag_graph.load import load
from crag_graph.measure.bench.compare import compare, parse_rule
from crag_graph.measure.bench.run import bench, plan

HERE = Path(__file__).parent
RULES = [
    parse_rule(written)
    for written in (
        "route_accuracy:0.05",
        "evidence_recall:0.07",
        "answer_match:0.07",
        "context_ratio:0.15",
        "false_correct:0.11",
        "false_answer:0.26",
    )
]


def failures(**environment):
    asked = plan(HERE / "bench.squad.json", seed=7, split="paragraph", limit=None, systems="crag")
    measured = asyncio.run(bench(asked, load("offline", environment), progress=lambda *_: None))
    baseline = json.loads((HERE / "bench.json").read_text())
    return [finding.rule.metric for finding in compare(baseline, measured, RULES) if finding.failed]


def test_the_offline_profile_is_as_good_as_it_was():
    assert failures() == []


@pytest.mark.parametrize(
    ("setting", "value", "metric"),
    [
        ("CRAG_EVALUATOR__LOCAL__UPPER", "1.0", "route_accuracy"),
        ("CRAG_CORRECTIONS__MAX_ROUNDS", "0", "evidence_recall"),
    ],
)
def test_settings_that_make_it_worse_fail_the_gate(setting, value, metric):
    assert metric in failures(**{setting: value})
