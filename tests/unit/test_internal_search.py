"""The searches over the internal index, the folder web, and the terms they share."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.index import Index
from crag_graph.components.search.bm25 import bm25_search
from crag_graph.components.search.chroma import chroma_search
from crag_graph.components.search.folder import folder_search
from crag_graph.components.search.hybrid import fuse, hybrid_search
from crag_graph.components.term_index import TermIndex
from crag_graph.components.tokens import content_terms, terms
from crag_graph.errors import NothingIngested, RetrievalError
from crag_graph.factory.indexes import search_of
from crag_graph.protocols import Search
from crag_graph.settings import IndexSettings, RetrieveSettings
from tests.embedders import WordEmbedder

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The batteries' charging times", ["the", "batteri", "charg", "time"]),
        ("Dr. Müller zahlt 3.14 € für 1,234 Stück", ["dr", "muller", "zahlt", "3.14", "fur", "1,234", "stuck"]),
        ("STRASSE Straße", ["strass", "strass"]),
        ("naïve café, Café", ["naiv", "cafe", "cafe"]),
        ("电池寿命是12小时", ["电池", "池寿", "寿命", "命是", "12", "小时"]),
        ("iPhone手机 A", ["iphon", "手机", "a"]),
        ("人", ["人"]),
        ("カタカナ ｶﾅ", ["カタ", "タカ", "カナ", "カナ"]),
        ("한국어", ["한국", "국어"]),
        ("max_rounds v2.1.3 USB3 10.", ["max", "round", "v2.1.3", "usb3", "10"]),
        ("Bat\u00adterie", ["batteri"]),
        ("?!… 🙂 \u200b", []),
        ("", []),
    ],
)
def test_text_becomes_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("घंटे", "घंटों"),  # hour, two cases
        ("книги", "книгу"),  # book, two cases
        ("الكِتَابُ", "الكتاب"),  # the book, with and without vowel signs
        ("ΜΠΑΤΑΡΊΑ", "μπαταρία"),
        ("می\u200cخواهم", "میخواهم"),
        ("e\u0301te\u0301", "été"),
    ],
)
def test_forms_of_one_word_become_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)
    assert len(terms(one)) == 1


def test_a_hindi_word_is_not_cut_at_its_vowel_signs() -> None:
    assert len(terms("हिन्दी में प्रश्न पूछिए।")) == 4


def test_a_question_keeps_only_its_content_unless_there_is_none() -> None:
    assert content_terms("What does the pump cost?") == ["pump", "cost"]
    assert content_terms("Who is it?") == ["who", "is", "it"]


def test_terms_of_a_long_line_without_spaces_take_linear_time() -> None:
    assert len(terms("x" * 200_000)) == 1
    assert len(terms("电" * 200_000)) == 199_999
    assert len(terms("1," * 100_000)) == 1


def test_a_text_that_says_more_of_a_rare_term_ranks_higher() -> None:
    index = TermIndex(["a", "b", "c"], ["pump and tent", "the pump, a pump of pumps", "tent tent tent"])
    assert [id_ for id_, _ in index.top("pump", 5)] == ["b", "a"]
    assert [id_ for id_, _ in index.top("pump", 1)] == ["b"]


@pytest.mark.parametrize("texts", [[], ["", "?!"]])
async def test_texts_without_terms_are_never_found_and_survive_saving(tmp_path: Path, texts: list[str]) -> None:
    index = TermIndex([str(n) for n in range(len(texts))], texts)
    assert index.top("pump", 3) == []
    index.save(tmp_path / "files")
    assert TermIndex.load(tmp_path / "files").top("pump", 3) == []


TEXTS = {
    "battery": "The battery lasts twelve hours.",
    "bananas": "Bananas are yellow.",
    "pump": "The pump costs 30 euro.",
    "akku": "Der Akku hält zwölf Stunden.",
    "dianchi": "电池寿命是十二小时。",
    "baitari": "बैटरी बारह घंटे चलती है।",
}


async def filled(folder: Path) -> tuple[Index, WordEmbedder]:
    embedder = WordEmbedder(dimension=256)
    index = Index(IndexSettings(path=str(folder / "index")), embedder)
    await index.add([Document(text, id=id_, metadata={"source": "a.md"}) for id_, text in TEXTS.items()])
    await index.commit()
    return index, embedder


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("How many hours does the battery last?", "battery"),
        ("Was kostet der AKKU?", "akku"),
        ("电池寿命有多长？", "dianchi"),
        ("बैटरी कितने घंटे चलती है?", "baitari"),
    ],
)
async def test_bm25_and_hybrid_find_the_passage_in_the_language_of_the_question(
    tmp_path: Path, question: str, best: str
) -> None:
    index, embedder = await filled(tmp_path)
    lexical = bm25_search(index, 3)
    assert (await lexical.ainvoke(question))[0].id == best
    found = await hybrid_search(chroma_search(index, embedder, 3), lexical, 60, anything).ainvoke(question)
    assert best in [document.id for document in found]
    assert len({document.id for document in found}) == len(found)


async def test_every_search_returns_at_most_k_documents_best_first_with_scores(tmp_path: Path) -> None:
    index, embedder = await filled(tmp_path)
    dense, lexical = chroma_search(index, embedder, 2), bm25_search(index, 2)
    for search, most in ((dense, 2), (lexical, 2), (hybrid_search(dense, lexical, 60, anything), 4)):
        found = await search.ainvoke("battery hours pump euro bananas")
        scores = [document.metadata["retrieval_score"] for document in found]
        assert 0 < len(found) <= most
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


async def test_every_search_of_an_empty_index_says_that_nothing_is_ingested(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    index = Index(IndexSettings(path=str(tmp_path / "index")), embedder)
    dense, lexical = chroma_search(index, embedder, 2), bm25_search(index, 2)
    for search in (dense, lexical, hybrid_search(dense, lexical, 60, anything)):
        with pytest.raises(NothingIngested):
            await search.ainvoke("battery")


async def test_a_dense_search_passes_on_that_the_embedder_is_down(tmp_path: Path) -> None:
    index, _ = await filled(tmp_path)
    with pytest.raises(RetrievalError, match="out of service"):
        await chroma_search(index, WordEmbedder(fails_after=0), 2).ainvoke("battery")


async def test_two_questions_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    index, _ = await filled(tmp_path)
    both = asyncio.Barrier(2)

    class Meeting(WordEmbedder):
        async def embed(self, texts: Any) -> list[list[float]]:
            await asyncio.wait_for(both.wait(), 10)
            return await super().embed(texts)

    search = chroma_search(index, Meeting(dimension=256), 1)
    asked = await asyncio.gather(search.ainvoke("battery"), search.ainvoke("bananas"))
    assert [found[0].id for found in asked] == ["battery", "bananas"]


async def test_nothing_blocks_the_event_loop_from_the_first_question_on(tmp_path: Path) -> None:
    await filled(tmp_path)
    embedder = WordEmbedder(dimension=256)
    index = Index(IndexSettings(path=str(tmp_path / "index")), embedder)
    search = hybrid_search(chroma_search(index, embedder, 3), bm25_search(index, 3), 60, anything)
    with blockbuster_ctx("crag_graph"):
        found = await asyncio.gather(search.ainvoke("battery hours"), search.ainvoke("bananas"))
    assert [documents[0].id for documents in found] == ["battery", "bananas"]


@pytest.mark.parametrize("language", ["en", "zh", "hi"])
async def test_the_right_paragraph_is_among_the_first_five_in_every_language(
    tmp_path: Path, data: Path, language: str
) -> None:
    read = json.loads((data / f"xquad.{language}.first24.json").read_text())
    paragraphs = [paragraph for article in read["data"] for paragraph in article["paragraphs"]][:30]
    embedder = LocalEmbedder()
    index = Index(IndexSettings(path=str(tmp_path / "index")), embedder)
    await index.add(
        [Document(each["context"], id=str(n), metadata={"source": "x"}) for n, each in enumerate(paragraphs)]
    )
    await index.commit()
    search = search_of(index, embedder, RetrieveSettings())
    asked = [(str(n), qa["question"]) for n, each in enumerate(paragraphs) for qa in each["qas"][:2]]
    found = [id_ in [d.id for d in (await search.ainvoke(question))[:5]] for id_, question in asked]
    assert sum(found) / len(asked) >= 0.95


def anything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


def fixed(*ids: str, meet: asyncio.Barrier | None = None) -> Search:
    async def search(_: str) -> list[Document]:
        if meet:
            await asyncio.wait_for(meet.wait(), 10)
        return [Document(f"text {id_}", id=id_) for id_ in ids]

    return RunnableLambda(search)


async def test_hybrid_asks_all_searches_at_once() -> None:
    meet = asyncio.Barrier(2)
    found = await hybrid_search(fixed("a", meet=meet), fixed("b", meet=meet), 60, anything).ainvoke("question")
    assert [document.id for document in found] == ["a", "b"]


async def test_fusion_prefers_what_both_found_and_counts_ranks_as_published() -> None:
    found = await hybrid_search(fixed("a", "b", "c"), fixed("d", "c", "b"), 60, anything).ainvoke("question")
    expected = {"b": 1 / 62 + 1 / 63, "c": 1 / 63 + 1 / 62, "a": 1 / 61, "d": 1 / 61}
    assert [document.id for document in found] == list(expected)
    for document in found:
        assert document.metadata["retrieval_score"] * 2 / 61 == pytest.approx(expected[str(document.id)])


async def test_of_a_question_that_the_embedder_cannot_read_only_words_count_unless_none_is_found() -> None:
    def ids(found: list[Document]) -> list[str | None]:
        return [document.id for document in found]

    dense = fixed("noise", "b")
    assert ids(await hybrid_search(dense, fixed("c", "b"), 60, nothing).ainvoke("question")) == ["c", "b"]
    assert ids(await hybrid_search(dense, fixed(), 60, nothing).ainvoke("question")) == ["noise", "b"]


def test_fusing_changes_no_document_that_it_was_given() -> None:
    given = Document("text", id="a", metadata={"retrieval_score": 0.25})
    [fused] = fuse([[given], [given]], 60)
    assert (given.metadata["retrieval_score"], fused.metadata["retrieval_score"]) == (0.25, 1.0)
    assert fuse([], 60) == fuse([[], []], 60) == []


async def test_the_folder_web_returns_its_own_documents_and_no_unrelated_ones() -> None:
    pages = [
        Document("Bananas ripen in bags.", id="web-1", metadata={"origin": "web", "url": "https://example.com/1"}),
        Document("It weighs 3 kg.", id="web-2", metadata={"origin": "web", "url": "file:falcon.md", "title": "Falcon"}),
        Document("The falcon weighs more.", id="web-3", metadata={"origin": "web", "url": "https://example.com/3"}),
    ]
    found = await folder_search(lambda: pages, 5).ainvoke("How much weighs the Falcon?")
    assert {document.id for document in found} == {"web-2", "web-3"}
    score = found[0].metadata.pop("retrieval_score")
    assert 0 < score < 1
    assert found[0] in pages
    assert "retrieval_score" not in pages[1].metadata | pages[2].metadata
    assert len(await folder_search(lambda: pages, 1).ainvoke("falcon")) == 1
    assert await folder_search(lambda: pages, 5).ainvoke("zebra") == []
    assert await folder_search(list, 5).ainvoke("falcon") == []


@pytest.mark.anyio
async def test_the_index_says_in_how_many_chunks_a_word_occurs(tmp_path: Path) -> None:
    index = Index(IndexSettings(path=str(tmp_path)), WordEmbedder())
    assert await index.word_counts(["pump"]) == {"pump": 0}
    texts = ["The pumps are red.", "A pump and a hose.", "A hose."]
    chunks = [Document(text, id=f"c{n}", metadata={"source": "a", "title": ""}) for n, text in enumerate(texts)]
    await index.add(chunks)
    await index.commit()
    assert await index.word_counts(["pump", "hose", "red hose", "zebra"]) == {
        "pump": 2, "hose": 2, "red hose": 1, "zebra": 0,
    }  # fmt: skip
