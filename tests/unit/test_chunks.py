"""Cutting texts into chunks: along their structure, without losing a word."""

import re
import time
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from crag_graph.ingest.chunks import chunk
from crag_graph.ingest.loaders import LoadedFile
from crag_graph.rules.passage import passage_text
from crag_graph.settings import IngestSettings


def cut(text: str, chars: int = 100, overlap: int = 0, *, markdown: bool = True, **metadata: Any) -> list[Document]:
    document = Document(text, metadata={"source": "/a.md", "title": "a", **metadata})
    return chunk(LoadedFile([document], markdown), IngestSettings(chunk_chars=chars, chunk_overlap=overlap))


def contents(chunks: list[Document]) -> list[str]:
    return [each.page_content for each in chunks]


def test_headings_become_the_path_of_what_stands_below_them() -> None:
    text = "intro\n\n# A\n\n## B ##\nb\n\n### C\nc\n\n## D\nd\n\nUnderlined\n---\ne"
    assert [(each.metadata["heading"], each.page_content) for each in cut(text)] == [
        ("", "intro"),
        ("A › B", "b"),
        ("A › B › C", "c"),
        ("A › D", "d"),
        ("A › Underlined", "e"),
    ]


def test_a_heading_that_repeats_the_title_is_said_once() -> None:
    (first, second) = cut("# Falcon\nIt flies.\n## Specs\nIt weighs 3 kg.", title="Falcon")
    assert passage_text(first) == "Falcon\nIt flies."
    assert passage_text(second) == "Falcon › Specs\nIt weighs 3 kg."


def test_a_heading_with_nothing_below_it_is_kept_as_text() -> None:
    assert [(each.metadata["heading"], each.page_content) for each in cut("# A\n## B\n## C\n### D")] == [
        ("A", "B"),
        ("A › C", "D"),
    ]


def test_small_paragraphs_share_a_chunk_and_are_not_cut() -> None:
    first, second, third = "a" * 40, "b" * 50, "c" * 30
    assert contents(cut(f"{first}\n\n{second}\n\n{third}")) == [f"{first}\n\n{second}", third]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"Sentence number {n} is of no great length." for n in range(9)]
    assert contents(cut(" ".join(sentences))) == [
        " ".join(sentences[0:2]),
        " ".join(sentences[2:4]),
        " ".join(sentences[4:6]),
        " ".join(sentences[6:8]),
        sentences[8],
    ]


def test_abbreviations_before_small_letters_end_no_sentence() -> None:
    text = "It is a rather long sentence that would be cut here, e.g. after this word. Then another one follows it."
    assert contents(cut(text))[0].endswith("after this word.")


@pytest.mark.parametrize("mark", ["。", "！", "？", "।"])
def test_scripts_without_spaces_are_cut_between_sentences(mark: str) -> None:
    assert all(content.endswith(mark) for content in contents(cut(("水泵从井里抽水" + mark) * 40)))


def test_the_lines_of_a_pdf_are_not_taken_for_borders_of_sentences() -> None:
    text = "The first sentence runs over the end\nof its line and stops here. The second one does so\nas well and ends."
    assert contents(cut(text, markdown=False))[0] == text[: text.index("The second")].strip()


def test_pieces_of_one_text_overlap_by_whole_sentences() -> None:
    sentences = [f"Sentence number {n:02} is short." for n in range(30)]
    chunks = contents(cut(" ".join(sentences), chars=200, overlap=50))
    assert len(chunks) > 3
    for before, after in pairwise(chunks):
        first, second = re.findall(r"\d\d", after)[:2]
        assert re.findall(r"\d\d", before)[-1] == first  # one sentence fits into the overlap
        assert int(second) == int(first) + 1
        assert len(after) <= 200


def test_paragraphs_that_fit_do_not_overlap() -> None:
    chunks = contents(cut("\n\n".join(c * 80 for c in "abcd"), overlap=50))
    assert chunks == [c * 80 for c in "abcd"]


def test_fenced_code_stays_together_when_it_fits() -> None:
    code = "```python\n# no heading\n\nx = 1\n```"
    assert contents(cut(f"{'a' * 90}\n\n{code}\n\n{'b' * 90}")) == ["a" * 90, code, "b" * 90]


def test_long_code_is_cut_between_lines_and_fenced_again() -> None:
    chunks = contents(cut("```py\n" + "\n".join(f"    line_{n} = {n}" for n in range(20)) + "\n```"))
    assert len(chunks) > 3
    assert all(content.startswith("```py\n    line_") and content.endswith("\n```") for content in chunks)
    assert "".join(content[6:-3] for content in chunks).split("\n")[:-1] == [f"    line_{n} = {n}" for n in range(20)]


@pytest.mark.parametrize("lines", [[f"line_{n} = {n}" for n in range(10)], ["x = 1", "y" * 85, "z = 1"]])
def test_text_around_long_code_stays_outside_of_it(lines: list[str]) -> None:
    code = "\n".join(["```py", *lines, "```"])
    before, *pieces, behind = contents(cut(f"Before.\n\n{code}\n\nBehind."))
    assert (before, behind) == ("Before.", "Behind.")
    assert all(piece.startswith("```py\n") and piece.endswith("\n```") for piece in pieces)


def test_text_behind_a_long_table_may_share_a_chunk_with_its_last_rows() -> None:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| Pump {n} | {n} |" for n in range(7))
    chunks = contents(cut(f"{table}\n\nBehind."))
    assert all(content.startswith("| a | b |\n|---|---|\n| Pump") for content in chunks)
    assert chunks[-1].endswith("| Pump 6 | 6 |\n\nBehind.")


