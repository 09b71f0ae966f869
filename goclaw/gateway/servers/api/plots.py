"""Plots as SVG, written by hand: bars of sums, and a line over time.

A picture of its own for each theme, without style sheet or script, so that a page shows it by `<img>`. Title and
description are for screen readers. All texts are escaped: names of models and persons are chosen by others.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Literal

from goclaw.common.core.records import record
from goclaw.memory.dates import moment

Theme = Literal["light", "dark"]
Bar = tuple[str, float]
MEDIA_TYPE = "image/svg+xml"
WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 34
MAX_BARS = 12
"""Bars with a name each; the rest is one bar."""
MAX_LABEL = 26
ROW = 28
NAMES = 190
"""Pixels for the names next to bars."""
TICKS = 4
_FONT = 'font-family="system-ui, sans-serif" font-size="12"'


@record
class _Colours:
    text: str
    quiet: str
    grid: str
    data: str
    soft: str


_COLOURS: Mapping[Theme, _Colours] = {
    "light": _Colours("#1b1f24", "#57606a", "#d8dee4", "#2f6feb", "#dbe7ff"),
    "dark": _Colours("#e6edf3", "#9198a1", "#30363d", "#6ea8fe", "#1d2f4f"),
}


@record
class PlotWords:
    """The words of a plot about itself, and how its numbers read."""

    title: str
    description: str
    amount: Callable[[float], str]


def columns(words: PlotWords, bars: Sequence[Bar], theme: Theme) -> str:
    """Return columns side by side, one for each day; labels are ISO dates."""
    colours = _COLOURS[theme]
    top = _ceiling(max((value for _, value in bars), default=0.0))
    step = (WIDTH - LEFT - RIGHT) / max(len(bars), 1)
    parts = list(_grid(words, top, colours))
    for at, (label, value) in enumerate(bars):
        height = (HEIGHT - TOP - BOTTOM) * value / top
        x, y = LEFT + at * step + step * 0.12, HEIGHT - BOTTOM - height
        said = _escape(f"{label}: {words.amount(value)}")
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.76:.1f}" height="{height:.1f}" rx="2" '
            f'fill="{colours.data}"><title>{said}</title></rect>'
        )
    every = max(1, math.ceil(len(bars) / 6))
    for at in range(0, len(bars), every):
        parts.append(_text(LEFT + (at + 0.5) * step, HEIGHT - BOTTOM + 18, bars[at][0][5:], colours.quiet, "middle"))
    return _picture(words, HEIGHT, colours, parts, empty=not any(value for _, value in bars))


def rows(words: PlotWords, bars: Sequence[Bar], theme: Theme) -> str:
    """Return bars below each other with their names, in the given order; those beyond `MAX_BARS` are one."""
    colours = _COLOURS[theme]
    shown = [*bars[:MAX_BARS], *([("others", sum(value for _, value in bars[MAX_BARS:]))] if bars[MAX_BARS:] else [])]
    most = max((value for _, value in shown), default=0.0) or 1.0
    room = WIDTH - NAMES - RIGHT - 70
    parts = []
    for at, (label, value) in enumerate(shown):
        y, length = TOP + 8 + at * ROW, room * value / most
        name = label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
        said = _escape(f"{label}: {words.amount(value)}")
        parts.append(_text(NAMES - 8, y + 14, name or "(forgotten)", colours.text, "end"))
        parts.append(
            f'<rect x="{NAMES}" y="{y}" width="{max(length, 1):.1f}" height="18" rx="3" '
            f'fill="{colours.data}"><title>{said}</title></rect>'
        )
        parts.append(_text(NAMES + length + 8, y + 14, words.amount(value), colours.quiet, "start"))
    height = max(TOP + 16 + len(shown) * ROW, 120)
    return _picture(words, height, colours, parts, empty=not shown)


def line(words: PlotWords, points: Sequence[tuple[float, float]], theme: Theme) -> str:
    """Return a line over moments in epoch seconds."""
    colours = _COLOURS[theme]
    top = _ceiling(max((value for _, value in points), default=0.0))
    parts = list(_grid(words, top, colours))
    if points:
        first, last = points[0][0], points[-1][0]
        span = max(last - first, 1.0)
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        places = [(LEFT + width * (at - first) / span, HEIGHT - BOTTOM - height * value / top) for at, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        ground = HEIGHT - BOTTOM
        area = f"{places[0][0]:.1f},{ground} {path} {places[-1][0]:.1f},{ground}"
        parts.append(f'<polygon points="{area}" fill="{colours.soft}"/>')
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colours.data}" stroke-width="2" stroke-linejoin="round"/>'
        )
        parts.append(f'<circle cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="3" fill="{colours.data}"/>')
        for at in range(5):
            when, anchor = first + span * at / 4, ("start", "middle", "middle", "middle", "end")[at]
            parts.append(_text(LEFT + width * at / 4, ground + 18, f"{moment(when):%H:%M}", colours.quiet, anchor))
    return _picture(words, HEIGHT, colours, parts, empty=not points)


def dollars(value: float) -> str:
    """Return an amount of money as people read it."""
    return f"${value:,.0f}" if value >= 100 else f"${value:.2f}" if value >= 0.1 or not value else f"${value:.4f}"


def count(value: float) -> str:
    """Return a large number in short."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def milliseconds(value: float) -> str:
    """Return a delay."""
    return f"{value:.3g} ms"


def megabytes(value: float) -> str:
    """Return a size of memory."""
    return f"{value:,.0f} MB"


def _grid(words: PlotWords, top: float, colours: _Colours) -> Iterator[str]:
    for at in range(TICKS + 1):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * at / TICKS
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{colours.grid}"/>'
        yield _text(LEFT - 8, y + 4, words.amount(top * at / TICKS), colours.quiet, "end")


def _ceiling(value: float) -> float:
    """Return the end of an axis with four steps of round numbers."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(each * size for each in (1, 2, 4, 8, 10) if each * size >= value * (1 - 1e-9))


def _text(x: float, y: float, words: str, colour: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{_escape(words)}</text>'


def _escape(words: str) -> str:
    """Return a text for XML, without what no XML may have."""
    return escape("".join(each if each.isprintable() else "\ufffd" for each in words))


def _picture(words: PlotWords, height: int, colours: _Colours, parts: Sequence[str], *, empty: bool) -> str:
    if empty:
        parts = [_text(WIDTH / 2, height / 2 + 8, "nothing yet", colours.quiet, "middle")]
    title = f'<text x="0" y="16" fill="{colours.text}" font-weight="600" font-size="13">{_escape(words.title)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="title description" {_FONT}>'
        f'<title id="title">{_escape(words.title)}</title>'
        f'<desc id="description">{_escape(words.description)}</desc>'
        f"{title}{''.join(parts)}</svg>\n"
    )
