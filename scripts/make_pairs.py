"""Turn public question sets into labelled pairs for `crag_graph.measure`: one JSON Lines file per kind of pair.

    python scripts/make_pairs.py ../shared/data/* --out pairs/

Each source is known by its shape:
- SQuAD format: `NAME.jsonl` holds every question with its own paragraph and the 4 hardest others; `NAME.neighbours`
  with the other paragraphs of the same article; `NAME.elsewhere` with the 4 hardest of other articles; `NAME.subject`
  asks for each article by its title alone, and for names crossed from two titles; `NAME.strips` has the strips of the
  own paragraph (relevant: those that hold the answer's first character) and of the hardest other one. Texts carry
  the article's title.
- question, sentence, label (QNLI): as they are.
- contexts by question (PubMedQA): the own abstract and the nearest of another question.
- question, title, text, label (biographies): once with the title, once without.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.tokens import terms
from crag_graph.rules.strips import strips

Row = dict[str, Any]
HARDEST = 4


class Hardness:
    """Ranks texts for a question by BM25 and by cosine, the two fused by reciprocal rank."""

    def __init__(self, texts: Sequence[str], embedder: LocalEmbedder) -> None:
        self._embedder = embedder
        self._vectors = numpy.array(asyncio.run(embedder.embed(texts)))
        self._bm25 = bm25s.BM25()
        self._bm25.index([terms(text) or ["-"] for text in texts], show_progress=False)

    def ranked(self, question: str) -> list[int]:
        """Return the positions of all texts, hardest to tell apart first."""
        vector = numpy.array(asyncio.run(self._embedder.embed([question]))[0])
        by_words = numpy.zeros(len(self._vectors))
        if known := [term for term in terms(question) if term in self._bm25.vocab_dict]:
            by_words = self._bm25.get_scores(known)
        fused = numpy.zeros(len(self._vectors))
        for scores in (by_words, self._vectors @ vector):
            fused[numpy.argsort(-scores, kind="stable")] += 1 / (60 + numpy.arange(len(scores)))
        return [int(i) for i in numpy.argsort(-fused, kind="stable")]


def from_squad(data: Any, embedder: LocalEmbedder) -> Iterator[tuple[str, Row]]:
    """Yield (kind, row) for a file in SQuAD format."""
    paragraphs = [(a["title"].replace("_", " "), p) for a in data["data"] for p in a["paragraphs"]]
    texts = [paragraph["context"] for _, paragraph in paragraphs]
    titles = [title for title, _ in paragraphs]
    hardness = Hardness(texts, embedder)

    def row(question: str, own: str, i: int, label: bool) -> Row:
        return {"question": question, "text": texts[i], "label": int(label), "title": titles[i], "group": own}

    for own, (title, paragraph) in enumerate(paragraphs):
        for qa in paragraph["qas"]:
            question = qa["question"].strip()
            ranked = [i for i in hardness.ranked(question) if i != own]
            kinds = {
                "": ranked[:HARDEST],
                ".neighbours": [i for i in ranked if titles[i] == title],
                ".elsewhere": [i for i in ranked if titles[i] != title][:HARDEST],
            }
            for kind, others in kinds.items():
                for i in (own, *others):
                    yield kind, row(question, title, i, i == own)
            for i in (own, ranked[0]):
                answer = qa["answers"][0]["answer_start"] if i == own else -1
                for strip in strips(texts[i]):
                    label = strip.start <= answer < strip.end
                    yield ".strips", {**row(question, title, i, label), "text": texts[i][strip.start : strip.end]}
    for title in dict.fromkeys(titles):
        question = f"What is {title}?"
        own_ones = [i for i, other in enumerate(titles) if other == title]
        others = [i for i in hardness.ranked(question) if i not in own_ones][: 2 * HARDEST]
        for i in (*own_ones, *others):
            yield ".subject", row(question, title, i, i in own_ones)
    for question, title, other in _crossed(list(dict.fromkeys(titles))):
        for i, name in enumerate(titles):
            if name in (title, other):
                yield ".subject", row(question, name, i, False)


def _crossed(titles: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield questions for names that do not exist, first word of one title and last of another, with both titles."""
    long = [title for title in titles if " " in title]
    for title, other in zip(long, long[1:] + long[:1], strict=True):
        yield f"Who is {title.split()[0]} {other.split()[-1]}?", title, other


def from_pubmedqa(data: Any, embedder: LocalEmbedder) -> Iterator[tuple[str, Row]]:
    """Yield (kind, row) for a PubMedQA file."""
    items = list(data.items())
    texts = [" ".join(item["contexts"]) for _, item in items]
    hardness = Hardness(texts, embedder)
    for own, (key, item) in enumerate(items):
        nearest = next(i for i in hardness.ranked(item["question"]) if i != own)
        for i in (own, nearest):
            yield "", {"question": item["question"], "text": texts[i], "label": int(i == own), "group": key}


def from_lines(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Yield (kind, row) for labelled sentences or titled passages; what shares a text or question shares a group."""
    groups = _linked([(row["question"], row.get("sentence", "")) for row in rows])
    for row, group in zip(rows, groups, strict=True):
        pair = {"question": row["question"], "text": row.get("sentence") or row["text"], "label": row["label"]}
        if "sentence" in row:
            yield "", {**pair, "group": group}
        else:
            yield ".titled", {**pair, "title": row["title"], "group": row["question"]}
            yield ".text", {**pair, "group": row["question"]}


def _linked(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return one name per row, shared by all rows that are linked by a common question or sentence."""
    above: dict[str, str] = {}

    def top(key: str) -> str:
        while above.get(key, key) != key:
            key = above[key]
        return key

    for question, sentence in keys:
        above[top(question)] = top(sentence) if sentence else top(question)
    return [top(question) for question, _ in keys]


def read(path: Path, embedder: LocalEmbedder) -> Iterator[tuple[str, Row]]:
    """Yield (kind, row) for a source file, whatever its shape."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return from_lines([json.loads(line) for line in text.splitlines() if line.strip()])
    data = json.loads(text)
    return from_squad(data, embedder) if "data" in data else from_pubmedqa(data, embedder)


def main() -> None:
    """Read every source and write its pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, help="files in one of the shapes above")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pairs")
    arguments = parser.parse_args()
    missing = [str(path) for path in arguments.sources if not path.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    embedder = LocalEmbedder()
    for path in arguments.sources:
        if path.suffix not in (".json", ".jsonl"):
            continue
        kinds: dict[str, list[Row]] = {}
        for kind, row in read(path, embedder):
            kinds.setdefault(kind, []).append(row)
        for kind, rows in kinds.items():
            target = arguments.out / f"{path.stem}{kind}.jsonl"
            target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
            print(f"{target}: {len(rows)} pairs, {sum(row['label'] for row in rows)} relevant", file=sys.stderr)


if __name__ == "__main__":
    main()
