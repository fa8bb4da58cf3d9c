"""The rules and pure parts of the web side: addresses, excerpts, the main text of pages, notices."""

import doctest
import importlib

import pytest

from crag_graph.components.excerpt import best_part
from crag_graph.components.main_text import main_text
from crag_graph.rules.address import is_public

SENTENCE = "Die Höhe des Turms beträgt genau 330 Meter, mit Antenne gemessen."


@pytest.mark.parametrize("module", ["crag_graph.rules.address", "crag_graph.notices"])
def test_the_examples_in_the_text_hold(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2a00:1450:4001:81b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_of_the_public_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1"),
        *("192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200"),
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
        *("fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "2002:7f00:1::"),
        *("2001::1", "3fff::1", "5f00::1", "100::1", "", "localhost", "127.1", "0x7f000001"),
    ],
)
def test_all_other_addresses_are_not(address: str) -> None:
    assert not is_public(address)


def test_a_text_that_fits_is_returned_whole() -> None:
    assert best_part(" One. Two.\n", "anything", 100) == "One. Two."


@pytest.mark.parametrize("max_chars", [200, 333, 1_000, 5_000])
def test_an_excerpt_holds_the_opening_and_what_answers_and_is_as_short_as_asked(max_chars: int) -> None:
    filler = "\n\n".join(f"Paragraph {n} tells of other things. They are many. They are long." for n in range(200))
    text = f"The Falcon is a drone.\n\n{filler}\n\n## Mass\n\nThe weight is 3 kg.\n\n{filler}"
    part = best_part(text, "What is the weight of the Falcon?", max_chars)
    assert part.startswith("The Falcon is a drone.")
    assert "The weight is 3 kg." in part
    assert len(part) <= max_chars


def test_an_excerpt_brings_the_header_of_a_table_and_marks_gaps() -> None:
    rows = "\n".join(f"| model {n} | {n} kg |" for n in range(100))
    part = best_part(f"All drones.\n\n| name | weight |\n|---|---|\n{rows}", "model 77", 120)
    assert "| name | weight |" in part
    assert "| model 77 | 77 kg |" in part


@pytest.mark.parametrize("text", ["a" * 5_000, "日本" * 3_000, "# " * 2_000])
def test_text_without_any_border_is_cut_to_length(text: str) -> None:
    assert 0 < len(best_part(text, "b", 300)) <= 300


def _page(head: str, encoding: str) -> bytes:
    return f"<html><head>{head}</head><body><article><p>{SENTENCE}</p></article></body></html>".encode(encoding)


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (_page("", "utf-8"), None),
        (_page("", "utf-8"), "iso-8859-1"),
        (_page("", "utf-8-sig"), None),
        (_page("", "utf-16"), None),
        (_page("", "cp1252"), None),
        (_page("", "cp1252"), "no-such-charset"),
        (_page("", "cp1250"), "windows-1250"),
        (_page('<meta charset="iso-8859-1">', "cp1252"), None),
        (_page('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">', "iso-8859-2"), None),
        (b'<?xml version="1.0" encoding="utf-8"?>' + _page("", "utf-8"), None),
        (_page("", "utf-8"), "zip"),
    ],
)
def test_pages_are_read_in_whatever_encoding_they_come(body: bytes, charset: str | None) -> None:
    page = main_text(body, "text/html", charset)
    assert page is not None
    assert page.text == SENTENCE


def test_a_page_says_its_title_and_date() -> None:
    head = '<title>The Tower</title><meta property="article:published_time" content="2024-05-02T10:00:00Z">'
    page = main_text(_page(head, "utf-8"), "text/html", None)
    assert page is not None
    assert (page.title, page.date) == ("The Tower", "2024-05-02")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"\0" * 100,
        b"<html></html>",
        b"<" * 10_000,
        b"<div>" * 20_000,
        b"<table><tr><td>" * 3_000,
        b"<ul><li>" * 3_000 + b"deep",
        b"<!-- " + b"x" * 1_000,
        bytes(range(256)) * 10,
    ],
)
def test_a_page_of_rubbish_is_no_page_or_some_text_and_no_failure(body: bytes) -> None:
    page = main_text(body, "text/html", None)
    assert page is None or page.text.strip()


def test_plain_text_is_no_markup() -> None:
    page = main_text(b"a < b\r\n<p>c</p>\n", "text/plain", None)
    assert page is not None
    assert page.text == "a < b\n<p>c</p>"
    assert main_text(b" \n", "text/plain", None) is None
