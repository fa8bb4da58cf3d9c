"""Measure `crag ask` offline: from process start to answer, and per further question in one process.

    python scripts/bench_ask.py [--chunks 1000] [--runs 5]

The chunks are made here, so that no data is needed: paragraphs about numbered stations, all alike but for their facts.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOPICS = ["wind", "rain", "frost", "pressure", "sunshine", "humidity", "snow", "visibility"]


def write_corpus(folder: Path, chunks: int) -> None:
    """Write one file per chunk, each a paragraph of about 900 characters."""
    for n in range(chunks):
        topic = TOPICS[n % len(TOPICS)]
        lines = [f"Station {n} measures {topic} every {n % 50 + 10} minutes on hill {n * 7 % 997}."]
        lines += [
            f"In year {1950 + (n + k) % 75} its {topic} gauge number {n * 13 + k} read {(n * 37 + k * 11) % 400} units "
            f"while the keeper of hut {k + n % 31} noted the {TOPICS[(n + k) % 8]}."
            for k in range(6)
        ]
        (folder / f"station-{n:05}.txt").write_text(" ".join(lines), encoding="utf-8")


def question(n: int) -> str:
    return f"How often does station {n} measure {TOPICS[n % len(TOPICS)]}?"


def crag(*arguments: str) -> float:
    """Run the command and return how long it took, in seconds."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "crag_graph.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"crag {' '.join(arguments)} failed:\n{done.stderr}")
    return time.perf_counter() - started


async def further(chunks: int, runs: int) -> list[float]:
    """Return the seconds of every further question in this process; none is asked twice."""
    from crag_graph import build_graph, load_settings

    graph = build_graph(load_settings())
    seconds = []
    for n in range(runs + 1):
        started = time.perf_counter()
        await graph.ainvoke({"question": question((n * 61 + 5) % chunks)})
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        corpus = Path(name) / "corpus"
        corpus.mkdir()
        write_corpus(corpus, options.chunks)
        os.environ |= {"CRAG_CONFIG": "offline", "CRAG_INDEX__PATH": str(Path(name) / "index")}
        print(f"crag --help              {min(crag('--help') for _ in range(options.runs)):6.2f} s (best)")
        print(f"ingest {options.chunks} chunks       {crag('ingest', str(corpus)):6.2f} s")
        print(f"first ask                {crag('ask', question(1)):6.2f} s")
        asks = [crag("ask", question(n + 2)) for n in range(options.runs)]
        print(f"ask, from process start  {statistics.median(asks):6.2f} s (median of {options.runs})")
        more = asyncio.run(further(options.chunks, 20))
        print(f"further question         {statistics.median(more) * 1000:6.0f} ms (median of {len(more)})")


if __name__ == "__main__":
    main()
