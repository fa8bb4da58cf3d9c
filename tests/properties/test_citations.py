"""What must hold however an answer is cut into pieces while it streams."""

from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules.citations import Citations

EVIDENCE = "It is described at https://a.example/x and https://b.example/y?z=1."
parts = st.sampled_from(
    [
        "It flew",
        " [1]",
        "[2]",
        " [7]",
        "[1, 9]",
        "【2】",
        "[",
        "]",
        " ",
        "[12",
        "h",
        "http",
        "://",
        "[a]",
        "3",
        ",",
        "\n",
    ]
) | st.sampled_from(
    ["https://a.example/x", "https://a.example/xy", " https://made.up/page", "(https://b.example/y?z=1)"]
)
answers = st.lists(parts | st.text(max_size=4), max_size=25)


def clean(pieces: list[str]) -> tuple[str, list[int], list[str]]:
    citations = Citations(2, EVIDENCE)
    text = "".join([*map(citations.push, pieces), citations.finish()])
    return text, citations.cited, citations.invented


@given(answers)
def test_the_pieces_an_answer_comes_in_do_not_change_it(pieces):
    whole = "".join(pieces)
    assert clean(pieces) == clean([whole]) == clean(list(whole))


@given(answers)
def test_only_sent_numbers_are_cited(pieces):
    text, cited, _ = clean(pieces)
    assert set(cited) <= {1, 2}
    assert all(f"[{number}]" in text for number in cited)


@given(st.text(alphabet=st.characters(exclude_characters="[]【】h"), max_size=80))
def test_text_without_citations_or_urls_is_left_as_it_is(text):
    assert clean([text]) == (text, [], [])
