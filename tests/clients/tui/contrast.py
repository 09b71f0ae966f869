"""How well the words on a screen can be read: the contrast of each with what is behind it."""

import re
from html import unescape
from typing import Any

from textual.app import App
from textual.color import Color

_RULE = re.compile(r"\.([\w-]+-r\d+) \{ fill: (#\w+)")
_RECT = re.compile(r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"')
_TEXT = re.compile(r'<text class="([\w-]+-r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')
_LETTERS = re.compile(r"\w")


def contrasts(app: "App[Any]") -> dict[str, float]:
    """The lowest contrast of each piece of text that has letters or digits, as WCAG 2 counts it (1 to 21)."""
    picture = app.export_screenshot(simplify=True)
    colors = dict(_RULE.findall(picture))
    rects = [(color, *(float(part) for part in place)) for color, *place in _RECT.findall(picture)]
    found: dict[str, float] = {}
    for style, x, y, escaped in _TEXT.findall(picture):
        words = unescape(escaped).replace("\xa0", " ").strip()
        if not _LETTERS.search(words):
            continue
        behind = [color for color, *place in rects if _covers(float(x), float(y), *place)]
        if behind:
            found[words] = min(found.get(words, 21.0), _ratio(colors[style], behind[-1]))
    return found


def _covers(x: float, y: float, left: float, top: float, width: float, height: float) -> bool:
    """Whether a rectangle is behind the text at `x`, whose line ends a little below `y`."""
    return left - 1 <= x < left + width and top < y <= top + height


def _ratio(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(name: str) -> float:
    shares = Color.parse(name).normalized
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
