"""The evaluator that needs no key, no network and no torch: features of question and text in a logistic model."""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_graph.components.evaluators.features import KINDS, Shared, Text, features, kind_of, read_text, share
from crag_graph.components.evaluators.questions import Question, Rarity, read_question
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
    """What the fit has learnt: how rare terms are, and one logistic model per kind of comparison."""

    rarity: Rarity
    kinds: Mapping[str, Logistic]

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the probability that the text helps to answer the question."""
        return self.kinds[kind_of(values)].probability(values)


class LocalEvaluator:
    """Scores by cosines and shared words, names and numbers; the score is a probability calibrated on public sets.

    Of a text only the sentences nearest to the question in words get a vector, and the embedder remembers it: the
    strips of a graded document cost few more.
    """

    def __init__(self, embedder: Embedder, coefficients: Path | None = None) -> None:
        """Load the coefficients (the shipped ones by default).

        Raises:
            ConfigurationError: the file cannot be read, or was fitted with another embedder.
        """
        self._embedder = embedder
        self._model = load_model(coefficients or SHIPPED, embedder.fingerprint)

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order; a blank text scores 0, and no score depends on another text."""
        rarity = self._model.rarity
        asked, read = await asyncio.to_thread(lambda: (read_question(question, rarity), [*map(read_text, texts)]))
        return [self._grade(asked, values) for values in await compare(self._embedder, asked, read, rarity)]

    def _grade(self, question: Question, values: Mapping[str, float] | None) -> Grade:
        if values is None:
            return Grade(score=0.0, reason="The text is empty.")
        return Grade(score=self._model.probability(values), reason=_reason(question, values))


def _reason(question: Question, values: Mapping[str, float]) -> str:
    """Say in numbers what the score mainly rests on."""
    if question.one:
        subject = values["subject"]
        said = "is about it" if subject >= 1 else "names it" if subject >= 0 else "does not seem to be about it"
        return f"the question asks for {question.one}; the text {said}"
    parts = [f"{values['overlap']:.0%} of what the question's words weigh is found"]
    if values["latin"] >= 0.5:
        parts.insert(0, f"best sentence {values['cosine']:.2f}")
    if question.numbers:
        parts.append(f"{values['numbers']:.0%} of its numbers")
    if values["offers"]:
        parts.append("what it asks for is there" if values["offers"] > 0 else "nothing of the kind it asks for")
    return ", ".join(parts)


async def compare(
    embedder: Embedder, question: Question, texts: Sequence[Text], rarity: Rarity
) -> list[dict[str, float] | None]:
    """Return the features of every text, None for one without content."""
    shared = await asyncio.to_thread(lambda: [share(question, text) if text.units else None for text in texts])
    near = [text.units[i] for text, found in zip(texts, shared, strict=True) if found for i in found.nearest]
    pieces = list(dict.fromkeys([*question.variants, *near])) if question.latin and near else []
    vectors = dict(zip(pieces, await embedder.embed(pieces), strict=True)) if pieces else {}

    def features_of(text: Text, found: Shared) -> dict[str, float]:
        return features(question, text, found, _cosines(question, text, found, vectors), rarity)

    couples = list(zip(texts, shared, strict=True))
    return await asyncio.to_thread(lambda: [features_of(text, found) if found else None for text, found in couples])


def _cosines(question: Question, text: Text, shared: Shared, vectors: Mapping[str, Sequence[float]]) -> "numpy.ndarray":
    """Return the cosines of the variants of a question with the nearest units; zeros where there are no vectors."""
    import numpy

    if not vectors:
        return numpy.zeros((len(question.variants), len(shared.nearest)))
    asked = numpy.array([vectors[variant] for variant in question.variants])
    cosines: numpy.ndarray = asked @ numpy.array([vectors[text.units[i]] for i in shared.nearest]).T
    return cosines


def load_model(path: Path, fingerprint: str) -> Model:
    """Read a coefficients file that was fitted with the embedder of this fingerprint.

    Raises:
        ConfigurationError: it cannot be read, or belongs to another embedder; its scores would mean nothing.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        fitted = data["embedder"]
        kinds = {kind: _logistic(data["kinds"][kind]) for kind in KINDS}
        rarity = Rarity({term: float(level) for level, terms in data["rarity"].items() for term in terms.split()})
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{path}: not a file that `crag fit-evaluator` writes: {error}") from error
    if fitted["fingerprint"] != fingerprint:
        raise ConfigurationError(
            f"{path}: fitted with embedder {fitted['name']} ({fitted['fingerprint']}), but the one in use is "
            f"{fingerprint}: fit again with `crag fit-evaluator`, or set evaluator.use to llm"
        )
    return Model(rarity, kinds)


def _logistic(values: Mapping[str, Any]) -> Logistic:
    names, means, scales, weights = (tuple(values[key]) for key in ("features", "means", "scales", "weights"))
    return Logistic(names, means, scales, weights, float(values["bias"]))
