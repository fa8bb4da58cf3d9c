"""Measure the offline profile on SQuAD-format data: is the gold answer in the context, and how short is the context?

    python scripts/measure_xquad.py PATH/xquad.en.first24.json [--limit N] [--json OUT]

Every paragraph becomes a file and is ingested; every question is asked. Counted are: the gold answer's text in the
retrieved documents, and in `refined_context`; the verdicts; and the estimated tokens of `refined_context` against those
of the whole paragraphs that the retrieved chunks come from, which is what plain RAG would send.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any


def read(path: Path) -> tuple[dict[str, str], list[tuple[str, list[str]]]]:
    """Return the paragraphs by file name, and (question, gold answers) pairs."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{path}: not SQuAD-format data: {error}")
    paragraphs, questions = {}, []
    for article in data:
        for n, paragraph in enumerate(article["paragraphs"]):
            paragraphs[f"{article['title']}-{n}.txt"] = paragraph["context"]
            questions += [(qa["question"], [a["text"] for a in qa["answers"]]) for qa in paragraph["qas"]]
    return paragraphs, questions


async def run(graph: Any, question: str) -> dict[str, Any]:
    """Ask, and return the whole state."""
    state: dict[str, Any] = {}
    async for step in graph.astream({"question": question}, stream_mode="updates"):
        for update in step.values():
            state |= update
    return state


async def measure(paragraphs: dict[str, str], questions: list[tuple[str, list[str]]], folder: Path) -> dict[str, Any]:
    from crag_graph import build_graph, load_settings
    from crag_graph.factory import build_embedder, build_index
    from crag_graph.ingest.run import ingest
    from crag_graph.rules.keep import estimate_tokens

    settings = load_settings()
    for name, text in paragraphs.items():
        (folder / name).write_text(text, encoding="utf-8")
    await ingest([folder], build_index(settings, build_embedder(settings)), settings)
    graph = build_graph(settings)
    retrieved, kept, shares, seconds, verdicts = 0, 0, [], [], Counter()
    for position, (question, golds) in enumerate(questions, 1):
        started = time.perf_counter()
        state = await run(graph, question)
        seconds.append(time.perf_counter() - started)
        sources = dict.fromkeys(Path(document.metadata["source"]).name for document in state["documents"])
        whole = [paragraphs[name] for name in sources]
        retrieved += any(gold in text for gold in golds for text in whole)
        kept += any(_flat(gold) in _flat(state["refined_context"]) for gold in golds)
        shares.append(estimate_tokens(state["refined_context"]) / sum(map(estimate_tokens, whole)))
        verdicts[state["verdict"]] += 1
        print(f"\r{position}/{len(questions)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {
        "paragraphs": len(paragraphs),
        "questions": len(questions),
        "gold_retrieved": retrieved / len(questions),
        "gold_in_context": kept / len(questions),
        "context_tokens_share": statistics.mean(shares),
        "verdicts": dict(verdicts),
        "seconds_p50": statistics.median(seconds),
        "seconds_p95": statistics.quantiles(seconds, n=20)[-1],
    }


def _flat(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--limit", type=int, help="ask only every k-th question, so that about this many are asked")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    paragraphs, questions = read(options.path)
    if options.limit:
        questions = questions[:: max(1, len(questions) // options.limit)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "paragraphs"
        folder.mkdir()
        os.environ.setdefault("CRAG_CONFIG", "offline")
        os.environ["CRAG_INDEX__PATH"] = str(Path(name) / "index")
        figures = asyncio.run(measure(paragraphs, questions, folder))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for key, value in figures.items():
        print(f"{key:22} {value:.3f}" if isinstance(value, float) else f"{key:22} {value}")


if __name__ == "__main__":
    main()
