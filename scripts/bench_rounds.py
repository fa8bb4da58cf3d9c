"""Measure one corrective round that searches the web and the index: it takes the slower of the two, not the sum.

    python scripts/bench_rounds.py [--web 0.4] [--index 0.4] [--runs 5] [--json]

The web and the embedding model are servers on loopback that answer after the given seconds, in the protocols of Tavily
and OpenAI; what is real is everything between. A search of the index takes as long as its embedding, and little more.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crag_graph.factory import build_components, build_embedder, build_graph, build_index
from crag_graph.ingest.run import ingest
from crag_graph.measure.bench.loopback import Exchange, JsonServer, go_direct
from crag_graph.settings import Settings
from crag_graph.state import Grade

SIDES = ("web_search", "requery")


class Slow(JsonServer):
    """Finds one page for every query, and embeds texts by their letters, each after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def answer(self, exchange: Exchange) -> None:
        """Answer one search, or one embedding request."""
        time.sleep(self.seconds)
        if exchange.path == "/search":
            page = {"url": "https://web.example/page", "title": "Page", "content": "It says nothing.", "score": 0.5}
            exchange.send(200, {"query": exchange.body["query"], "results": [page], "response_time": 0.0})
            return
        vectors = [[1.0 + text.count(letter) for letter in "abcdefghijklmnop"] for text in exchange.body["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        exchange.send(200, {"object": "list", "model": exchange.body["model"], "data": data, "usage": usage})


class Unconvinced:
    """An evaluator that finds nothing good and takes no time: every question goes into its round."""

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:  # noqa: ARG002
        """Return 0 for every text."""
        return [Grade(score=0.0, reason="") for _ in texts]


class Round(NamedTuple):
    """Seconds of both sides, and of the step in which they ran."""

    web_search: float
    requery: float
    step: float


def measure(web_s: float, index_s: float, runs: int) -> Round:
    """Return the median of `runs` rounds; one more comes before them and opens the connections."""
    go_direct()
    os.environ["BENCH_KEY"] = "none"
    with tempfile.TemporaryDirectory() as name, Slow(web_s) as web, Slow(0) as embeddings:
        settings = _settings(Path(name) / "index", web.origin, embeddings.origin)
        (Path(name) / "note.txt").write_text("The rain gauge stands on the hill.", encoding="utf-8")
        rounds = asyncio.run(_rounds(settings, Path(name) / "note.txt", embeddings, index_s, runs))
    return Round(*(statistics.median(values) for values in zip(*rounds, strict=True)))


def _settings(index: Path, web: str, embeddings: str) -> Settings:
    openai = {"base_url": f"{embeddings}/v1", "api_key_env": "BENCH_KEY", "model": "letters"}
    return Settings.model_validate(
        {
            "index": {"path": str(index)},
            "embeddings": {"use": "openai", "openai": openai},
            "retrieve": {"use": "chroma"},
            "evaluator": {"use": "similarity"},
            "rewriter": {"use": "keywords"},
            "web": {"tavily": {"base_url": web, "api_key_env": "BENCH_KEY"}},
            "corrections": {"incorrect": ["web", "requery"], "max_rounds": 1},
            "refine": {"filter": "evaluator"},
            "generator": {"use": "extractive"},
        }
    )


async def _rounds(settings: Settings, note: Path, embeddings: Slow, index_s: float, runs: int) -> list[Round]:
    await ingest([note], build_index(settings, build_embedder(settings)), settings)
    kit = build_components(settings)
    kit = dataclasses.replace(kit, evaluator=Unconvinced(), strip_filter=Unconvinced(), web_evaluator=None)
    graph = build_graph(settings, kit)
    embeddings.seconds = index_s
    return [await _round(graph, f"What does gauge {n} on the hill measure?") for n in range(runs + 1)][1:]


async def _round(graph: Any, question: str) -> Round:
    seconds: dict[str, float] = {}
    began = ended = 0.0
    async for update in graph.astream({"question": question}, stream_mode="updates"):
        for node, change in update.items():
            if node == "rewrite_query":
                began = time.perf_counter()
            elif node in SIDES:
                ended = time.perf_counter()
                spent = change.get("requery_usage") or change["usage"]["by_node"][node]
                seconds[node] = spent["seconds"]
    return Round(seconds["web_search"], seconds["requery"], ended - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--web", type=float, default=0.4, help="seconds per web search")
    parser.add_argument("--index", type=float, default=0.4, help="seconds per embedding call")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    took = measure(options.web, options.index, options.runs)
    if options.json:
        print(json.dumps(took._asdict()))
        return
    both = took.web_search + took.requery
    print(f"web search                {took.web_search * 1000:6.0f} ms (median of {options.runs})")
    print(f"index search              {took.requery * 1000:6.0f} ms")
    print(f"one after the other       {both * 1000:6.0f} ms (their sum)")
    print(f"side by side, as measured {took.step * 1000:6.0f} ms ({took.step / both:.0%} of the sum)")


if __name__ == "__main__":
    main()
