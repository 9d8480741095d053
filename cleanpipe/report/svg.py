"""Charts as inline SVG: 360 units wide, so that on a telephone one unit is one pixel and texts stay readable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cleanpipe.report.markup import Html, escape, exact, join, score, tag

WIDE, HIGH = 360, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 40, 34
_FEW = 3  # bars that are narrowed for any limit
_ROOM, _BARS = 0.3, 80  # a limit far off is seen too where the data keep this share of the width, or each bar this part
_CURVES = ("", " b", " c")


@dataclass(frozen=True, slots=True)
class Bin:
    """Values in [low, high): how many were kept, how many lost, how many are set apart from both."""

    low: float
    high: float
    kept: int
    lost: int = 0
    other: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """A line across the chart. of: where its value stands in the data."""

    at: float
    label: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A curve; points as (x, y), ascending in x. dots: mark each point, for curves of few. joined: by lines. level: it
    goes on as it begins and ends, to the ends of the number line.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = False
    joined: bool = True
    level: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = min(max(value, self.low), self.high)
        at = math.log(value) if self.log else value
        part = (at - low) / (high - low) if high > low else 0.5
        return round(self.first + part * (self.last - self.first), 2)


def histogram(
    bins: Sequence[Bin],
    *,
    title: str,
    x: str,
    y: str = "documents",
    limits: Iterable[Limit] = (),
    log: bool = False,
    names: Sequence[str] = ("kept", "lost"),
) -> Html:
    """Bars over a number line, the kept part below, the lost part above it, then the other; limits as dashed lines.

    Args:
        bins: ascending and not overlapping; all > 0 where ``log``.
        title: what a reader who cannot see it is told. x: what the values are, with their unit. y: what is counted.
        limits: thresholds; one far outside is named at the border. log: of the number line.
        names: what the two parts are, or the three.
    """
    if not bins:
        return tag("p", "No values.", class_="note")
    limits = list(limits)
    step = min(_span(b.low, b.high, log) for b in bins) if len(bins) > _FEW else math.inf
    low, high = _around(bins[0].low, bins[-1].high, limits, log, step)
    across = _Scale(low, high, _LEFT, WIDE - _RIGHT, log)
    top = max(b.kept + b.lost + b.other for b in bins)
    ticks = nice(0, top, 4, whole=True)
    up = _Scale(0, max(top, ticks[-1]), HIGH - _BOTTOM, _TOP)
    shapes = []
    for b in bins:
        left, right = across(b.low), across(b.high)
        gap = 0.6 if right - left > 2.5 else 0
        gone = b.kept + b.lost
        for part, low, high in (("kept", 0, b.kept), ("lost", b.kept, gone), ("aside", gone, gone + b.other)):
            if high > low:
                wide = max(right - left - gap, 0.8)
                shapes.append(_rect(left, up(high), wide, max(up(low) - up(high), 0.7), part))
    sums = (sum(b.kept for b in bins), sum(b.lost for b in bins), sum(b.other for b in bins))
    parts = ", ".join(f"{n:,} {what}" for n, what in zip(sums, names, strict=False))
    said = f"{title}: {parts}, from {score(bins[0].low)} to {score(bins[-1].high)}"
    return _frame(said, across, up, ticks, x, y, [*shapes, *_limits(limits, across)])


def line(
    series: Sequence[Series],
    *,
    title: str,
    x: str,
    y: str,
    limits: Iterable[Limit] = (),
    log: bool = False,
    share: bool = True,
    over: tuple[float, float] | None = None,
) -> Html:
    """Curves over a number line; share: y runs from 0 to 100 %. over: the ends of the line, those of the points if none
    are given.
    """
    points = [p for s in series for p in s.points]
    if not points:
        return tag("p", "No values.", class_="note")
    limits = list(limits)
    low, high = over or (min(p[0] for p in points), max(p[0] for p in points))
    if high <= low:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    steps = [_span(a, b, log) for s in series for (a, _), (b, _) in pairwise(s.points)]
    step = min(steps) if len(points) > (_FEW + 1) * len(series) else math.inf
    low, high = _around(low, high, limits, log, step)
    across = _Scale(low, high, _LEFT, WIDE - _RIGHT, log)
    top = 1.0 if share else max(p[1] for p in points)
    ticks = [0, 0.25, 0.5, 0.75, 1.0] if share else nice(0, top or 1.0, 4)
    up = _Scale(0, max(top, ticks[-1]), HIGH - _BOTTOM, _TOP)
    shapes = []
    for s, style in zip(series, _CURVES * len(series), strict=False):
        ends = [(across.low, s.points[0][1]), (across.high, s.points[-1][1])] if s.level and s.points else []
        path = " ".join(f"{across(a):g},{up(b):g}" for a, b in [*ends[:1], *s.points, *ends[1:]])
        if s.joined:
            shapes.append(Html(f'<polyline class="curve{style}" points="{path}"/>'))
        if s.dots:
            spots = (f'<circle class="dot{style}" cx="{across(a):g}" cy="{up(b):g}" r="2.6"/>' for a, b in s.points)
            shapes.append(Html("".join(spots)))
    said = f"{title}: {', '.join(s.name for s in series)}, from {score(low)} to {score(high)}"
    return _frame(said, across, up, ticks, x, y, [*shapes, *_limits(limits, across)], share=share)


def bars(
    rows: Sequence[tuple[str, Sequence[tuple[str, float]], str]], *, title: str, whole: float | None = None
) -> Html:
    """A bar for each name, its name and what it says above it.

    Args:
        rows: (name, parts as (class kept, lost, aside or rest, size), words at the right end).
        title: for who cannot see it. whole: the size that fills the width; the largest sum, if not given.
    """
    step, thick = 34, 11
    largest = whole or max((sum(n for _, n in parts) for _, parts, _ in rows), default=0) or 1
    shapes: list[Html] = []
    for i, (name, parts, words) in enumerate(rows):
        at, left = i * step, 0.0
        shapes.append(Html(f'<text class="s" x="0" y="{at + 12}">{escape(name, 40)}</text>'))
        shapes.append(Html(f'<text x="{WIDE}" y="{at + 12}" text-anchor="end">{escape(words, 60)}</text>'))
        shapes.append(_rect(0, at + 17, WIDE, thick, "rest"))
        for style, n in parts:
            wide = WIDE * n / largest
            if n > 0:
                shapes.append(_rect(round(left, 2), at + 17, max(round(wide, 2), 0.7), thick, style))
            left += wide
    return _svg(title, step * len(rows), shapes)


def bar(share: float | None, style: str = "kept") -> Html:
    """A small bar for a table's cell; empty for what does not apply. Its number stands beside it."""
    wide = 0.0 if share is None else max(0.0, min(1.0, share)) * 100
    least = 0.6 if wide else 0
    inner = join(_rect(0, 0, 100, 10, "rest"), _rect(0, 0, max(wide, least), 10, style) if wide else None)
    attributes = 'class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"'
    return Html(f"<svg {attributes}>{inner}</svg>")


