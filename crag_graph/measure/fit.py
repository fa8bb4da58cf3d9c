"""Fits the local evaluator on labelled pairs and reports how well it does on what it has not seen.

    python -m crag_graph.measure.fit PAIRS.jsonl... --out local.json --seed 0

Held-out figures come from a cross-validation by group (article, question): no group is in training and test. Every
kind of text gets its own logistic model; files weigh the same within a kind, whatever their size.
"""

import argparse
import asyncio
import hashlib
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from crag_graph.components.evaluators.features import KINDS, kind_of, read_text
from crag_graph.components.evaluators.local import Logistic, compare
from crag_graph.components.evaluators.questions import Rarity, read_question
from crag_graph.components.tokens import terms
from crag_graph.errors import InputError
from crag_graph.measure.pairs import Metrics, Pair, measure, read_pairs
from crag_graph.protocols import Embedder

_COMMONEST, _RAREST = 0.06, 2e-5  # shares of all terms in running text: of "the", and of what counts as rare
_NEARLY_RARE = 0.9  # from here on a term is left out of the table, which makes it rare
_MIN_GROUPS = 5  # a term of fewer groups is a topic's, not the language's
_FUNCTION_WORDS = 150  # taken per language from lists ordered by frequency
_MIN_PAIRS = 100
_FOLDS = 6
_PENALTY = 1.0  # inverse strength of the L2 penalty on standardised features


@dataclass(frozen=True)
class Row:
    """One pair as the fit sees it."""

    values: dict[str, float]
    label: int
    group: str
    weight: float


@dataclass(frozen=True)
class Fit:
    """What `fit` returns: the content of the coefficients file, and the held-out figures per file."""

    coefficients: dict[str, Any]
    measured: dict[str, Metrics]


async def fit(sources: Mapping[str, Sequence[Pair]], embedder: Embedder, seed: int) -> Fit:
    """Fit on pairs by source name.

    Raises:
        InputError: too few pairs, or one class only.
    """
    labels = Counter(pair.label for pairs in sources.values() for pair in pairs)
    if sum(labels.values()) < _MIN_PAIRS or len(labels) < 2:
        raise InputError(f"needs at least {_MIN_PAIRS} pairs of both labels, got {labels[1]} relevant, {labels[0]} not")
    levels = common_terms(sources)
    rarity = Rarity({term: level for level, found in levels.items() for term in found})
    rows = {name: await _rows(name, pairs, embedder, rarity) for name, pairs in sources.items()}
    measured = _cross_validate(rows, seed)
    models = _fit_kinds([row for part in rows.values() for row in part])
    return Fit(
        {
            "kinds": {
                kind: {"features": m.names, "means": m.means, "scales": m.scales, "weights": m.weights, "bias": m.bias}
                for kind, m in models.items()
            },
            "rarity": {f"{level:.2f}": " ".join(found) for level, found in levels.items()},
        },
        measured,
    )


async def _rows(name: str, pairs: Sequence[Pair], embedder: Embedder, rarity: Rarity) -> list[Row]:
    """Compute the features of all pairs of one source; blank texts are left out."""
    by_question: defaultdict[str, list[tuple[Pair, str]]] = defaultdict(list)
    for pair in pairs:
        # A title helps where there is one and must not be relied on, so each pair counts with and without.
        for text in dict.fromkeys((pair.passage, pair.text)):
            by_question[pair.question].append((pair, text))
    total = sum(map(len, by_question.values()))
    rows = []
    for done, (question, asked_of) in enumerate(by_question.items(), 1):
        asked = read_question(question, rarity)
        found = await compare(embedder, asked, [read_text(text) for _, text in asked_of], rarity)
        rows += [
            Row(values, pair.label, pair.group, 1 / total)
            for (pair, _), values in zip(asked_of, found, strict=True)
            if values is not None
        ]
        if done % 50 == 0 or done == len(by_question):
            print(f"\r{name}: {done} of {len(by_question)} questions", end="", file=sys.stderr)  # noqa: T201 - progress
    print(file=sys.stderr)  # noqa: T201 - progress
    return rows


def common_terms(sources: Mapping[str, Sequence[Pair]]) -> dict[float, list[str]]:
    """Return the common terms by rarity, 0 (commonest) to below 0.9, in steps of 0.05.

    Counted in the pairs, and for other languages taken from the frequency order of the stop lists of `justext`.
    """
    share: Counter[str] = Counter()
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for pairs in sources.values():
        counted: Counter[str] = Counter()
        for text, group in {text: pair.group for pair in pairs for text in (pair.question, pair.text)}.items():
            found = terms(text)
            counted.update(found)
            for term in set(found):
                groups[term].add(group)
        total = sum(counted.values())
        share.update({term: count / total / len(sources) for term, count in counted.items()})
    rarity = {term: _level(value) for term, value in share.items() if len(groups[term]) >= _MIN_GROUPS}
    for ranked in _function_words():
        for rank, word in enumerate(ranked, 1):
            for term in terms(word):
                if term not in share and not term.isdigit():
                    rarity[term] = min(rarity.get(term, 1.0), _level(_COMMONEST / rank))
    levels: defaultdict[float, list[str]] = defaultdict(list)
    for term, level in sorted(rarity.items()):
        if level < _NEARLY_RARE:
            levels[level].append(term)
    return dict(sorted(levels.items()))


