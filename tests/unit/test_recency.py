"""Questions about now."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules import recency
from crag_graph.rules.recency import is_recent, time_range


@pytest.mark.parametrize(
    ("question", "looks_back"),
    [
        ("What is the latest version of X?", "year"),
        ("What is the current price of X?", "year"),
        ("Wer ist derzeit Kanzler?", "year"),
        ("Was ist heute passiert?", "day"),
        ("Quelle est la dernière version ?", "year"),
        ("¿Qué pasó esta semana?", "week"),
        ("X 的最新版本是什么？", "year"),
        ("今日の天気は？", "day"),
        ("What happened this month?", "month"),
    ],
)
def test_a_question_about_now_says_how_far_to_look_back(question, looks_back):
    assert time_range(question, 2031) == looks_back


@pytest.mark.parametrize(
    "question",
    [
        "Why was 1900 not a leap year?",
        "How long is the warranty?",
        "What is direct current?",
        "Who knows the answer?",
        "latest release in 2024",
        "Was kostet die Pumpe?",
    ],
)
def test_a_timeless_question_is_not_limited(question):
    assert time_range(question, 2031) is None


@given(st.text(max_size=40), st.integers(1500, 2099))
def test_only_a_question_about_now_is_ever_limited(text, year):
    assert time_range(text, year) is None or is_recent(text)


def test_the_examples_in_the_module_are_true():
    assert doctest.testmod(recency).failed == 0