def test_a_small_table_stays_below_its_heading() -> None:
    table = "| Name | Flow |\n|---|---|\n| A | 1 |\n| B | 2 |\n| C | 3 |"
    (only,) = cut(f"# Manual\n\n## Pumps\n\n{table}\n")
    assert (only.metadata["heading"], only.page_content) == ("Manual › Pumps", table)


@pytest.mark.parametrize("header", ["| Name | Flow |\n|---|---|", "| Name | Flow |", "Name | Flow\n--- | ---"])
def test_a_long_table_is_cut_between_rows_and_repeats_its_header(header: str) -> None:
    rows = [f"| Pump {n} | {n} litres |" for n in range(30)]
    chunks = contents(cut(header + "\n" + "\n".join(rows)))
    assert len(chunks) > 5
    assert all(content.startswith(header + "\n| Pump") and len(content) <= 100 for content in chunks)
    assert [row for content in chunks for row in content.removeprefix(header + "\n").split("\n")] == rows


def test_what_looks_like_markup_in_plain_text_is_left_alone() -> None:
    text = "# comment\n| a | b |\n```\ncode"
    (only,) = cut(text, markdown=False)
    assert (only.metadata["heading"], only.page_content) == ("", text)


def test_ids_are_stable_unique_and_follow_everything_that_is_embedded() -> None:
    text = "# A\nsame\n# B\nsame\n# A\nsame\n# A\nsame"
    ids = [each.id for each in cut(text)]
    assert ids == [each.id for each in cut(text)]
    assert len(set(ids)) == 4
    for other in (cut(text, source="/b.md"), cut(text, title="b"), cut(text, page=2), cut(text.replace("same", "x"))):
        assert not {each.id for each in other} & set(ids)
    assert ids[:2] == [each.id for each in cut(text.replace("\n# A\nsame\n# A\nsame", "\n# C\nother"))][:2]


def test_pages_and_records_are_cut_apart_and_offsets_run_on() -> None:
    pages = [Document(text, metadata={"source": "/a.pdf", "title": "a", "page": n}) for n, text in enumerate("xyz", 1)]
    chunks = chunk(LoadedFile(pages, markdown=False), IngestSettings())
    assert [(each.page_content, each.metadata["page"], each.metadata["start"]) for each in chunks] == [
        ("x", 1, 0),
        ("y", 2, 3),
        ("z", 3, 6),
    ]


def test_metadata_of_rich_loaders_becomes_plain() -> None:
    rich = {
        "tags": ["a", "b"],
        "author": None,
        "date": datetime(2024, 3, 5, 7, 30, tzinfo=UTC),
        "day": date(2024, 3, 5),
        "extra": {"x": 1},
        "pages": [],
        "page": 7,
        "odd": "\ud835",
    }
    (only,) = cut("text", **rich)
    assert only.metadata == {
        "origin": "internal",
        "source": "/a.md",
        "title": "a",
        "heading": "",
        "start": 0,
        "page": 7,
        "tags": '["a", "b"]',
        "date": "2024-03-05T07:30:00+00:00",
        "day": "2024-03-05",
        "extra": '{"x": 1}',
        "odd": "\ufffd",
    }


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "e\u0301", "❤️", "🏴\U000e0067\U000e0062\U000e007f"])
def test_visible_characters_are_never_cut(cluster: str) -> None:
    for shift in range(8):
        for content in contents(cut("x" * shift + cluster * 200)):
            assert content.lstrip("x").replace(cluster, "") == ""
            assert len(content) <= 100


KINDS = st.sampled_from(
    ["# {}", "### {}", "{} {}. ", "{} {}\n", "{}。", "- {} {}\n", "| {} | {} |\n", "```\n{}\n{}\n```"]
)
PARTS = st.lists(st.tuples(KINDS, st.integers(1, 30), st.integers(1, 40)), max_size=10)
SIZES = st.tuples(st.integers(100, 300), st.integers(0, 99))


@settings(deadline=None)
@given(PARTS, SIZES)
def test_no_word_of_any_text_is_lost(parts: list[tuple[str, int, int]], size: tuple[int, int]) -> None:
    words: list[str] = []

    def numbered(width: int) -> str:
        words.append(f"<{len(words)}>".ljust(width, "x"))
        return words[-1]

    text = "\n\n".join(
        "".join(kind.format(numbered(width), numbered(width)) for _ in range(1 if "#" in kind else count))
        for kind, count, width in parts
    )
    chunks = cut(text, *size)
    said = "\n".join(passage_text(each) for each in chunks)
    assert [word for word in words if word in text and word not in said] == []
    assert all(len(each.page_content) <= size[0] for each in chunks)
    assert len({each.id for each in chunks}) == len(chunks)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=2000), SIZES)
def test_plain_text_is_covered_by_literal_pieces(text: str, size: tuple[int, int]) -> None:
    covered = set()
    for each in cut(text, *size, markdown=False):
        start, end = each.metadata["start"], each.metadata["start"] + len(each.page_content)
        assert text[start:end] == each.page_content
        assert 0 < end - start <= size[0]
        covered.update(range(start, end))
    assert not "".join(c for at, c in enumerate(text) if at not in covered).strip()


@pytest.mark.parametrize(
    "unit", ["Pumps carry water, and much of it. ", "word ", "x", "一", "| a | b |\n", "a line of code\n"]
)
def test_three_megabytes_are_cut_in_time_that_grows_with_the_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        assert len(cut(text, 900, 150)) >= size // 900
        return time.process_time() - start

    seconds(10_000)  # imports
    assert seconds(3_000_000) < 8 * max(seconds(750_000), 0.1)
