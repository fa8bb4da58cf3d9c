"""Measure the local evaluator: its speed, and, given labelled pairs, what it would save as a prefilter.

    python scripts/bench_evaluator.py [PAIRS.jsonl]

Speed: ten documents of 150 words and their windows, with no vector known and again with all of them known. Prefilter:
the share of pairs outside the band of `evaluator.prefilter`, which no model is asked about, how many of those are
decided wrongly, and how many questions need no grading call at all.
"""

import asyncio
import sys
import time
from collections import defaultdict
from pathlib import Path

from crag_graph.components.embeddings import LocalEmbedder
from crag_graph.components.evaluators.local import LocalEvaluator
from crag_graph.measure.pairs import read_pairs
from crag_graph.rules.strips import strips
from crag_graph.settings import Settings

QUESTION = "How many gauges did the keeper of hut 17 read on the northern ridge in 1987?"
SENTENCE = (
    "In {year} the keeper of hut {hut} read {gauges} gauges on the {side} ridge before the first snow came down. "
)


def document(n: int) -> str:
    sides = ("northern", "southern")
    parts = [SENTENCE.format(year=1960 + n * 7 + k, hut=n + k, gauges=n * 10 + k, side=sides[k % 2]) for k in range(8)]
    return "".join(parts)


async def speed() -> None:
    evaluator = LocalEvaluator(LocalEmbedder())
    await evaluator.score("Warm up?", ["A sentence that has nothing to do with it."])
    texts = [document(n) for n in range(10)]
    windows = [text[s.start : s.end] for text in texts for s in strips(text)]
    for name in ("cold", "warm"):
        started = time.perf_counter()
        await evaluator.score(QUESTION, texts)
        await evaluator.score(QUESTION, windows)
        took = (time.perf_counter() - started) * 1000
        print(f"10 documents and {len(windows)} windows, {name:5} {took:6.0f} ms")


async def prefilter(path: Path) -> None:
    band = Settings().evaluator.prefilter
    evaluator = LocalEvaluator(LocalEmbedder())
    by_question = defaultdict(list)
    for pair in read_pairs(path):
        by_question[pair.question].append(pair)
    decided = wrong = total = spared = 0
    for question, pairs in by_question.items():
        texts = [f"{pair.title}\n{pair.text}" if pair.title else pair.text for pair in pairs]
        grades = await evaluator.score(question, texts)
        judged = [(grade["score"], pair.label) for grade, pair in zip(grades, pairs, strict=True)]
        clear = [(score, label) for score, label in judged if not band.low <= score <= band.high]
        total, decided = total + len(pairs), decided + len(clear)
        wrong += sum((score > band.high) != bool(label) for score, label in clear)
        spared += len(clear) == len(pairs)
    share = f"{decided / total:.1%} of {total} pairs decided, {wrong / max(decided, 1):.1%} of them wrongly"
    print(f"prefilter {band.low}..{band.high}: {share}")
    print(f"no grading call for {spared / len(by_question):.1%} of {len(by_question)} questions")


if __name__ == "__main__":
    asyncio.run(speed())
    if len(sys.argv) > 1:
        asyncio.run(prefilter(Path(sys.argv[1])))
