"""BM25 over a fixed set of texts, and the files that spare a new process from tokenising them again."""

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from crag_graph.components.tokens import VERSION, content_terms, terms


class TermIndex:
    """Ranks texts by BM25 (Robertson et al., 1994; Lucene's variant, in which no term counts against a text)."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        import bm25s

        found = [terms(text) for text in texts]
        self._ids = list(ids)
        self._bm25: Any = None  # stays None when no text has a term
        if any(found):
            self._bm25 = bm25s.BM25()
            self._bm25.index(found, show_progress=False)

    def top(self, question: str, k: int) -> list[tuple[str, float]]:
        """Return up to `k` ids with their scores in (0, 1), best first; texts that share no term are left out.

        BM25 has no upper bound; s / (1 + s) keeps its order.
        """
        query = content_terms(question)
        if self._bm25 is None or not query:
            return []
        scores = self._bm25.get_scores(query)
        best = (-scores).argsort(kind="stable")[:k]
        return [(self._ids[i], float(scores[i] / (1 + scores[i]))) for i in best if scores[i] > 0]

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return in how many texts each word occurs, by the rarest of its terms; 0 for an unknown one."""
        return {word: min((self._count(term) for term in terms(word)), default=0) for word in words}

    def _count(self, term: str) -> int:
        place = self._bm25.vocab_dict.get(term) if self._bm25 is not None else None
        if place is None:
            return 0
        starts = self._bm25.scores["indptr"]
        return int(starts[place + 1] - starts[place])

    def save(self, folder: Path) -> None:
        """Write the files so that a reader finds all of them or none."""
        draft = folder.with_name(f"draft-{uuid4().hex}")
        draft.mkdir(parents=True)
        if self._bm25 is not None:
            self._bm25.save(draft)
        (draft / "ids.json").write_text(json.dumps(self._ids), encoding="utf-8")
        draft.rename(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            OSError, ValueError: the files are missing or are not what `save` wrote.
        """
        import bm25s

        index = cls.__new__(cls)
        index._ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
        index._bm25 = None
        if (folder / "params.index.json").exists():
            index._bm25 = bm25s.BM25.load(folder)
        return index


class TermStore:
    """The term index of one collection's current revision: from memory, else from its files, else built.

    Without a folder (a collection on a server) it lives in memory only.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._loaded: tuple[tuple[str, str], TermIndex] | None = None
        self._lock = threading.Lock()

    def current(self, state: tuple[str, str], build: Callable[[], TermIndex]) -> TermIndex:
        """Return the term index for this collection id and revision."""
        with self._lock:
            if self._loaded is None or self._loaded[0] != state:
                self._loaded = state, self._load(state[1]) or build()
            return self._loaded[1]

    def save(self, revision: str, build: Callable[[], TermIndex]) -> None:
        """Write the files of this revision, unless they are there."""
        folder = self._of(revision)
        if folder is not None and not folder.is_dir():
            build().save(folder)

    def keep_only(self, revision: str) -> None:
        """Delete the files of all other revisions, and forget what is in memory."""
        self.forget()
        if self._folder is not None and self._folder.is_dir():
            for folder in self._folder.iterdir():
                if folder != self._of(revision):
                    shutil.rmtree(folder)

    def forget(self) -> None:
        """Have the next reader look again."""
        with self._lock:
            self._loaded = None

    def _of(self, revision: str) -> Path | None:
        return self._folder / f"{revision}-{VERSION}" if self._folder is not None and revision else None

    def _load(self, revision: str) -> TermIndex | None:
        folder = self._of(revision)
        if folder is None or not folder.is_dir():
            return None
        try:
            return TermIndex.load(folder)
        except (OSError, ValueError):  # replaced by another process just now, or damaged: the texts are the truth
            return None
