"""Reading files: every format, every encoding, and every reason for refusing one."""

import json
import os
import warnings
from pathlib import Path

import docx
import pytest
from fpdf import FPDF
from langchain_core.documents import Document

from crag_graph.errors import InputError
from crag_graph.ingest.loaders import LoadedFile, find_files, load_file, load_folder
from crag_graph.ingest.loaders.plain import plain_metadata, repair
from crag_graph.settings import IngestSettings

TEXT = "Café ™ – naïve"


def load(path: Path, content: str | bytes) -> LoadedFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_file(path, max_mb=50)


def text_of(loaded: LoadedFile) -> str:
    (document,) = loaded.documents
    return document.page_content


def pdf(*pages: str, title: str = "", password: str = "") -> bytes:
    """Write a PDF; an empty text makes a page with a picture only."""
    document = FPDF()
    document.set_font("Helvetica", size=12)
    if title:
        document.set_title(title)
    for page in pages:
        document.add_page()
        if page:
            document.multi_cell(0, 6, page)
        else:
            document.rect(10, 10, 50, 50, "F")
    if password:
        document.set_encryption(owner_password=f"owner of {password}", user_password=password)
    return bytes(document.output())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_text_is_the_same_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    assert text_of(load(tmp_path / "a.txt", TEXT.encode(encoding))) == TEXT


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Die Größe der Straße ist für Fußgänger übermäßig.", "latin-1"),
        ("The pump carries water from the well to the tank. " * 100 + "São", "cp1252"),
        ("Plain English has few accents, or it has a single one at its end. " * 100 + "™", "cp1252"),
        ("Насос подаёт воду из колодца в бак. Это важно знать.", "cp1251"),
        ("Zażółć gęślą jaźń, proszę bardzo, to jest tekst.", "cp1250"),
        ("ポンプは井戸から水を汲み上げます。これは重要です。", "shift_jis"),
        ("水泵從井裡抽水。這很重要。", "big5"),
    ],
)
def test_legacy_encodings_are_recognised(tmp_path: Path, text: str, encoding: str) -> None:
    loaded = load(tmp_path / "a.txt", text.encode(encoding))
    assert (text_of(loaded), loaded.warnings) == (text, ())


def test_line_breaks_are_unified(tmp_path: Path) -> None:
    assert text_of(load(tmp_path / "a.txt", b"one\r\ntwo\rthree\n")) == "one\ntwo\nthree\n"


def test_damaged_utf8_stays_utf8_and_is_warned_about(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.txt", ("naïve café " * 20).encode() + b"\xe9 end")
    assert text_of(loaded).startswith("naïve café naïve")
    assert text_of(loaded).endswith("\ufffd end")
    assert loaded.warnings == ("bytes that are not utf-8 were replaced",)


def test_lone_surrogates_and_nuls_are_replaced_with_one_warning(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.json", r'{"a": "x \ud835 y", "b": "n\u0000l", "c": "\ud835\udc00"}')
    assert text_of(loaded) == "a: x \ufffd y\nb: n\ufffdl\nc: 𝐀"
    assert loaded.warnings == ("2 unreadable characters replaced",)


def test_split_surrogate_pairs_are_joined_again() -> None:
    assert repair("\ud835" + "\udc00") == ("𝐀", 0)
    assert repair("a\ud835b\0") == ("a\ufffdb\ufffd", 2)
    assert repair("𝐀 \ufffd") == ("𝐀 \ufffd", 0)


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\1",
        b"\x7fELF\2\1\1" + bytes(range(256)) * 8,
        bytes(2000),
        bytes((i * 73 + i * i * 31) % 256 for i in range(4000)),
    ],
)
def test_binary_content_under_a_text_name_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="binary content"):
        load(tmp_path / "a.txt", content)


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unsupported format '\.xyz'; supported: \.txt, "):
        load(tmp_path / "a.xyz", "text")
    with pytest.raises(InputError, match="empty"):
        load(tmp_path / "a.md", " \n\t\n")
    (tmp_path / "b.txt").write_bytes(b"x" * 1_200_000)
    with pytest.raises(InputError, match=r"1\.2 MB is above ingest\.max_file_mb \(1\)"):
        load_file(tmp_path / "b.txt", max_mb=1)
    with pytest.raises(InputError, match="no such file"):
        load_file(tmp_path / "missing.txt", max_mb=1)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match="not a regular file"):
        load_file(tmp_path / "pipe.txt", max_mb=1)


