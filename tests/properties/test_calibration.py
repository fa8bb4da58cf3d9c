"""What must hold for every set of scores, labels and costs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crag_graph.rules.calibration import (
    Case,
    by_question,
    changing,
    cut_offs,
    errors,
    intervals,
    on_steps,
    rising_steps,
)

unit = st.floats(0, 1, allow_nan=False)
coarse = st.integers(0, 10).map(lambda tenths: tenths / 10)  # as a model grades: few values, many ties
score = unit | coarse
cases = st.lists(st.builds(Case, score | st.none(), score | st.none()), min_size=1, max_size=25)
costs = st.floats(1, 1000, allow_nan=False) | st.integers(1, 5)
labelled = st.lists(st.tuples(score, st.integers(0, 1)), min_size=1, max_size=40)


def loss(all_cases, cut, alarm, miss):
    useless = sum(case.irrelevant is not None and case.irrelevant >= cut for case in all_cases)
    helpful = sum(case.relevant is not None and case.relevant < cut for case in all_cases)
    return alarm * useless + miss * helpful


@settings(deadline=None)
@given(cases, costs)
def test_the_lenient_cut_off_never_lies_above_the_strict_one_and_both_are_thresholds(all_cases, cost):
    strict, lenient = cut_offs(all_cases, cost)
    assert 0 <= lenient <= strict <= 1


@settings(deadline=None)
@given(cases, costs, costs)
def test_a_higher_cost_never_lowers_the_strict_cut_off_nor_raises_the_lenient_one(all_cases, cost, other):
    cheap, dear = cut_offs(all_cases, min(cost, other)), cut_offs(all_cases, max(cost, other))
    assert cheap.strict <= dear.strict
    assert cheap.lenient >= dear.lenient


@settings(deadline=None)
@given(cases, st.integers(1, 20), unit)
def test_no_other_place_has_less_loss(all_cases, cost, other):
    strict, lenient = cut_offs(all_cases, cost)
    assert loss(all_cases, strict, cost, 1) <= loss(all_cases, other, cost, 1)
    assert loss(all_cases, lenient, 1, cost) <= loss(all_cases, other, 1, cost)


@settings(deadline=None)
@given(cases, costs, st.randoms())
def test_the_order_of_the_questions_does_not_matter(all_cases, cost, random):
    shuffled = [*all_cases]
    random.shuffle(shuffled)
    assert cut_offs(shuffled, cost) == cut_offs(all_cases, cost)


@settings(deadline=None)
@given(cases, unit, unit)
def test_a_higher_cut_off_has_no_more_alarms_and_no_fewer_misses(all_cases, cut, other):
    low, high = errors(all_cases, min(cut, other)), errors(all_cases, max(cut, other))
    assert low.alarms >= high.alarms
    assert low.misses <= high.misses


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 1), score), min_size=1, max_size=20))
def test_a_case_holds_the_best_of_each_label_of_its_question(rows):
    questions = list(dict.fromkeys(question for question, _, _ in rows))
    for question, case in zip(questions, by_question(rows), strict=True):
        for label, best in ((1, case.relevant), (0, case.irrelevant)):
            assert best == max((s for q, known, s in rows if (q, known) == (question, label)), default=None)


@settings(deadline=None)
@given(st.lists(cases, min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 3))
def test_intervals_are_ordered_and_the_same_for_the_same_seed(units, cost, seed):
    found = intervals(units, cost, seed, times=20)
    assert all(0 <= low <= high <= 1 for low, high in found)
    assert found == intervals(units, cost, seed, times=20)


@settings(deadline=None)
@given(labelled)
def test_steps_rise_and_keep_the_share_of_relevant(rows):
    steps = rising_steps(rows)
    values = [on_steps(steps, value) for value, _ in sorted(rows)]
    assert values == sorted(values)
    assert all(0 <= value <= 1 for value in values)
    assert abs(sum(values) - sum(label for _, label in rows)) < 1e-6


@settings(deadline=None)
@given(st.lists(st.lists(score | st.none(), max_size=4), max_size=10), st.tuples(unit, unit).map(sorted))
def test_scores_that_do_not_move_change_no_verdict(scores, bounds):
    lower, upper = bounds
    assert changing(scores, 0.0, upper=upper, lower=lower) == 0
    assert 0 <= changing(scores, 0.05, upper=upper, lower=lower) <= len(scores)