def nice(low: float, high: float, about: int, whole: bool = False) -> list[float]:
    """Round numbers over [low, high], some ``about`` of them; from the first below to the last not beyond."""
    if high <= low:
        return [low, low + 1] if low == 0 else [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    step = max(1.0, math.ceil(step)) if whole else step
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20 … inside [low, high]; fewer where there are many."""
    spans = math.log10(high / low)
    steps = (1, 2, 5) if spans <= 2.2 else (1, 3) if spans <= 3.2 else (1,)
    lowest, highest = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round(spans / 6))
    found = [s * 10.0**e for e in range(lowest, highest + 1) if e % every == 0 for s in steps]
    return [v for v in found if low * 0.999 <= v <= high * 1.001]


def short(value: float) -> str:
    """A tick: 0.25, 1,200, 250 k, 3 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):,.4g} {unit}"
    return f"{value:,.6g}"


def _frame(
    said: str, across: _Scale, up: _Scale, ticks: Sequence[float], x: str, y: str, shapes: list[Html],
    share: bool = False,
) -> Html:  # fmt: skip
    bottom, right = HIGH - _BOTTOM, WIDE - _RIGHT
    out = []
    for t in ticks:
        at = up(t)
        out.append(Html(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:g}" y2="{at:g}"/>'))
        text = f"{t:.0%}".replace("%", " %") if share else short(t)
        out.append(Html(f'<text x="{_LEFT - 6}" y="{at + 3.8:g}" text-anchor="end">{text}</text>'))
    out += shapes
    out.append(Html(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'))
    marks = decades(across.low, across.high) if across.log else nice(across.low, across.high, 5)
    for t in marks or [across.low]:
        at = across(t)
        out.append(Html(f'<line class="axis" x1="{at:g}" x2="{at:g}" y1="{bottom}" y2="{bottom + 3}"/>'))
        out.append(Html(f'<text x="{at:g}" y="{bottom + 15}" text-anchor="middle">{short(t)}</text>'))
    out.append(Html(f'<text x="{right}" y="{HIGH - 3}" text-anchor="end">{escape(x)}</text>'))
    out.append(Html(f'<text x="0" y="10">{escape(y)}</text>'))
    return _svg(said, HIGH, out)


def _span(low: float, high: float, log: bool) -> float:
    return math.log(high / low) if log else high - low


def _around(low: float, high: float, limits: Sequence[Limit], log: bool, step: float) -> tuple[float, float]:
    """The ends of the number line: the data's, and the limits that leave the data room, or at least each bar."""
    for limit in sorted(limits, key=lambda li: max(low - li.at, li.at - high)):
        if log and limit.at <= 0:
            continue
        wider = min(low, limit.at), max(high, limit.at)
        now, then = _span(low, high, log), _span(*wider, log)
        if then > 0 and (now >= _ROOM * then or then <= _BARS * step):
            low, high = wider
    return low, high


def _limits(limits: Iterable[Limit], across: _Scale) -> list[Html]:
    out = []
    for i, limit in enumerate(sorted(limits, key=lambda li: li.at)):
        at, y = across(limit.at), 22 if i % 2 == 0 else 34
        anchor = "end" if at > WIDE * 0.6 else "start"
        shift = -3 if anchor == "end" else 3
        label = limit.label
        if limit.at < across.low or limit.at > across.high:
            label = f"← {label}" if limit.at < across.low else f"{label} →"
        else:
            place = f'x1="{at:g}" x2="{at:g}" y1="{y - 9}" y2="{HIGH - _BOTTOM}"'
            out.append(Html(f'<line class="limit" {place}/>'))
        data = f' data-n="{exact(limit.at)}" data-of="{escape(limit.of, 2000)}"' if limit.of else ""
        place = f'x="{at + shift:g}" y="{y}" text-anchor="{anchor}"'
        out.append(Html(f'<text class="limit" {place}{data}>{escape(label, 40)}</text>'))
    return out


def _rect(x: float, y: float, wide: float, high: float, style: str) -> Html:
    return Html(f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"/>')


def _svg(said: str, high: float, shapes: Sequence[Html]) -> Html:
    label = escape(said, 300)
    head = f'<svg class="chart" role="img" viewBox="0 0 {WIDE} {high:g}" aria-label="{label}">'
    return Html(
        f"{head}<title>{label}</title><desc>{label}. The table below has every number.</desc>{join(*shapes)}</svg>"
    )