def test_a_file_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name is not valid UTF-8"):
        load(tmp_path / os.fsdecode(b"caf\xe9.txt"), "text")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        load_file(tmp_path / "a.txt", max_mb=1)


def test_plain_text_is_not_taken_for_markup(tmp_path: Path) -> None:
    loaded = load(tmp_path / "run.txt", "# a comment\n---\nx")
    assert not loaded.markdown
    assert loaded.documents == [
        Document("# a comment\n---\nx", metadata={"title": "run", "source": str(tmp_path / "run.txt")})
    ]


def test_front_matter_becomes_metadata(tmp_path: Path) -> None:
    loaded = load(
        tmp_path / "a.md",
        "---\ntitle: Pumps\ndate: 2024-03-05\ntags: [a, b]\nsource: elsewhere\nauthor:\n---\n# Other\n\nText.",
    )
    assert text_of(loaded) == "# Other\n\nText."
    metadata = plain_metadata(loaded.documents[0].metadata)
    assert metadata == {"title": "Pumps", "date": "2024-03-05", "tags": '["a", "b"]', "source": str(tmp_path / "a.md")}


@pytest.mark.parametrize("block", ["a: [1", "just text", "a: &x [1]\nb: [*x, *x]", "date: 2024-99-99"])
def test_front_matter_that_is_none_stays_text(tmp_path: Path, block: str) -> None:
    assert text_of(load(tmp_path / "a.md", f"---\n{block}\n---\nText.")) == f"---\n{block}\n---\nText."


@pytest.mark.parametrize(
    ("text", "title"),
    [("intro\n\n# Pumps #\n\n```sh\n# no heading\n```\n", "Pumps"), ("# One\n# Two\n", "file"), ("text", "file")],
)
def test_the_only_top_heading_is_the_title(tmp_path: Path, text: str, title: str) -> None:
    assert load(tmp_path / "file.md", text).documents[0].metadata["title"] == title


def test_a_page_keeps_headings_lists_tables_and_code(tmp_path: Path) -> None:
    page = """<?xml version="1.0" encoding="iso-8859-1"?>
    <html><head><title>Pump manual</title><meta name="date" content="2024-03-05">
    <link rel="canonical" href="https://pumps.example.org/manual"></head><body>
    <nav><a href="/">Home</a> <a href="/x">Shop</a></nav><script>var hidden = 1;</script>
    <article><h1>Pump manual</h1><p>This manual says a number of things about pumps that one should know.</p>
    <h2>Models</h2><table><tr><th>Name</th><th>Flow</th></tr><tr><td>Blå</td><td>3 l/s</td></tr></table>
    <h2>Use</h2><ul><li>Switch it on</li><li>Wait</li></ul><pre><code>x = 1
    y = 2</code></pre><p>That is all there is to say about pumps in this manual.</p></article></body></html>"""
    loaded = load(tmp_path / "a.html", page.encode("latin-1"))
    assert loaded.documents[0].metadata == {
        "title": "Pump manual",
        "date": "2024-03-05",
        "url": "https://pumps.example.org/manual",
        "source": str(tmp_path / "a.html"),
    }
    lines = [line.strip() for line in text_of(loaded).split("\n")]
    for expected in ("## Models", "| Name | Flow |", "| Blå | 3 l/s |", "- Switch it on", "x = 1", "```"):
        assert expected in lines
    assert "hidden" not in text_of(loaded)
    assert "Shop" not in text_of(loaded)


