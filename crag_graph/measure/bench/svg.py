"""Plots as inline SVG: no library, no script, readable on light and dark paper through the page's own colours."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#2f6fb0", "#c8662a", "#3b8f5a", "#8a5fb5", "#b23a5b", "#6b7682", "#b59a1f")
_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 14, 46


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale over `low`..`high`, with its ticks."""

    label: str
    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, 0 to 1.

        >>> Axis("x", 0, 10).place(5), Axis("x", 1, 100, log=True).place(10)
        (0.5, 0.5)
        """
        low, high, value = (math.log(max(v, 1e-9)) if self.log else v for v in (self.low, self.high, value))
        return min(max((value - low) / (high - low or 1), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Return round values inside the axis.

        >>> Axis("x", 0, 10).ticks(), Axis("x", 1, 100, log=True).ticks()
        ([0, 2, 4, 6, 8, 10], [1, 10, 100])
        """
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10**n for n in range(first, last + 1)]
        step = _step(self.high - self.low)
        return [round(n * step, 10) for n in range(math.ceil(self.low / step - 1e-9), int(self.high / step + 1e-9) + 1)]


def _step(span: float) -> float:
    rough = (span or 1) / 5
    power = 10 ** math.floor(math.log10(rough))
    found = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    return int(found) if found >= 1 else found


@dataclass(frozen=True)
class Dot:
    """A point with its intervals."""

    name: str
    x: tuple[float, float, float]  # value, low, high
    y: tuple[float, float, float]


def scatter(dots: Sequence[Dot], x: str, y: Axis) -> str:
    """Return points with error bars, each with its name beside it."""
    across = Axis(x, 0, max([dot.x[2] for dot in dots], default=1) * 1.15 or 1)
    parts = _frame(across, y)
    for colour, dot in zip(COLOURS, dots, strict=False):
        at, up = _x(across, dot.x[0]), _y(y, dot.y[0])
        parts += [
            f'<path d="M{_x(across, dot.x[1])} {up}H{_x(across, dot.x[2])}M{at} {_y(y, dot.y[1])}V{_y(y, dot.y[2])}" '
            f'stroke="{colour}" opacity=".5"/>',
            f'<circle cx="{at}" cy="{up}" r="5" fill="{colour}"/>',
        ]
        parts.append(_beside(dot.name, at, up))
    return _svg(parts)


def _beside(name: str, at: float, up: float) -> str:
    right = at > _WIDTH * 0.75
    anchor, shift = ("end", -9) if right else ("start", 9)
    return f'<text x="{at + shift}" y="{up - 8}" text-anchor="{anchor}">{escape(name)}</text>'


def lines(series: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str, *, log_x: bool) -> str:
    """Return one line per series over the x values that occur."""
    points = [point for line in series.values() for point in line]
    xs = [point[0] for point in points]
    across = Axis(x, min(xs) if log_x else 0, max(xs), log=log_x)
    along = Axis(y, 0, max(point[1] for point in points) * 1.1)
    parts = _frame(across, along, ticks=sorted(set(xs)))
    for colour, line in zip(COLOURS, series.values(), strict=False):
        places = [(_x(across, px), _y(along, py)) for px, py in sorted(line)]
        path = "L".join(f"{px} {py}" for px, py in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px}" cy="{py}" r="3.5" fill="{colour}"/>' for px, py in places]
    return _svg(parts) + legend(list(series))


def histogram(series: Mapping[str, Sequence[float]], marks: Mapping[str, float], x: str, bins: int = 25) -> str:
    """Return the shares of values in [0, 1] per series, with named vertical lines."""
    shares = {name: _shares(values, bins) for name, values in series.items()}
    across = Axis(x, 0, 1)
    along = Axis("share", 0, max([share for each in shares.values() for share in each], default=0) * 1.1 or 1)
    parts = _frame(across, along)
    floor = _y(along, 0)
    for colour, found in zip(COLOURS, shares.values(), strict=False):
        for n, share in enumerate(found):
            left, right, top = _x(across, n / bins), _x(across, (n + 1) / bins), _y(along, share)
            parts.append(
                f'<rect x="{left}" y="{top}" width="{right - left - 1:.1f}" height="{floor - top:.1f}" '
                f'fill="{colour}" opacity=".55"/>'
            )
    for row, (name, value) in enumerate(sorted(marks.items(), key=lambda mark: mark[1])):
        at = _x(across, value)
        parts.append(f'<path d="M{at} {_TOP}V{floor}" stroke="currentColor" stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{at + 4}" y="{_TOP + 12 + 14 * row}">{escape(name)} {value:g}</text>')
    return _svg(parts) + legend([f"{name} ({len(values)})" for name, values in series.items()])


def _shares(values: Sequence[float], bins: int) -> list[float]:
    counts = [0] * bins
    for value in values:
        counts[min(int(value * bins), bins - 1)] += 1
    return [count / max(len(values), 1) for count in counts]


def bars(rows: Mapping[str, Mapping[str, float]], x: str, *, whole: bool = False) -> str:
    """Return one stacked horizontal bar per row; with `whole`, every bar is cut into shares of 1."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    longest = 1.0 if whole else max((sum(row.values()) for row in rows.values()), default=1.0) or 1.0
    height, left = 34 * len(rows) + 46, 150
    width = _WIDTH - left - _RIGHT
    parts = []
    for n, (title, row) in enumerate(rows.items()):
        top, at, total = 8 + 34 * n, float(left), sum(row.values()) or 1.0
        parts.append(f'<text x="{left - 8}" y="{top + 16}" text-anchor="end">{escape(title)}</text>')
        for name, value in row.items():
            wide = width * (value / total if whole else value / longest)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            said = f"{escape(title)}, {escape(name)}: {value:.3g}"
            parts.append(
                f'<rect x="{at:.1f}" y="{top}" width="{wide:.1f}" height="24" fill="{colour}">'
                f"<title>{said}</title></rect>"
            )
            if wide > 34:
                parts.append(f'<text x="{at + wide / 2:.1f}" y="{top + 16}" class="on">{value:.3g}</text>')
            at += wide
    parts.append(f'<text x="{left + width / 2}" y="{height - 14}" text-anchor="middle">{escape(x)}</text>')
    return _svg(parts, height) + legend(names)


def legend(names: Sequence[str]) -> str:
    """Return the colours with what they stand for."""
    keys = (
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for colour, name in zip(COLOURS * 2, names, strict=False)
    )
    return f'<p class="legend">{"".join(keys)}</p>'


def _frame(across: Axis, along: Axis, ticks: Sequence[float] | None = None) -> list[str]:
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for value in along.ticks():
        at = _y(along, value)
        parts.append(f'<path d="M{_LEFT} {at}H{right}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{value:g}</text>')
    for value in across.ticks() if ticks is None else ticks:
        at = _x(across, value)
        parts.append(f'<text x="{at}" y="{floor + 16}" text-anchor="middle">{value:g}</text>')
    middle = (_TOP + floor) / 2
    parts.append(f'<path d="M{_LEFT} {floor}H{right}" stroke="currentColor"/>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{floor + 36}" text-anchor="middle">{escape(across.label)}</text>')
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(along.label)}</text>')
    return parts


def _x(axis: Axis, value: float) -> float:
    return round(_LEFT + axis.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(_HEIGHT - _BOTTOM - axis.place(value) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _svg(parts: Sequence[str], height: int = _HEIGHT) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'
