"""Trains an evaluator of your own: a sequence-classification model as regression towards +1 and -1.

    python -m crag_graph.measure.train PAIRS.jsonl... --base MODEL --out FOLDER --steps 2000 --seed 0

The recipe is the paper's (Yan et al., 2024, section 4.2 and its appendix on implementation): question and passage in,
one number out, +1 for passages from the page of the entity asked about and -1 for others (`label_by_title`). It used
T5-large with AdamW at 1e-4 in batches of 12.

A fifth of the groups (article, question) is held out; the report is what `evaluator.use: cross_encoder` makes of them.
A run that was interrupted goes on from the checkpoint in its folder when it is started again in the same way.
"""

import argparse
import asyncio
import hashlib
import itertools
import json
import math
import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, Literal

import yaml

from crag_graph.components.evaluators.cross_encoder import CrossEncoderEvaluator
from crag_graph.components.evaluators.pair_model import SEPARATOR, encodable, loading, located
from crag_graph.errors import InputError
from crag_graph.measure import checkpoint
from crag_graph.measure.measuring import score_pairs
from crag_graph.measure.pairs import Metrics, Pair, measure, read_pairs
from crag_graph.settings import CrossEncoderThresholds

_MIN_PAIRS = 100
_HELD_OUT = 5  # one group in so many
_WARM_UP = 0.1  # share of the steps in which the rate rises
_MAX_NORM = 1.0  # to which gradients are clipped

Report = Callable[[int, float], None]
"""Told after every step: how many are done, and the loss of this one."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, with the pairs."""

    base: str
    steps: int
    seed: int = 0
    rate: float = 1e-4
    batch_size: int = 12
    max_tokens: int = 512
    layout: Literal["pair", "joined"] = "pair"


def label_by_title(entity: str, title: str) -> int:
    """Return 1 where a passage is from the page of the entity asked about, else 0: the paper's labelling rule.

    Titles are compared in one Unicode form: the same accented name may be written with one or with two characters.

    >>> label_by_title("Alen Omić", "Alen Omic\\u0301"), label_by_title("Alen Omić", "Alen")
    (1, 0)
    """
    return int(_plain(entity) == _plain(title))


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def split(sources: Mapping[str, Sequence[Pair]], seed: int) -> tuple[list[Pair], dict[str, list[Pair]]]:
    """Return the pairs to train on, and per source those of the held-out groups.

    Raises:
        InputError: too few groups or pairs, or one class only.
    """
    groups = sorted({pair.group for pairs in sources.values() for pair in pairs})
    random.Random(seed).shuffle(groups)
    held_out = set(groups[: len(groups) // _HELD_OUT])
    to_train = [pair for pairs in sources.values() for pair in pairs if pair.group not in held_out]
    labels = Counter(pair.label for pair in to_train)
    if not held_out or len(to_train) < _MIN_PAIRS or len(labels) < 2:
        raise InputError(
            f"needs at least {_HELD_OUT} groups, and {_MIN_PAIRS} pairs of both labels beside the groups held out; got "
            f"{len(groups)} groups, {labels[1]} pairs that help and {labels[0]} that do not"
        )
    unseen = {name: [pair for pair in pairs if pair.group in held_out] for name, pairs in sources.items()}
    return to_train, {name: pairs for name, pairs in unseen.items() if pairs}


def train(recipe: Recipe, pairs: Sequence[Pair], folder: Path, every: int, report: Report) -> None:
    """Train, or go on from the checkpoint in `folder`, and save the model there; texts beyond `max_tokens` are cut.

    The checkpoint is written after `every` steps and after the last, and stays. On a CPU, an interrupted run ends in
    the same weights as one that was not.

    Raises:
        ConfigurationError: the extra or the base model is missing.
        InputError: the folder holds something else, or the checkpoint of another run.
    """
    run = _identity(recipe, pairs)
    checkpoint.check(folder)
    tokenizer, model = _load(recipe)
    import torch

    model.to("cuda" if torch.cuda.is_available() else "cpu").train()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=recipe.rate)
    done = checkpoint.resume(folder, run, model, optimizer)
    for step, batch in enumerate(_batches(pairs, recipe, done), done):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * _share(step, recipe.steps)
        loss = _loss(model, tokenizer, batch, recipe)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _MAX_NORM)
        optimizer.step()
        if (step + 1) % every == 0 or step + 1 == recipe.steps:
            checkpoint.save(folder, run, step + 1, model, optimizer)
        report(step + 1, loss.item())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _load(recipe: Recipe) -> tuple[Any, Any]:
    """Return tokenizer and model; what the base has no weights for is drawn by the seed."""
    with loading(recipe.base, "--base"):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        torch.manual_seed(recipe.seed)
        where = located(recipe.base, "--base")
        tokenizer: Any = AutoTokenizer.from_pretrained(where)
        model: Any = AutoModelForSequenceClassification.from_pretrained(
            where, num_labels=1, problem_type="regression", ignore_mismatched_sizes=True
        )
    reads = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    tokenizer.model_max_length = min(recipe.max_tokens, tokenizer.model_max_length, reads)
    return tokenizer, model


