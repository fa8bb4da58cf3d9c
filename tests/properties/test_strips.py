"""What must hold for every text that is cut into strips."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules.fusion import pieces
from crag_graph.rules.strips import MAX_CODE, strips, units

MARKS = [
    "\n",
    "\n\n",
    ". ",
    "! ",
    "。",
    "।",
    "؟",
    "| a | b |\n",
    "|---|---|\n",
    "- item\n",
    "1. one\n",
    "# Head\n",
    "```\n",
]
words = st.text(max_size=30) | st.sampled_from(["Dr. ", "e.g. ", "3.14 ", "U.S. ", "🦅", "👩‍🚀", "עברית ", "ไทย "])
texts = st.lists(words | st.sampled_from(MARKS), max_size=40).map("".join)
languages = st.sampled_from(["auto", "en", "de", "zh", "ja", "hi", "ar", "th"])
modes = st.sampled_from(["windows", "sentence", "excerpt", "fixed", "selection"])
windows = st.tuples(st.integers(1, 6), st.integers(0, 5)).filter(lambda sizes: sizes[1] < sizes[0])


@given(texts, languages)
def test_joined_units_give_back_the_text(text, language):
    assert "".join(text[unit.start : unit.end] for unit in units(text, language)) == text


@given(texts, modes, windows)
def test_no_strip_repeats_and_all_stand_in_order(text, mode, sizes):
    found = strips(text, mode, window=sizes[0], overlap=sizes[1])
    starts = [strip.start for strip in found]
    assert len({(strip.start, strip.end) for strip in found}) == len(found)
    assert starts == sorted(starts)


@given(texts, modes, windows)
def test_strips_lose_nothing_but_white_space(text, mode, sizes):
    covered = set()
    for strip in strips(text, mode, window=sizes[0], overlap=sizes[1]):
        assert text[strip.start : strip.end].strip() == text[strip.start : strip.end] != ""
        covered |= set(range(strip.start, strip.end))
    assert all(char.isspace() for at, char in enumerate(text) if at not in covered)


@given(texts, windows)
def test_all_strips_together_recompose_to_the_text_once(text, sizes):
    found = strips(text, window=sizes[0], overlap=sizes[1])
    whole = pieces(text, [(strip.start, strip.end) for strip in found])
    assert whole.split() == text.split()


@given(texts)
def test_a_lead_lies_before_its_strip(text):
    for strip in strips(text):
        assert strip.lead_start <= strip.lead_end <= strip.start or strip.lead_end == 0


@pytest.mark.parametrize(
    "line", ["x" * 50_000, "word " * 10_000, "字" * 50_000, "| a | b |\n" * 5_000, "- x\n" * 12_500]
)
@pytest.mark.parametrize("mode", ["windows", "sentence", "excerpt", "fixed"])
def test_a_text_without_sentence_ends_is_cut_into_bounded_strips_in_linear_time(line, mode):
    started = time.process_time()
    found = strips(line, mode)
    assert time.process_time() - started < 1
    assert len(found) > 10
    assert max(strip.end - strip.start for strip in found) <= MAX_CODE