def _level(share: float) -> float:
    """Map the share of a term in running text to rarity: logarithmic, in steps."""
    if share <= _RAREST:
        return 1.0
    level = math.log(_COMMONEST / share) / math.log(_COMMONEST / _RAREST)
    return round(max(level, 0.0) * 20) / 20


def _function_words() -> list[list[str]]:
    """Return the most frequent words of every language but English, commonest first."""
    folder = files("justext").joinpath("stoplists")
    lists = [item for item in folder.iterdir() if item.name.endswith(".txt") and "English" not in item.name]
    texts = (item.read_text(encoding="utf-8") for item in sorted(lists, key=lambda item: item.name))
    return [text.split()[:_FUNCTION_WORDS] for text in texts]


def _cross_validate(rows: Mapping[str, Sequence[Row]], seed: int) -> dict[str, Metrics]:
    """Score every row by models that never saw its group; return the metrics per source."""
    groups = sorted({row.group for part in rows.values() for row in part})
    random.Random(seed).shuffle(groups)
    fold = {group: place % _FOLDS for place, group in enumerate(groups)}
    by_fold = [_fit_kinds([r for part in rows.values() for r in part if fold[r.group] != k]) for k in range(_FOLDS)]
    return {
        name: measure(
            [row.label for row in part],
            [by_fold[fold[row.group]][kind_of(row.values)].probability(row.values) for row in part],
        )
        for name, part in rows.items()
    }


def _fit_kinds(rows: Sequence[Row]) -> dict[str, Logistic]:
    """Fit one model per kind; a kind without enough rows of both labels is fitted on all rows."""
    models = {}
    for kind, names in KINDS.items():
        own = [row for row in rows if kind_of(row.values) == kind]
        is_enough = len(own) >= _MIN_PAIRS and len({row.label for row in own}) == 2
        models[kind] = _logistic(own if is_enough else rows, names)
    return models


def _logistic(rows: Sequence[Row], names: Sequence[str]) -> Logistic:
    import numpy
    from sklearn.linear_model import LogisticRegression

    matrix = numpy.array([[row.values[name] for name in names] for row in rows])
    weights = numpy.array([row.weight for row in rows])
    means, scales = matrix.mean(axis=0), matrix.std(axis=0)
    scales[scales < 1e-6] = 1.0
    model = LogisticRegression(C=_PENALTY, max_iter=5_000)
    model.fit((matrix - means) / scales, [row.label for row in rows], sample_weight=weights * len(rows) / weights.sum())
    means, scales, coefficients = (tuple(round(float(x), 5) for x in part) for part in (means, scales, model.coef_[0]))
    return Logistic(tuple(names), means, scales, coefficients, round(float(model.intercept_[0]), 5))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the pairs, fit, report on stderr and write the coefficients."""
    from crag_graph.components.embeddings import LocalEmbedder

    parser = argparse.ArgumentParser(prog="fit", description="Fit the local evaluator on labelled pairs.")
    parser.add_argument("pairs", nargs="+", type=Path, help="JSON Lines files: question, text, label, title?, group?")
    parser.add_argument("--out", type=Path, required=True, help="coefficients file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the cross-validation (default 0)")
    options = parser.parse_args(arguments)
    embedder = LocalEmbedder()
    sources = {path.stem: read_pairs(path) for path in options.pairs}
    result = asyncio.run(fit(sources, embedder, options.seed))
    made = {
        "date": date.today().isoformat(),
        "seed": options.seed,
        "data": {p.stem: {"pairs": len(sources[p.stem]), "sha256": _sha256(p)} for p in options.pairs},
        "held_out": {name: {k: round(v, 4) for k, v in asdict(m).items()} for name, m in result.measured.items()},
    }
    content = {"embedder": {"name": embedder.name, "fingerprint": embedder.fingerprint}, **made, **result.coefficients}
    options.out.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name, m in result.measured.items():
        print(  # noqa: T201 - the report
            f"{name}: auc {m.auc:.4f} accuracy {m.accuracy:.3f} balanced {m.balanced_accuracy:.3f} ece {m.ece:.3f}",
            file=sys.stderr,
        )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
