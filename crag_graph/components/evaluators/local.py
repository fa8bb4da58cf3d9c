"""The evaluator that needs no key, no network and no torch: features of question and text in a logistic model."""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_graph.components.evaluators.features import Question, Rarity, Text, features, read_question, read_text
from crag_graph.errors import ConfigurationError
from crag_graph.protocols import Embedder
from crag_graph.state import Grade

if TYPE_CHECKING:
    import numpy

SHIPPED = Path(__file__).parent / "local.json"


@dataclass(frozen=True)
class Logistic:
    """A logistic model over standardised features."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the modelled probability, in (0, 1)."""
        logit = self.bias
        for name, mean, scale, weight in zip(self.names, self.means, self.scales, self.weights, strict=True):
            logit += weight * (values[name] - mean) / scale
        return 1 / (1 + math.exp(-max(min(logit, 30.0), -30.0)))


@dataclass(frozen=True)
class Model:
    """What the fit has learnt: how rare terms are, and one logistic model per kind of text (see `kind_of`)."""

    rarity: Rarity
    kinds: Mapping[str, Logistic]

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the probability that the text helps to answer the question."""
        return self.kinds[kind_of(values)].probability(values)


def kind_of(values: Mapping[str, float]) -> str:
    """Tell strips from longer texts and Latin script from others: what a feature is worth differs between them."""
    script = "latin" if values["latin"] >= 0.5 else "other"
    return f"{script} {'strip' if values['length'] < 0.722 else 'text'}"  # 0.722: about 75 terms


class LocalEvaluator:
    """Scores by cosines and shared words, names and numbers; the score is a probability calibrated on public sets.

    A sentence is embedded once: the embedder remembers it, so the strips of a graded document cost no more vectors.
    """

    def __init__(self, embedder: Embedder, coefficients: Path | None = None) -> None:
        """Load the coefficients (the shipped ones by default).

        Raises:
            ConfigurationError: the file is missing or no such file, or was fitted with another embedder.
        """
        self._embedder = embedder
        self._model = load_model(coefficients or SHIPPED, embedder.fingerprint)

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order; a blank text scores 0, and no score depends on another text."""
        asked, read = await asyncio.to_thread(_read, question, texts, self._model.rarity)
        values = await compare(self._embedder, asked, read, self._model.rarity)
        return [self._grade(asked, item) for item in values]

    def _grade(self, question: Question, values: Mapping[str, float] | None) -> Grade:
        if values is None:
            return Grade(score=0.0, reason="The text is empty.")
        found = f"{values['overlap']:.0%} of the question's weight in words found"
        score = self._model.probability(values)
        return Grade(score=score, reason=f"best sentence {values['cosine_best']:.2f}, {found}")


async def compare(
    embedder: Embedder, question: Question, texts: Sequence[Text], rarity: Rarity
) -> list[dict[str, float] | None]:
    """Return the features of every text, None for one without content."""
    pieces = dict.fromkeys([*question.variants, *(part for text in texts for part in (text.heading, *text.units) if part)])
    vectors = dict(zip(pieces, await embedder.embed(list(pieces)), strict=True))
    return await asyncio.to_thread(lambda: [_features(question, text, vectors, rarity) for text in texts])


def _read(question: str, texts: Sequence[str], rarity: Rarity) -> tuple[Question, list[Text]]:
    return read_question(question, rarity), [read_text(text) for text in texts]


def _features(
    question: Question, text: Text, vectors: Mapping[str, Sequence[float]], rarity: Rarity
) -> dict[str, float] | None:
    import numpy

    if not text.units:
        return None
    asked = numpy.array([vectors[variant] for variant in question.variants])
    rows = numpy.array([vectors[unit] for unit in text.units])
    lengths = numpy.array([len(unit) for unit in text.units], dtype=float)
    whole = lengths @ rows
    if text.heading:  # weighs as a fifth of the text, or by its length when that is more
        whole += max(len(text.heading), 0.2 * lengths.sum()) * numpy.array(vectors[text.heading])
    norm = max(float(numpy.linalg.norm(whole)), 1e-9)
    return features(question, text, asked @ rows.T, float(asked[0] @ whole) / norm, rarity)


def load_model(path: Path, fingerprint: str) -> Model:
    """Read a coefficients file that was fitted with the embedder of this fingerprint.

    Raises:
        ConfigurationError: it cannot be read, or belongs to another embedder; its scores would mean nothing.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        fitted = data["embedder"]
        kinds = {kind: _logistic(data["features"], values) for kind, values in data["kinds"].items()}
        rarity = Rarity({term: float(level) for level, terms in data["rarity"].items() for term in terms.split()})
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{path}: not a coefficients file; `crag fit-evaluator` writes one: {error}") from error
    if fitted["fingerprint"] != fingerprint:
        raise ConfigurationError(
            f"{path}: fitted with embedder {fitted['name']} ({fitted['fingerprint']}), but the one in use is "
            f"{fingerprint}: fit again with `crag fit-evaluator`, or set evaluator.use to llm"
        )
    return Model(rarity, kinds)


def _logistic(names: Sequence[str], values: Mapping[str, Any]) -> Logistic:
    return Logistic(
        tuple(names), tuple(values["means"]), tuple(values["scales"]), tuple(values["weights"]), float(values["bias"])
    )