def test_a_fragment_too_short_for_an_article_is_read_too(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.htm", "<p>Short &amp; sweet.</p>")
    assert (text_of(loaded), loaded.documents[0].metadata["title"]) == ("Short & sweet.", "a")


def test_a_page_built_by_scripts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no text: the page may be built by scripts"):
        load(tmp_path / "a.html", "<html><body><div id=app></div><script>start()</script></body></html>")


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.pdf", pdf("Pumps carry water.", "They need care.", title="Manual"))
    assert [document.page_content for document in loaded.documents] == ["Pumps carry water.", "They need care."]
    assert [document.metadata["page"] for document in loaded.documents] == [1, 2]
    assert loaded.documents[0].metadata["title"] == "Manual"
    assert len(loaded.documents[0].metadata["date"]) == 10
    assert not loaded.warnings
    assert not loaded.markdown


def test_a_scanned_pdf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no extractable text \(scanned\?\)"):
        load(tmp_path / "a.pdf", pdf(""))


def test_empty_pages_are_warned_about_and_do_not_shift_the_numbers(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.pdf", pdf(*[""] * 4, "Text.", *[""] * 5))
    assert [document.metadata["page"] for document in loaded.documents] == [5]
    assert loaded.warnings == ("9 of 10 pages empty (scanned?)",)


def test_a_pdf_with_a_password_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="password-protected"):
        load(tmp_path / "a.pdf", pdf("Secret.", password="key"))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.97])
def test_a_truncated_pdf_is_corrupt(tmp_path: Path, share: float) -> None:
    whole = pdf("Pumps carry water.")
    with pytest.raises(InputError, match="corrupt"):
        load(tmp_path / "a.pdf", whole[: int(len(whole) * share)])


def test_a_pdf_whose_last_update_was_cut_short_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="corrupt: the end of the PDF is missing"):
        load(tmp_path / "a.pdf", pdf("Pumps carry water.") + b"\n9 0 obj\n<< /Length 5000 >>\nstream\n" + b"x" * 3000)


def test_a_pdf_with_an_end_and_nothing_else_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="corrupt: not readable as PDF"):
        load(tmp_path / "a.pdf", b"%PDF-1.4\n" + b"x" * 2000 + b"\n%%EOF")


def test_a_word_document_is_read_in_order(tmp_path: Path) -> None:
    document = docx.Document()
    document.core_properties.title = "Pump manual"
    document.add_heading("Pump manual", 0)
    document.add_heading("Models", 1)
    document.add_paragraph("Two models:")
    document.add_paragraph("Alpha", style="List Bullet")
    document.add_paragraph("Beta", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ["Name", "Flow", "Al|pha", "3 l/s\nor 4"], strict=True):
        cell.text = text
    document.add_heading("Use", 2)
    document.add_paragraph("Switch it on.")
    document.save(str(tmp_path / "a.docx"))
    loaded = load_file(tmp_path / "a.docx", max_mb=1)
    assert text_of(loaded) == (
        "# Pump manual\n\n## Models\n\nTwo models:\n\n- Alpha\n- Beta\n\n"
        "| Name | Flow |\n| --- | --- |\n| Al\\|pha | 3 l/s or 4 |\n\n### Use\n\nSwitch it on.\n\n"
    )
    assert loaded.documents[0].metadata["title"] == "Pump manual"


def test_text_in_content_controls_and_insertions_is_not_lost(tmp_path: Path) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Flow is ")
    run = paragraph.add_run("3 l/s")._element
    body, word = document.element.body, run.nsmap["w"]
    inserted, deleted = (paragraph._p.makeelement(f"{{{word}}}{name}") for name in ("ins", "del"))
    inserted.append(run)
    deleted.append(paragraph.add_run("9 l/s")._element)
    paragraph._p.extend([inserted, deleted])
    control, content = (body.makeelement(f"{{{word}}}{name}") for name in ("sdt", "sdtContent"))
    content.append(document.add_paragraph("Inside a control.")._p)
    control.append(content)
    body.insert(0, control)
    document.save(str(tmp_path / "a.docx"))
    assert text_of(load_file(tmp_path / "a.docx", max_mb=1)) == "Inside a control.\n\nFlow is 3 l/s\n\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"PK\x03\x04 no archive", "corrupt"), (b"\xd0\xcf\x11\xe0" + bytes(600), "password-protected, or an old .doc")],
)
def test_a_word_document_that_cannot_be_opened_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        load(tmp_path / "a.docx", content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'Name,Price\n"Alpha, big",1.5\nBeta|2,\n'),
        ("a.csv", "Name;Price\nAlpha, big;1.5\nBeta|2;\n"),
        ("a.tsv", "Name\tPrice\nAlpha, big\t1.5\nBeta|2\t\n"),
    ],
)
def test_a_table_file_becomes_a_table(tmp_path: Path, name: str, content: str) -> None:
    assert text_of(load(tmp_path / name, content)) == (
        "| Name | Price |\n| --- | --- |\n| Alpha, big | 1.5 |\n| Beta\\|2 |  |"
    )


