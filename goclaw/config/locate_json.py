"""Positions of values in a JSON text; finds duplicate keys, which Python's reader takes silently."""

import json
import re
from bisect import bisect_right
from typing import Any

from goclaw.config.keys import Loc
from goclaw.config.locate import Located

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def parse_json(text: str) -> Located:
    """Return values, positions and problems of a JSON text; an empty text is a problem."""
    located = Located()
    try:
        located.value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        located.problems.append((f"{error.lineno}:{error.colno}", (), f"not JSON: {_remedy(error, text)}"))
    except (ValueError, RecursionError):
        located.problems.append(("1:1", (), "not JSON that can be used: NaN, an endless number, or nested too deeply"))
    else:
        _walk(text, located)
    return located


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _remedy(error: json.JSONDecodeError, text: str) -> str:
    if not text.strip():
        return "the file is empty"
    if error.pos >= len(text.rstrip()):
        return "the file ends in the middle"
    if error.msg.startswith("Expecting property name") or error.msg.startswith("Illegal trailing comma"):
        return "a key in double quotes should follow; remove a comma before `}`"
    if text[error.pos :].startswith("//") or text[error.pos] == "#":
        return "comments are not allowed"
    return error.msg[0].lower() + error.msg[1:]


def _walk(text: str, located: Located) -> None:
    """Follow the pieces of a text that is known to be JSON."""
    spot = _Spots(text)
    loc: list[str | int] = []
    containers: list[str] = []
    expects_key = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece in "]}":
            containers.pop()
            loc.pop()
            expects_key = False
        elif piece == ",":
            expects_key = containers[-1] == "{"
            if not expects_key:
                loc[-1] = int(loc[-1]) + 1
        elif piece == ":":
            expects_key = False
        elif expects_key:
            loc[-1] = json.loads(piece)
            _note_key(tuple(loc), spot(match.start()), located)
        else:
            located.places.setdefault(tuple(loc), spot(match.start()))
            if piece in "[{":
                containers.append(piece)
                loc.append("" if piece == "{" else 0)
                expects_key = piece == "{"


def _note_key(loc: Loc, spot: str, located: Located) -> None:
    if loc in located.places:
        first = located.places[loc]
        located.problems.append((spot, loc, f"duplicate key; it is also set at {first}, keep one of them"))
    located.places[loc] = spot


class _Spots:
    """From an offset in a text to `line:column`, without counting the lines anew each time."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def __call__(self, offset: int) -> str:
        line = bisect_right(self._starts, offset)
        return f"{line}:{offset - self._starts[line - 1] + 1}"
