"""Labelled pairs from text that nobody has labelled: a person's own documents.

A question is drawn from a sentence of a passage. One *fact* is taken out of it, a number or a name, and asked for with
two to four of the words that remain (a third), in their order, behind a question word where the language has one here:

    The station has measured rain, wind, temperature and pressure since 12 May 1998.
    → When station wind pressure?

Function words are left out (those of English, and whatever stands in more than 30% of the passages), and so are single
letters and digits. A sentence that opens with a pronoun gets the title in front. In scripts without spaces a clause
loses its number, or a few characters.

That passage is positive. The passages of the same document and those of other documents that rank highest for the
question (BM25) are the hard and the easier negatives; where none shares a word, the nearest in the document. A passage
that holds the fact beside half of the words, as overlapping chunks do, may answer too and is left out.

Limits: these questions use the words of the document, while people use their own, so both labels are told apart more
easily than in real life; they ask for facts, never for reasons or summaries; and a passage that answers in other words
counts as negative. Cut-offs from such pairs are a first fit to a corpus; a hundred pairs labelled by hand beat them.
"""

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

from langchain_core.documents import Document

from crag_graph.components.term_index import TermIndex
from crag_graph.components.tokens import function_terms, terms
from crag_graph.errors import InputError
from crag_graph.factory import build_embedder, build_index
from crag_graph.ingest.chunks import chunk
from crag_graph.ingest.loaders import find_files, load_file
from crag_graph.rules.language import detect_language, is_unspaced
from crag_graph.rules.passage import heading_line, passage_text
from crag_graph.rules.strips import units
from crag_graph.settings import IngestSettings, Settings

NEIGHBOURS, ELSEWHERE = 2, 2  # negatives per question
_COMMON = 0.3  # share of passages from which a word says nothing about one of them
_KEPT = 1 / 3  # of the words of a sentence: as many as people's questions share with what answers them
_FEWEST, _MOST = 2, 4  # words of a question
_NEAREST = 10  # passages of other documents that are looked at
_ROUNDS = 3  # questions from one passage, at most
_ASKING = {  # for a year, a number, a name
    "en": ("When", "How many", "Who or what"),
    "de": ("Wann", "Wie viele", "Wer oder was"),
    "fr": ("Quand", "Combien", "Qui ou quoi"),
    "es": ("Cuándo", "Cuántos", "Quién o qué"),
    "it": ("Quando", "Quanti", "Chi o che cosa"),
    "pt": ("Quando", "Quantos", "Quem ou o quê"),
    "nl": ("Wanneer", "Hoeveel", "Wie of wat"),
    "ru": ("Когда", "Сколько", "Кто или что"),
    "hi": ("कब", "कितने", "कौन या क्या"),
}
_WORD = re.compile(r"[^\W_]+(?:[.,:'’\u093c-\u094d-]?[^\W_]+)*[\u0900-\u0963]*")
_YEAR = re.compile(r"1\d{3}|20\d\d")
_PRONOUN = re.compile(
    r"(?:he|she|it|they|this|that|these|those|his|her|its|their|er|sie|es|dies\w*|il|elle|ils|elles|ce|cette|él|ella)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[，、；。！？,;.!?\s]+")
Kind = Literal["own", "neighbour", "elsewhere"]


class Asked(NamedTuple):
    """A question, its terms without the question word, and the fact that it asks for."""

    text: str
    terms: frozenset[str]
    fact: str


class PairRow(TypedDict):
    """One line of the file; `title` is the heading line of the passage, `group` its document."""

    question: str
    text: str
    label: int
    title: str
    group: str
    kind: Kind


async def read_passages(settings: Settings, place: Path | None) -> list[Document]:
    """Return the passages of an index folder, of files and folders that need no index, or of the configured index.

    Raises:
        InputError: the place does not exist, or a file in it cannot be used.
        NothingIngested: the index is empty.
    """
    if place and not await asyncio.to_thread(place.exists):
        raise InputError(f"{place}: no such file, folder or index")
    if place and not await asyncio.to_thread((place / "chroma.sqlite3").exists):
        return await asyncio.to_thread(_chunks, place, settings.ingest)
    if place:
        settings = settings.model_copy(
            update={"index": settings.index.model_copy(update={"path": str(place), "host": None})}
        )
    return await build_index(settings, build_embedder(settings)).documents()


def _chunks(place: Path, settings: IngestSettings) -> list[Document]:
    chunks: list[Document] = []
    for path in find_files([place]).files:
        try:
            chunks += chunk(load_file(path, settings.max_file_mb), settings)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return chunks


def own_pairs(passages: Sequence[Document], seed: int, limit: int) -> list[PairRow]:
    """Return the pairs of at most `limit` questions, the same ones for the same passages and seed.

    Raises:
        InputError: no sentence yields a question.
    """
    draw = random.Random(seed)
    corpus = _Corpus(passages)
    rows: list[PairRow] = []
    seen: set[str] = set()
    for place, asked in corpus.questions(draw):
        if asked.text in seen:
            continue
        seen.add(asked.text)
        rows += corpus.pairs(place, asked)
        if len(seen) == limit:
            break
    if not rows:
        raise InputError(f"none of {len(passages)} passages holds a sentence with a name or number to ask for")
    return rows


