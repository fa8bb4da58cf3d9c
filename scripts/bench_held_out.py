"""Benchmark the local evaluator on paragraphs and questions that it was not fitted on.

    python scripts/bench_held_out.py ../shared/data --out held-out/ [--seed 7]

The articles of every SQuAD-format file in the folder go to two halves, every other one. For each half an evaluator is
fitted on the other half and the folder's other files, and `crag bench` asks the questions of the half, with the
cut-offs of the offline profile. Prints one line per file, half and split.

Of the other files only sentences of the held-out paragraphs themselves are left out: QNLI has more of the same
articles, so that the articles are not wholly unseen.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "crag_graph" / "components" / "evaluators" / "local.json"
FIGURES = ("route_accuracy", "false_correct", "evidence_recall", "false_answer", "context_ratio")


def main() -> None:
    """Fit and benchmark both halves."""
    parser = argparse.ArgumentParser(description="Benchmark the local evaluator on paragraphs it was not fitted on.")
    parser.add_argument("data", type=Path, help="folder with files in SQuAD format, and others for the fit")
    parser.add_argument("--out", type=Path, required=True, help="folder for pairs, coefficients and results")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for half in (0, 1):
        folder = options.out / f"half-{half}"
        tests = _parted(options.data, folder, half)
        coefficients = _fitted(folder)
        for path in tests:
            for split in ("article", "paragraph"):
                _bench(path, split, coefficients, options.seed)


def _parted(data: Path, folder: Path, half: int) -> list[Path]:
    """Write the held-out articles to `test`, all else to `train`; return the files to test on."""
    for name in ("train", "test"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    squads = {path: found for path in sorted(data.glob("*.json")) if (found := _squad(path))}
    held_out = ""
    for path, found in squads.items():
        kept, other = found["data"][half::2], found["data"][1 - half :: 2]
        held_out += " ".join(paragraph["context"] for article in kept for paragraph in article["paragraphs"])
        _write(folder / "test" / path.name, {**found, "data": kept})
        _write(folder / "train" / path.name, {**found, "data": other})
    for path in sorted(data.iterdir()):
        if path.suffix in (".json", ".jsonl") and path not in squads:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            lines = [line for line in lines if path.suffix == ".json" or not _is_from(line, held_out)]
            (folder / "train" / path.name).write_text("".join(lines), encoding="utf-8")
    return [folder / "test" / path.name for path in squads]


def _squad(path: Path) -> dict[str, Any] | None:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found.get("data"), list) else None


def _is_from(line: str, held_out: str) -> bool:
    sentence = json.loads(line).get("sentence")
    return sentence is not None and sentence[:60] in held_out


def _fitted(folder: Path) -> Path:
    """Make the pairs that the shipped coefficients were fitted on, of the training half alone, and fit."""
    pairs, out = folder / "pairs", folder / "local.json"
    train = sorted((folder / "train").iterdir())
    _run([str(ROOT / "scripts" / "make_pairs.py"), *map(str, train), "--out", str(pairs)])
    names = json.loads(SHIPPED.read_text(encoding="utf-8"))["data"]
    files = [path for path in (pairs / f"{name}.jsonl" for name in names) if path.is_file()]
    _run(["-m", "crag_graph.measure.fit", *map(str, files), "--out", str(out)])
    return out


def _bench(path: Path, split: str, coefficients: Path, seed: int) -> None:
    out = path.with_suffix(f".{split}.out.json")
    options = ["--json", str(out), "-c", "offline", "--seed", str(seed), "--split", split, "--systems", "crag"]
    chosen = {"CRAG_EVALUATOR__LOCAL__COEFFICIENTS": str(coefficients)}
    _run(["-m", "crag_graph.cli", "bench", str(path), *options], chosen)
    overall = json.loads(out.read_text(encoding="utf-8"))["systems"]["crag"]["overall"]
    figures = "  ".join(f"{name} {overall[name]['value']:.3f}" for name in FIGURES)
    print(f"{path.parents[1].name} {path.stem} {split}: {figures}", flush=True)


def _run(arguments: list[str], environment: dict[str, str] | None = None) -> None:
    command, variables = [sys.executable, *arguments], os.environ | (environment or {})
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    if done.returncode:
        sys.exit(done.stderr[-2000:])


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