def _loss(model: Any, tokenizer: Any, batch: Sequence[Pair], recipe: Recipe) -> Any:
    """Return the mean squared error of the batch towards +1 and -1."""
    import torch

    questions, texts = [encodable(p.question) for p in batch], [encodable(p.passage) for p in batch]
    if recipe.layout == "joined":
        asked: tuple[list[str], ...] = ([SEPARATOR.join(both) for both in zip(questions, texts, strict=True)],)
    else:
        asked = questions, texts
    inputs = tokenizer(*asked, padding=True, truncation=True, return_tensors="pt").to(model.device)
    wanted = torch.tensor([2.0 * pair.label - 1 for pair in batch], device=model.device)
    return torch.nn.functional.mse_loss(model(**inputs).logits.squeeze(-1), wanted)


def _identity(recipe: Recipe, pairs: Sequence[Pair]) -> str:
    """Return what tells this run from another."""
    content = json.dumps([asdict(recipe), [asdict(pair) for pair in pairs]])
    return hashlib.sha256(content.encode()).hexdigest()


def _batches(pairs: Sequence[Pair], recipe: Recipe, done: int) -> Iterator[list[Pair]]:
    """Yield the batches of the steps still to do; every epoch has its own order, known from the seed alone."""

    def endless() -> Iterator[Pair]:
        for epoch in itertools.count():
            yield from random.Random(f"{recipe.seed}:{epoch}").sample(pairs, len(pairs))

    stream = itertools.islice(endless(), done * recipe.batch_size, None)
    for _ in range(done, recipe.steps):
        yield list(itertools.islice(stream, recipe.batch_size))


def _share(step: int, steps: int) -> float:
    """Return the share of the rate that is in force: it rises over the warm-up, then falls to 0."""
    warm_up = max(round(steps * _WARM_UP), 1)
    return min((step + 1) / warm_up, (steps - step) / max(steps - warm_up, 1), 1.0)


async def held_out(settings: CrossEncoderThresholds, sources: Mapping[str, Sequence[Pair]]) -> dict[str, Metrics]:
    """Measure the trained model on pairs it has not seen, per source, as the application will use it."""
    evaluator = CrossEncoderEvaluator(settings)
    measured = {}
    for name, pairs in sources.items():
        graded = (await score_pairs(evaluator, pairs)).graded
        measured[name] = measure([pair.label for pair, _ in graded], [score for _, score in graded])
    return measured


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the pairs, train, report on stderr, and print the settings that use the model."""
    options = _options(arguments)
    sources = {path.stem: read_pairs(path) for path in options.pairs}
    recipe = Recipe(**{field.name: getattr(options, field.name) for field in fields(Recipe)})
    pairs, unseen = split(sources, recipe.seed)
    train(recipe, pairs, options.out, options.save_every, _progress(recipe.steps))
    settings = CrossEncoderThresholds(
        model=str(options.out),
        activation="none",
        output_scale="signed",
        layout=recipe.layout,
        max_tokens=recipe.max_tokens,
    )
    measured = asyncio.run(held_out(settings, unseen))
    record = {
        "date": date.today().isoformat(),
        **asdict(recipe),
        "pairs": len(pairs),
        "data": {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in options.pairs},
        "held_out": {
            name: {key: None if math.isnan(value) else round(value, 4) for key, value in asdict(metrics).items()}
            for name, metrics in measured.items()
        },
    }
    (options.out / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / checkpoint.NAME).unlink()
    for name, m in measured.items():
        print(  # noqa: T201 - the report
            f"{name}: {m.pairs} held-out pairs, auc {m.auc:.4f} accuracy {m.accuracy:.3f} "
            f"balanced {m.balanced_accuracy:.3f} ece {m.ece:.3f}",
            file=sys.stderr,
        )
    block = {"use": "cross_encoder", "cross_encoder": settings.model_dump(exclude_defaults=True)}
    print(yaml.safe_dump({"evaluator": block}, sort_keys=False), end="")  # noqa: T201 - the result


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train", description="Train an evaluator on labelled pairs.")
    parser.add_argument("pairs", nargs="+", type=Path, help="JSON Lines files: question, text, label, title?, group?")
    parser.add_argument("--base", required=True, help="folder or hub name of the model to start from")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model; holds the checkpoint meanwhile")
    parser.add_argument("--steps", type=_whole(1), required=True, help="batches to train on")
    parser.add_argument("--seed", type=int, default=0, help="of split, order and dropout (default 0)")
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate (default 1e-4, for T5; BERT: 2e-5)")
    parser.add_argument("--batch-size", type=_whole(1), default=12, help="pairs per step (default 12)")
    parser.add_argument(
        "--max-tokens", type=_whole(32), default=512, help="of question and text together (default 512)"
    )
    parser.add_argument("--layout", choices=("pair", "joined"), default="pair", help='joined: "question [SEP] text"')
    parser.add_argument("--save-every", type=_whole(1), default=200, help="steps between checkpoints (default 200)")
    return parser.parse_args(arguments)


def _whole(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` on."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} on")
        return int(text)

    return read


def _progress(steps: int) -> Report:
    """Return a report that rewrites one line of stderr."""

    def show(done: int, loss: float) -> None:
        end = "\n" if done == steps else ""
        print(f"\rstep {done} of {steps}, loss {loss:.3f}", end=end, file=sys.stderr, flush=True)  # noqa: T201 - progress

    return show


if __name__ == "__main__":
    main()
