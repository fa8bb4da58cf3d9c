"""A picture of a calibration: what scores mean, where the labels lie, and what each cut-off would cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crag_graph.errors import ConfigurationError, InputError
from crag_graph.measure.calibrating import Report
from crag_graph.measure.pairs import Pair
from crag_graph.rules.calibration import by_question, errors

HELPS, USELESS, NEUTRAL = "#1b7f5c", "#c0432b", "#5b6470"
_BINS = 10
_STEPS = 200


def need_matplotlib() -> None:
    """Refuse to go on without the library that draws.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise ConfigurationError('--plot needs matplotlib: pip install "crag-graph[fit]"; or leave it out') from error


def plot(report: Report, path: Path) -> None:
    """Write the picture; the ending of `path` decides the format (PNG, SVG, PDF).

    Raises:
        ConfigurationError: matplotlib is not installed.
        InputError: the file cannot be written.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    meaning, labels, cost = figure.subplots(1, 3)
    _draw_meaning(meaning, report.graded)
    _draw_labels(labels, report)
    _draw_cost(cost, report)
    who = " · ".join(part for part in report.identity if part)
    figure.suptitle(f"{who}   ({report.pairs} pairs, {report.questions} questions)", fontsize=11)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"--plot {path}: cannot be written: {error}") from error


def _draw_meaning(axes: Any, graded: Sequence[tuple[Pair, float]]) -> None:
    bins: dict[int, list[tuple[float, int]]] = {}
    for pair, score in graded:
        bins.setdefault(min(int(score * _BINS), _BINS - 1), []).append((score, pair.label))
    points = [
        (sum(score for score, _ in rows) / len(rows), sum(label for _, label in rows) / len(rows), len(rows))
        for _, rows in sorted(bins.items())
    ]
    axes.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=1, linestyle=":", label="score = probability")
    axes.plot([score for score, _, _ in points], [share for _, share, _ in points], color=HELPS, linewidth=1.5)
    sizes = [20 + 180 * count / len(graded) for _, _, count in points]
    axes.scatter(
        [score for score, _, _ in points],
        [share for _, share, _ in points],
        s=sizes,
        color=HELPS,
        zorder=3,
        label="this evaluator (size: pairs)",
    )
    _label(axes, "What a score means", "score", "share of texts that help", "upper left")


def _draw_labels(axes: Any, report: Report) -> None:
    for label, colour, name in ((0, USELESS, "does not help"), (1, HELPS, "helps")):
        scores = [score for pair, score in report.graded if pair.label == label]
        weights = [1 / len(scores)] * len(scores)
        axes.hist(scores, bins=25, range=(0, 1), weights=weights, color=colour, alpha=0.55, label=name)
    for name in ("lower", "upper"):
        axes.axvline(report.thresholds[name].value, color=NEUTRAL, linewidth=1.2, linestyle="--")
    _label(axes, "Where the labels lie", "score", "share of texts with this label", "upper center", top=None)


def _draw_cost(axes: Any, report: Report) -> None:
    cases = by_question((pair.question, pair.label, score) for pair, score in report.graded)
    cuts = [step / _STEPS for step in range(_STEPS + 1)]
    rates = [errors(cases, cut) for cut in cuts]
    axes.plot(cuts, [rate.alarms for rate in rates], color=USELESS, label="useless text at or above")
    axes.plot(cuts, [rate.misses for rate in rates], color=HELPS, label="helpful texts all below")
    for name, side in (("lower", "right"), ("upper", "left")):
        threshold = report.thresholds[name]
        axes.axvline(threshold.value, color=NEUTRAL, linewidth=1.2, linestyle="--")
        if threshold.interval:
            axes.axvspan(*threshold.interval, color=NEUTRAL, alpha=0.12, linewidth=0)
        axes.text(threshold.value, 1.01, f" {name} {threshold.value:.2f} ", ha=side, fontsize=8)
    _label(axes, "What a cut-off errs in", "cut-off (band: 95% of resamples)", "share of questions", "center")


def _label(axes: Any, title: str, across: str, up: str, legend: str, top: float | None = 1.06) -> None:
    axes.set(xlabel=across, ylabel=up, xlim=(-0.02, 1.02), ylim=(0, top))
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.legend(fontsize=8, edgecolor="white", loc=legend)
    axes.spines[["top", "right"]].set_visible(False)
