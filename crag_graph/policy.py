"""The numbers in force for one run: the settings, as changed by the run context."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from crag_graph.errors import InputError
from crag_graph.rules.corrections import Listed
from crag_graph.rules.strips import Mode, Span, strips
from crag_graph.rules.verdict import Aggregate
from crag_graph.settings import RefineSettings, RunContext, Settings

T = TypeVar("T")
YES_OR_NO = 0.5  # a filter that only says yes or no grades 1 or 0, so any cut-off between will do


@dataclass(frozen=True)
class Policy:
    """What the nodes hand to the rules; each field is explained in `configs/default.yaml`."""

    top_k: int
    aggregate: Aggregate
    upper: float
    lower: float
    keep: float
    sufficient: float
    web: bool
    approve: bool
    max_rounds: int
    corrections: Listed
    max_query_chars: int
    strip_mode: Mode
    window: int
    overlap: int
    words: int
    language: str
    max_strips: int
    max_context_tokens: int
    no_evidence: str
    on_failure: Literal["extractive", "error"]

    @property
    def splits_ambiguous(self) -> bool:
        """Whether an ambiguous verdict has the question decomposed in this run."""
        return self.max_rounds > 0 and "decompose" in self.corrections["ambiguous"]


def policy(settings: Settings, context: object = None) -> Policy:
    """Return the policy of one run; a context that is not ours (a parent graph's) changes nothing."""
    run = context if isinstance(context, RunContext) else RunContext()
    cut, refine, correct = settings.evaluator.thresholds, settings.refine, settings.corrections
    by_evaluator = refine.filter == "evaluator"
    upper, lower = _or(run.upper, cut.upper), _or(run.lower, cut.lower)
    if lower > upper:
        raise InputError(f"the run context leaves lower ({lower}) above upper ({upper}); give both")
    return Policy(
        top_k=min(_or(run.top_k, settings.retrieve.top_k), settings.retrieve.fetch_k),
        aggregate=settings.evaluator.aggregate,
        upper=upper,
        lower=lower,
        keep=_or(run.keep, cut.keep if by_evaluator else YES_OR_NO),
        sufficient=cut.sufficient if by_evaluator else YES_OR_NO,
        web=run.web is not False,
        approve=settings.web.approve,
        corrections={"ambiguous": correct.ambiguous, "incorrect": correct.incorrect},
        max_rounds=_or(run.max_rounds, correct.max_rounds),
        max_query_chars=settings.rewriter.max_chars,
        strip_mode=run.strip_mode or refine.mode,
        window=refine.window,
        overlap=refine.overlap,
        words=refine.words,
        language=refine.language,
        max_strips=_or(run.max_strips, refine.max_strips),
        max_context_tokens=refine.max_context_tokens,
        no_evidence=settings.generator.no_evidence,
        on_failure=settings.generator.on_failure,
    )


def cut_by(refine: RefineSettings) -> Callable[[str], list[Span]]:
    """Return the function that cuts a text into strips as configured."""
    return partial(
        strips,
        mode=refine.mode,
        window=refine.window,
        overlap=refine.overlap,
        words=refine.words,
        language=refine.language,
    )


def _or(value: T | None, configured: T) -> T:
    return configured if value is None else value
