"""The regression gate on two results of the benchmark."""

import math

import pytest

from crag_graph.errors import InputError
from crag_graph.measure.bench.compare import compare, parse_rule


def results(**values):
    return {"systems": {"crag": {"overall": {name: {"value": value} for name, value in values.items()}}}}


def failed(old, new, *rules):
    return [finding.failed for finding in compare(old, new, [parse_rule(rule) for rule in rules])]


def test_a_metric_may_get_worse_within_its_tolerance_only():
    old, new = results(route_accuracy=0.92), results(route_accuracy=0.90)
    assert failed(old, new, "route_accuracy:0.02") == [""]
    assert "worse by 0.02" in failed(old, new, "route_accuracy:0.01")[0]


def test_for_costs_and_errors_more_is_worse():
    old, new = results(false_answer=0.05, seconds_p50=1.0), results(false_answer=0.06, seconds_p50=0.5)
    assert failed(old, new, "false_answer", "seconds_p50") == ["worse by 0.01, allowed is 0", ""]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_no_number_fails(value):
    good, bad = results(route_accuracy=0.9), results(route_accuracy=value)
    assert "new run is" in failed(good, bad, "route_accuracy:1")[0]
    assert "old run is" in failed(bad, good, "route_accuracy:1")[0]


def test_a_missing_figure_fails():
    assert failed(results(), results(route_accuracy=1), "route_accuracy") == ["the figure of the old run is missing"]
    assert failed(results(route_accuracy=1), {}, "route_accuracy") == ["the figure of the new run is missing"]


@pytest.mark.parametrize(
    "written", ["accuracy", "route_accuracy:x", "route_accuracy:-1", "route_accuracy:nan", "a.b.c.x"]
)
def test_a_rule_that_cannot_be_meant_is_refused(written):
    with pytest.raises(InputError, match="--fail-on"):
        parse_rule(written)


def test_a_rule_may_name_system_and_class():
    rule = parse_rule("vanilla.index.answer_match:0.1")
    assert (rule.name, rule.tolerance) == ("vanilla.index.answer_match", 0.1)


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [("dataset", {"sha256": "a"}, {"sha256": "b"}), ("plan", {"limit": None}, {"limit": 5})],
)
def test_runs_on_other_data_or_by_another_plan_do_not_compare(what, old, new):
    good = results(route_accuracy=0.9)
    with pytest.raises(InputError, match=f"{what} differs"):
        failed(good | {what: old}, good | {what: new}, "route_accuracy")
    moved = failed(good | {"dataset": {"name": "a"}}, good | {"dataset": {"name": "b"}}, "route_accuracy")
    assert moved == [""]
