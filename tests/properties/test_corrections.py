"""What a corrective round may do, for any settings."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules import corrections
from crag_graph.rules.corrections import after_split, round_actions

ACTIONS = st.lists(st.sampled_from(["web", "requery", "decompose"]), max_size=5).map(tuple)
VERDICTS = st.sampled_from(["correct", "ambiguous", "incorrect"])


@given(VERDICTS, ACTIONS, ACTIONS, st.integers(0, 6), st.integers(0, 5), st.booleans(), st.integers(0, 3))
def test_a_round_does_only_what_is_listed_each_once_and_never_the_web_when_it_is_off(
    verdict, ambiguous, incorrect, rounds, max_rounds, web, parts
):
    listed = {"ambiguous": ambiguous, "incorrect": incorrect}
    actions = round_actions(verdict, listed, rounds=rounds, max_rounds=max_rounds, web=web, parts=parts)
    assert set(actions) <= set(incorrect if verdict == "incorrect" else ambiguous)
    assert len(actions) == len(set(actions))
    assert web or "web" not in actions


@given(VERDICTS, ACTIONS, st.integers(0, 5), st.booleans(), st.integers(0, 3))
def test_the_rounds_always_end(verdict, listed, max_rounds, web, parts):
    done = 0
    while round_actions(
        verdict, {"ambiguous": listed, "incorrect": listed}, rounds=done, max_rounds=max_rounds, web=web, parts=parts
    ):
        done += 1
    assert done <= max_rounds


@given(VERDICTS, ACTIONS, st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_a_question_is_decomposed_in_the_first_round_or_never(verdict, listed, rounds, web, parts):
    both = {"ambiguous": listed, "incorrect": listed}
    assert "decompose" not in round_actions(verdict, both, rounds=rounds, max_rounds=5, web=web, parts=parts)


@given(ACTIONS, st.integers(0, 3))
def test_parts_are_looked_up_before_anything_leaves_the_house(actions, parts):
    left = after_split(actions, parts=parts)
    assert set(left) <= set(actions)
    assert ("decompose" in left) == ("decompose" in actions and parts > 1)
    assert not {"decompose", "web"} <= set(left)


@pytest.mark.parametrize("verdict", ["correct", "ambiguous"])
def test_a_correct_verdict_whose_evidence_fell_short_is_treated_as_ambiguous(verdict):
    listed = {"ambiguous": ("requery",), "incorrect": ("web",)}
    assert round_actions(verdict, listed, rounds=0, max_rounds=1, web=True, parts=0) == ("requery",)


def test_the_examples_in_the_module_are_true():
    assert doctest.testmod(corrections).failed == 0
