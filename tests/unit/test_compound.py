"""Splitting compound questions by rule."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules import compound, verdict
from crag_graph.rules.compound import MAX_PARTS, split_question
from crag_graph.rules.question import is_followup


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Price of the Falcon and warranty of the Heron?", ["Price of the Falcon", "warranty of the Heron"]),
        ("What is the price of X100? What is its warranty?", ["What is the price of X100", "What is X100 warranty"]),
        ("When was the Heron built, and who built it?", ["When was the Heron built", "who built Heron"]),
        ("Who is Marie Curie and what did she discover?", ["Who is Marie Curie", "what did Marie Curie discover"]),
        (
            "How much does the X100 cost and how long is the warranty?",
            ["How much does the X100 cost", "how long is the warranty X100"],
        ),
        ("Was kostet die P20 und wie lange hält sie?", ["Was kostet die P20", "wie lange hält P20"]),
        (
            "Quel est le prix du Falcon et quelle est la garantie du Heron ?",
            ["Quel est le prix du Falcon", "quelle est la garantie du Heron"],
        ),
        (
            "¿Cuál es el precio del X100 y cuándo se fabricó?",
            ["¿Cuál es el precio del X100", "cuándo se fabricó X100"],
        ),
        ("X100的价格；Y200的保修期？", ["X100的价格", "Y200的保修期"]),
        ("X100の価格、Y200の保証期間は？", ["X100の価格", "Y200の保証期間は"]),
    ],
)
def test_a_compound_question_is_split_into_parts_that_stand_alone(question, parts):
    assert split_question(question) == parts


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote Pride and Prejudice?",
        "What is the price of X and Y?",
        "What is the difference between the price of X and the price of Y?",
        'Who sang "Price of Love and End of Hope" first?',
        "In Germany, how long is the warranty of the Falcon?",
        "If it rains, what happens?",
        "How long is the warranty?",
        "日本では、猫の名前は何ですか",
        "",
    ],
)
def test_a_question_for_one_thing_stays_as_it_is(question):
    assert split_question(question) == [question]


def test_what_is_beyond_the_third_part_stays_in_it():
    parts = split_question("Price of A1, warranty of B2, weight of C3 and colour of D4")
    assert parts == ["Price of A1", "warranty of B2", "weight of C3 and colour of D4"]


PIECES = st.lists(
    st.sampled_from([" and ", "what is ", "price of ", "X100", "its ", "? ", ", ", "、", "；", '"', " und wie "])
    | st.text(max_size=4),
    max_size=14,
).map("".join)


@given(PIECES)
def test_any_text_gives_one_to_three_parts_that_are_not_blank(text):
    parts = split_question(text)
    assert parts == [text] or (2 <= len(parts) <= MAX_PARTS and all(part.strip() for part in parts))


def test_no_part_leans_on_a_bare_pronoun():
    for part in split_question("How tall is the Eiffel Tower, who built it and when was it finished?"):
        assert not is_followup(part)


@pytest.mark.parametrize("module", [compound, verdict])
def test_the_examples_in_the_module_are_true(module):
    assert doctest.testmod(module).failed == 0