class _Corpus:
    """Passages, in the order of their documents, and what is known of their words."""

    def __init__(self, passages: Sequence[Document]) -> None:
        self._passages = sorted(passages, key=lambda each: (_document(each), int(each.metadata.get("start") or 0)))
        texts = [passage_text(each) for each in self._passages]
        self._terms = [frozenset(terms(text)) for text in texts]
        self._index = TermIndex([str(place) for place in range(len(texts))], texts)
        spread = Counter(term for found in self._terms for term in found)
        common = {term for term, count in spread.items() if count > max(_COMMON * len(texts), 2)}
        self._common = frozenset(common | function_terms())
        self._by_document: defaultdict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(self._passages):
            self._by_document[_document(each)].append(place)

    def questions(self, draw: random.Random) -> Iterator[tuple[int, Asked]]:
        """Yield one question per passage in random order, then a second and a third where there is one."""
        waiting = []
        for place, passage in enumerate(self._passages):
            text = passage.page_content
            sentences = [text[u.start : u.end].strip() for u in units(text) if u.kind in ("prose", "item")]
            draw.shuffle(sentences)
            waiting.append((place, iter(sentences)))
        draw.shuffle(waiting)
        for _ in range(_ROUNDS):
            for place, sentences_left in waiting:
                passage = self._passages[place]
                title, language = str(passage.metadata.get("title") or ""), detect_language(passage.page_content)
                found = (ask(sentence, title, language, self._common, draw) for sentence in sentences_left)
                if asked := next((each for each in found if each), None):
                    yield place, asked

    def pairs(self, place: int, asked: Asked) -> Iterator[PairRow]:
        """Yield the passage itself, then its negatives."""
        own = self._by_document[_document(self._passages[place])]
        near = sorted((other for other in own if other != place), key=lambda other: abs(other - place))
        found = [int(id_) for id_, _ in self._index.top(asked.text, len(self._passages))]
        neighbours = dict.fromkeys([*(other for other in found if other in near), *near])
        elsewhere = [other for other in found if other not in own]
        yield self._row(place, place, asked, "own")
        for other in [each for each in neighbours if not self._might_answer(each, asked)][:NEIGHBOURS]:
            yield self._row(other, place, asked, "neighbour")
        for other in [each for each in elsewhere[:_NEAREST] if not self._might_answer(each, asked)][:ELSEWHERE]:
            yield self._row(other, place, asked, "elsewhere")

    def _might_answer(self, place: int, asked: Asked) -> bool:
        text = _squeezed(self._passages[place].page_content)
        return _squeezed(asked.fact) in text and 2 * len(asked.terms & self._terms[place]) >= len(asked.terms)

    def _row(self, place: int, own: int, asked: Asked, kind: Kind) -> PairRow:
        passage = self._passages[place]
        return PairRow(
            question=asked.text,
            text=passage.page_content,
            label=int(kind == "own"),
            title=heading_line(passage),
            group=_document(self._passages[own]),
            kind=kind,
        )


def ask(sentence: str, title: str, language: str, common: frozenset[str], draw: random.Random) -> Asked | None:
    """Return a question for a fact of the sentence; None when it has no fact, or too few words beside it.

    >>> ask("Rain fell on 12 May in the Upper Valley for 9 hours.", "", "en", frozenset(), random.Random(1)).fact
    '9'
    """
    if is_unspaced(language) or language in ("zh", "ja"):
        return _ask_by_clause(sentence, draw)
    words = [found.group() for found in _WORD.finditer(sentence)]
    facts = _facts(words)
    if not facts:
        return None
    first, last = draw.choice(facts)
    content = [
        word
        for at, word in enumerate(words)
        if len(word) > 1 and not first <= at < last and not common.issuperset(terms(word))
    ]
    needs_title = bool(title and _PRONOUN.match(sentence))
    if len(content) < _FEWEST:
        return None
    count = min(max(round(_KEPT * len(content)), _FEWEST), _MOST)
    kept = [content[at] for at in sorted(draw.sample(range(len(content)), count))]
    fact = " ".join(words[first:last])
    kind = 0 if _YEAR.fullmatch(fact) else 1 if fact[0].isdigit() else 2
    asking = _ASKING[language][kind] if language in _ASKING else ""
    line = " ".join(part for part in (asking, *kept) if part)
    return Asked(f"{title}: {line}?" if needs_title else f"{line}?", frozenset(terms(" ".join(kept))), fact)


def _facts(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of numbers, and of names: runs of capitalised words that do not open the sentence."""
    facts = [(at, at + 1) for at, word in enumerate(words) if word[0].isdigit()]
    start = None
    for at, word in enumerate([*words, ""]):
        is_name = at > 0 and word[:1].isupper() and len(word) > 1
        if is_name and start is None:
            start = at
        if not is_name and start is not None:
            facts.append((start, at))
            start = None
    return facts


def _ask_by_clause(sentence: str, draw: random.Random) -> Asked | None:
    clauses = [clause for clause in _CLAUSE_END.split(sentence) if 10 <= len(clause) <= 60]
    if not clauses:
        return None
    clause = draw.choice(clauses)
    numbers = [found.span() for found in re.finditer(r"\d+(?:[.,]\d+)*", clause)]
    at = draw.randrange(len(clause) - 3)
    first, last = draw.choice(numbers) if numbers else (at, at + 3)
    rest = f"{clause[:first]}{clause[last:]}"
    return Asked(f"{rest}？", frozenset(terms(rest)), clause[first:last]) if len(rest) >= 6 else None


def _document(passage: Document) -> str:
    return str(passage.metadata.get("source") or passage.metadata.get("title") or "")


def _squeezed(text: str) -> str:
    return " ".join(text.casefold().split())