def test_rows_longer_than_the_header_get_a_column(tmp_path: Path) -> None:
    assert text_of(load(tmp_path / "a.csv", "a,\n1,2,3\n")) == (
        "| a | column 2 | column 3 |\n| --- | --- | --- |\n| 1 | 2 | 3 |"
    )


def test_rows_of_long_texts_become_records(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.csv", f"name,text\nAlpha,{'word ' * 200}\nBeta,{'word ' * 200}\n")
    assert [document.page_content[:22] for document in loaded.documents] == [
        "name: Alpha\ntext: word",
        "name: Beta\ntext: word ",
    ]
    assert not loaded.markdown


def test_a_csv_cell_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not readable as CSV: field larger"):
        load(tmp_path / "a.csv", 'a,b\n"never closed,\n' + "x,y\n" * 50_000)


def test_json_records_become_readable_lines(tmp_path: Path) -> None:
    records = [
        {"title": "First", "spec": {"weight": 3, "ports": ["a", "b"]}, "parts": [{"id": 1}], "ok": True, "no": None},
        "just text",
        {"text": '{x} {{ y }} \\frac{1}{2} "$z"'},
        {},
    ]
    loaded = load(tmp_path / "a.json", json.dumps(records))
    assert [(document.metadata["title"], document.page_content) for document in loaded.documents] == [
        ("First", "title: First\nspec.weight: 3\nspec.ports: a, b\nparts.0.id: 1\nok: true"),
        ("a", "just text"),
        ("a", 'text: {x} {{ y }} \\frac{1}{2} "$z"'),
    ]


def test_each_line_of_json_lines_is_a_record(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.jsonl", '{"a": 1}\n\n{"a": 2}\n')
    assert [document.page_content for document in loaded.documents] == ["a: 1", "a: 2"]
    with pytest.raises(InputError, match="line 2: not JSON: Expecting"):
        load(tmp_path / "b.jsonl", '{"a": 1}\n{"a": \n')


@pytest.mark.parametrize("depth", [150, 100_000])
def test_json_nested_without_end_is_refused(tmp_path: Path, depth: int) -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        load(tmp_path / "a.json", '{"a":' * depth + "1" + "}" * depth)


def test_a_notebook_becomes_markdown_without_a_warning(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Pumps\n", "\n", 'It\'s "here":']},
        {"cell_type": "code", "source": ["def f():\n", "    return '\\n'"], "outputs": []},
        {"cell_type": "code", "source": [], "outputs": []},
        {"cell_type": "markdown", "source": "One string."},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load(tmp_path / "a.ipynb", json.dumps({"cells": cells, "nbformat": 4}))
    assert text_of(loaded).replace("\n\n\n", "\n") == (
        "# Pumps\n\nIt's \"here\":\n\n```\ndef f():\n    return '\\n'\n```\n\nOne string."
    )
    assert loaded.documents[0].metadata["title"] == "Pumps"


@pytest.mark.parametrize("content", ["[]", "{}", "no json", '{"cells": [{}]}'])
def test_a_notebook_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match="not a notebook"):
        load(tmp_path / "a.ipynb", content)


def test_folders_are_searched_for_what_can_be_read(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "sub/c.json", "x.bin", ".hidden.md", ".git/d.md", "store/e.json", "store/sub/f.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "store" / "chroma.sqlite3").touch()
    named = tmp_path / "x.bin"
    found, closed, _ = find_files([tmp_path, tmp_path / "sub", named])
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a.txt", "b.md", "sub/c.json", "x.bin"]
    assert closed == {}


def test_a_folder_stands_in_for_the_web(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nurl: https://pumps.example.org/a\ndate: 2024-03-05\n---\n# Pumps\n\nText.")
    (tmp_path / "b.txt").write_text("Plain.")
    first, second = load_folder(tmp_path, IngestSettings())
    assert first.metadata == {
        "origin": "web",
        "url": "https://pumps.example.org/a",
        "title": "Pumps",
        "date": "2024-03-05",
        "provider": "folder",
    }
    assert second.metadata["url"] == (tmp_path / "b.txt").as_uri()
    assert str(first.id).startswith("web-")
    assert first.id != second.id
