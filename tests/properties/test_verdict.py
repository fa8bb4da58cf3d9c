"""What must hold for every set of scores."""

from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules.enough import is_enough
from crag_graph.rules.verdict import decide, is_good

ORDER = {"incorrect": 0, "ambiguous": 1, "correct": 2}
unit = st.floats(0, 1, allow_nan=False)
scores = st.lists(unit | st.none(), max_size=12)
bounds = st.tuples(unit, unit).map(sorted)
aggregates = st.sampled_from(["max", "mean", "top1"])


@given(scores.filter(bool), bounds, aggregates, st.data())
def test_raising_a_score_never_worsens_the_verdict(values, cut, aggregate, data):
    at = data.draw(st.integers(0, len(values) - 1))
    if values[at] is None:
        return
    raised = [*values]
    raised[at] = data.draw(st.floats(values[at], 1))
    lower, upper = cut
    before, _ = decide(values, upper=upper, lower=lower, aggregate=aggregate)
    after, _ = decide(raised, upper=upper, lower=lower, aggregate=aggregate)
    assert ORDER[after] >= ORDER[before]


@given(st.lists(unit | st.none(), max_size=12), bounds)
def test_the_order_of_documents_does_not_matter_for_the_best_score(values, cut):
    lower, upper = cut
    forwards, _ = decide(values, upper=upper, lower=lower)
    backwards, _ = decide(values[::-1], upper=upper, lower=lower)
    assert forwards == backwards


@given(bounds, aggregates, st.integers(1, 9))
def test_documents_that_cannot_be_graded_are_never_called_incorrect(cut, aggregate, count):
    lower, upper = cut
    verdict, reason = decide([None] * count, upper=upper, lower=lower, aggregate=aggregate)
    assert verdict == "ambiguous"
    assert str(count) in reason


@given(unit, bounds)
def test_a_verdict_above_incorrect_leaves_at_least_one_good_document(score, cut):
    lower, upper = cut
    verdict, _ = decide([score], upper=upper, lower=lower)
    assert is_good(score, verdict, lower=lower) == (verdict != "incorrect")


@given(st.lists(st.tuples(unit | st.none(), st.booleans()), max_size=8), unit)
def test_more_kept_strips_never_make_the_evidence_less_sufficient(kept, sufficient):
    for verdict in ORDER:
        for n in range(len(kept)):
            if is_enough(kept[:n], verdict, sufficient=sufficient):
                assert is_enough(kept, verdict, sufficient=sufficient)
