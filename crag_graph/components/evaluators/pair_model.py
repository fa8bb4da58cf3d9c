"""A sequence-classification model that reads question and text together, run in a thread of its own."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from crag_graph.components.evaluators.windows import windows
from crag_graph.errors import ConfigurationError, EvaluationError

Outputs = list[list[float]]
"""Raw outputs (logits) of one text: one row per window, one column per label; a blank text has no row."""

Layout = Literal["pair", "joined"]
"""How the model was trained to read: two segments, or one sequence `question [SEP] text` as the paper's T5."""

SEPARATOR = " [SEP] "
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


class PairModel:
    """Any sequence-classification model, by folder or hub name.

    Models read a few hundred tokens, so a longer text is scored in windows of its own. One forward pass runs at a time
    (its operations use all cores); those that wait for it hold no thread that others need.
    """

    def __init__(self, name: str, setting: str, *, max_tokens: int, batch_size: int) -> None:
        """Load the model; one that was fetched before is loaded without asking the network.

        Raises:
            ConfigurationError: the extra is not installed, there is no such model, or it has no classifier.
        """
        with loading(name, setting):
            from sentence_transformers import CrossEncoder

            where = located(name, setting)
            try:
                model: Any = CrossEncoder(where, local_files_only=True)
            except (OSError, ValueError):  # never fetched, or not all of it
                model = CrossEncoder(where)
        kind = ", ".join(model.config.architectures or ["of unknown architecture"])
        if "ForSequenceClassification" not in kind:
            raise ConfigurationError(
                f"{setting}: {name} is {kind}: without a trained classifier its scores would be random; "
                f"train one: crag train-evaluator PAIRS.jsonl --base {name} --out FOLDER"
            )
        model.eval()
        model.max_seq_length = min(max_tokens, model.max_seq_length or max_tokens)
        self.name = name
        self.labels = tuple(str(label) for _, label in sorted(model.config.id2label.items()))
        self._model = model
        self._batch_size = batch_size
        self._thread = ThreadPoolExecutor(1, "pair-model")

    async def outputs(
        self, question: str, texts: Sequence[str], *, layout: Layout = "pair", text_first: bool = False
    ) -> list[Outputs]:
        """Return the raw outputs for every text, in order.

        Raises:
            EvaluationError: the model failed.
        """
        if not texts:
            return []
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._outputs, question, texts, layout, text_first)

    def _outputs(self, question: str, texts: Sequence[str], layout: Layout, text_first: bool) -> list[Outputs]:
        question = encodable(question)
        try:
            pieces = [self._windows(question, encodable(text)) for text in texts]
            pairs = [(piece, question) if text_first else (question, piece) for part in pieces for piece in part]
            rows = iter(self._rows([SEPARATOR.join(pair) for pair in pairs] if layout == "joined" else pairs))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise EvaluationError(f"{self.name} failed: {error}", component="evaluator") from error
        return [[next(rows) for _ in part] for part in pieces]

    def _rows(self, inputs: Sequence[Any]) -> Outputs:
        import torch
        from sentence_transformers.util import batch_to_device

        rows: Outputs = []
        with torch.inference_mode():
            for start in range(0, len(inputs), self._batch_size):
                features = self._model.preprocess(list(inputs[start : start + self._batch_size]))
                scored = self._model(batch_to_device(features, self._model.device))
                rows += scored["scores"].float().cpu().tolist()
        return rows

    def _windows(self, question: str, text: str) -> list[str]:
        """Cut the text so that each window fits beside the question; a long question is cut before the text is."""
        limit = self._model.max_seq_length
        room = max(limit - self._tokens(question + SEPARATOR, special=True), limit // 2)
        return windows(text, lambda piece: self._tokens(piece) <= room)

    def _tokens(self, text: str, special: bool = False) -> int:
        return len(self._model.tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])


@contextmanager
def loading(name: str, setting: str) -> Iterator[None]:
    """Translate what goes wrong while a model is loaded into `ConfigurationError`."""
    try:
        import sentence_transformers  # noqa: F401
        from safetensors import SafetensorError
    except ImportError as error:
        raise ConfigurationError(f'{setting}: models need an extra: pip install "crag-graph[models]"') from error
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
        raise ConfigurationError(
            f"{setting}: {name} cannot be loaded; name a folder that holds a sequence-classification model, or "
            f"a hub model as owner/name: {error}"
        ) from error


def located(name: str, setting: str) -> str:
    """Return the folder, or the hub name where there is no such folder.

    Raises:
        ConfigurationError: it is neither.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if not _HUB_NAME.fullmatch(name):
        raise ConfigurationError(f"{setting}: there is no folder {name}, and a hub model is named owner/name")
    return name


def encodable(text: str) -> str:
    """Return the text with question marks for lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()
