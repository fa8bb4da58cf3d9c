"""Queries and addresses."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.rules import query
from crag_graph.rules.query import canonical_query, canonical_url, clean_query, clip, host_allowed

WRAPPED = [
    '"Falcon drone weight"',
    "“Falcon drone weight”",
    "**Falcon drone weight**",
    "`Falcon drone weight`",
    "Query: Falcon drone weight",
    "Search query: Falcon drone weight",
    '**Search Query:** "Falcon drone weight"',
    "The rewritten search query: Falcon drone weight",
    "Here is a better search query:\n\nFalcon drone weight\n\nIt names the product.",
    "- Falcon drone weight\n- Falcon drone mass",
    "1. Falcon drone weight\n2. Falcon drone mass",
    "```\nFalcon drone weight\n```",
    "```json\n" + '{"query": "Falcon drone weight", "reason": "shorter"}' + "\n```",
    '{"reason": "shorter", "search_query": "Falcon drone weight"}',
    '{"queries": ["Falcon drone weight", "Falcon drone mass"]}',
    '["Falcon drone weight"]',
    '{"text": "Falcon drone weight"}',
    "<think>The user wants {x}.\nQuery: no</think>\nFalcon drone weight",
    "No opening tag </think> Falcon drone weight",
    "  Falcon\tdrone \u200bweight\x00 \r\n",
    '<think>a</think> {"query": "Query: \\"Falcon drone weight\\""}',
]


@pytest.mark.parametrize("written", WRAPPED)
def test_whatever_a_model_wraps_around_a_query_goes(written: str) -> None:
    assert clean_query(written, 400) == "Falcon drone weight"


@pytest.mark.parametrize(
    "written",
    [
        '"Falcon drone" weight "3 kg"',
        "What is *args in Python?",
        "1. FC Köln stadium",
        "what is the <think> tag",
        'how to parse {"query": "x"} in C#',
        "कीमत क्या है",
        "price -used 50%",
        "👩‍👩‍👧 emoji meaning",
        "Dr. Who: the first episode",
    ],
)
def test_what_belongs_to_a_query_stays(written: str) -> None:
    assert clean_query(written, 400) == written


@pytest.mark.parametrize("nothing", ["", " \n ", "```\n```", "Query:", "<think>never finished", "\u200b", '""'])
def test_where_there_is_no_query_nothing_is_made_up(nothing: str) -> None:
    assert clean_query(nothing, 400) == ""


def test_a_long_question_is_cut_at_a_word() -> None:
    question = "corrective retrieval " * 150
    cut = clip(question, 400)
    assert 380 < len(cut) <= 400
    assert question.startswith(cut + " ")


def test_401_characters_lose_their_last_word_only() -> None:
    assert clip("a" * 396 + " tail", 400) == "a" * 396


def test_text_without_spaces_is_cut_to_the_full_length() -> None:
    assert clip("語" * 500, 400) == "語" * 400
    assert clip("Preis " + "語" * 500, 400) == "Preis " + "語" * 394


@pytest.mark.parametrize(
    ("character", "fits"),
    [("😀", 400), ("👍🏽", 200), ("👩‍👩‍👧", 80), ("🇩🇪", 200), ("❤️", 200), ("e\u0301", 200), ("कि", 200)],
)
def test_a_row_of_composed_characters_is_never_cut_inside_one(character: str, fits: int) -> None:
    assert clip(character * 401, 400) == character * fits
    assert clip("x" + character * 401, 401) == "x" + character * fits


def test_one_character_longer_than_the_limit_is_cut_rather_than_lost() -> None:
    assert clip("e" + "\u0301" * 50, 10) == "e" + "\u0301" * 9


@given(st.text(max_size=300), st.integers(1, 60))
def test_a_cut_is_within_the_limit_a_prefix_never_blank_and_final(text: str, limit: int) -> None:
    cut = clip(text, limit)
    assert len(cut) <= limit
    assert text.strip().startswith(cut)
    assert bool(cut) == bool(text.strip())
    assert clip(cut, limit) == cut


_PIECES = st.lists(
    st.sampled_from(
        ["Query: ", '"', "'", "**", "```", "\n", "- ", "1. ", "<think>", "</think>", "word ", '{"query": "']
    )
    | st.text(max_size=5),
    max_size=20,
).map("".join)


@given(_PIECES, st.integers(1, 60))
def test_a_clean_query_is_one_line_within_the_limit_and_clean(text: str, limit: int) -> None:
    cleaned = clean_query(text, limit)
    assert len(cleaned) <= limit
    assert len(cleaned.splitlines()) <= 1
    assert cleaned == " ".join(cleaned.split())
    cleaned.encode("utf-8")
    assert clean_query(cleaned, limit) == cleaned


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Falcon  weight?", "falcon weight", True),
        ("STRASSE", "straße", True),
        ("ｆｕｌｌ width", "full width", True),
        ("C tutorial", "C# tutorial", False),
        ("C tutorial", "C++ tutorial", False),
        ("का", "की", False),
        ("price 2025", "price 2026", False),
    ],
)
def test_queries_are_compared_without_case_spacing_and_punctuation(one: str, other: str, same: bool) -> None:
    assert (canonical_query(one) == canonical_query(other)) is same


@given(st.text(max_size=60))
def test_a_canonical_query_is_final(text: str) -> None:
    assert canonical_query(canonical_query(text)) == canonical_query(text)


@pytest.mark.parametrize(
    "spelling",
    [
        "https://docs.example.com/a?id=7",
        "HTTPS://Docs.Example.COM:443/a/?id=7",
        "https://docs.example.com./a?id=7&utm_source=news&UTM_Campaign=x&gclid=1&fbclid=2#part",
        "https://user:pw@docs.example.com/a?&id=7",
        "  https://docs.example.com/a?id=7\n",
    ],
)
def test_addresses_of_one_page_have_one_spelling(spelling: str) -> None:
    assert canonical_url(spelling) == "https://docs.example.com/a?id=7"


def test_addresses_of_different_pages_stay_different() -> None:
    pages = [
        "https://example.com/a",
        "http://example.com/a",
        "https://example.com:8443/a",
        "https://example.com/A",
        "https://example.com/a?id=7",
        "https://example.com/a?id=%37",
        "https://example.com/a?utmost=1",
        "https://www.example.com/a",
    ]
    assert len({canonical_url(page) for page in pages}) == len(pages)


@pytest.mark.parametrize("odd", ["", "no address", "https://", "http://[::1", "http://a:b/c", "http://exa mple.com/"])
def test_what_is_no_address_is_no_error(odd: str) -> None:
    assert canonical_url(canonical_url(odd)) == canonical_url(odd)


@given(st.from_regex(r"(https?|HTTP)://[a-zA-Zé.:@\[\]%0-9]{1,20}(/[a-z/?&#=%]{0,20})?", fullmatch=True))
def test_a_canonical_address_is_final(url: str) -> None:
    assert canonical_url(canonical_url(url)) == canonical_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://docs.example.com/page",
        "http://EXAMPLE.com:8080/",
        "https://example.com./",
        "https://user@example.com/",
        "https://a.b.example.com?x=badexample.com",
    ],
)
@pytest.mark.parametrize(
    "domain", ["example.com", "EXAMPLE.com.", "*.example.com", ".example.com", "https://example.com/"]
)
def test_a_domain_covers_itself_and_all_below(url: str, domain: str) -> None:
    assert host_allowed(url, [domain], [])
    assert not host_allowed(url, [], [domain])
    assert not host_allowed(url, [domain], [domain])


@pytest.mark.parametrize(
    "url",
    [
        "https://badexample.com/",
        "https://example.com.evil.test/",
        "https://example.com@evil.test/",
        "https://evil.test/example.com",
        "https://evil.test#example.com",
        "https://example.co/",
        "no address",
        "https://",
    ],
)
def test_a_domain_covers_nothing_else(url: str) -> None:
    assert not host_allowed(url, ["example.com"], [])


def test_hosts_in_other_scripts_match_in_either_spelling() -> None:
    assert host_allowed("https://www.bücher.example/", ["xn--bcher-kva.example"], [])
    assert host_allowed("https://xn--bcher-kva.example/", ["BÜCHER.example"], [])
    assert not host_allowed("https://evil。example/", [], ["evil.example"])
    assert not host_allowed("https://%65vil.example/", [], ["evil.example"])


def test_an_allow_list_that_names_no_domain_allows_nothing() -> None:
    assert not host_allowed("https://example.com/", [""], [])
    assert host_allowed("https://example.com/", [], [""])


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(query).failed == 0
