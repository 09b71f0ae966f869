"""JSON as models write it: read where it has exactly one meaning.

Taken are a comma before a closing bracket, raw line breaks in a string, an object encoded twice, braces doubled as in a
template, and Python's spelling (single quotes, `True`). A name that stands twice in an object has two meanings.
"""

import ast
import json
import re
from typing import Any

import orjson

MAX_CHARS = 1_000_000
"""Characters of a text that is read leniently."""
MAX_PYTHON = 20_000
"""The same in Python's spelling, whose parser is slow."""
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{}\[\]]', re.DOTALL)
_STRINGS_ONLY = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}


class Unreadable(ValueError):
    """A text is no JSON, or has more than one meaning."""


def load_json(text: str | bytes) -> Any:
    """Return the value of a text by the standard alone; None where it is no JSON, or null."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def parse(text: str) -> Any:
    """Return the value that a text stands for.

    Raises:
        Unreadable: it has none, or several.
    """
    value = _parse(text.strip())
    # Encoded once more: the inside is an object or a list, else the string is what is meant.
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        try:
            inner = _parse(value.strip())
        except Unreadable:
            return value
        return inner if isinstance(inner, dict | list) else value
    return value


def _parse(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    attempts = [text, _TRAILING.sub(lambda found: found.group(1) or "", text)]
    if text.startswith("{{") and text.endswith("}}"):
        attempts += [text[1:-1], text.replace("{{", "{").replace("}}", "}")]
    for attempt in attempts:
        try:
            return json.loads(attempt, strict=False, object_pairs_hook=_object, parse_constant=_constant)
        except Unreadable:
            raise
        except (ValueError, RecursionError):
            continue
    return _python(text)


def _python(text: str) -> Any:
    if text[:1] not in ("{", "[") or len(text) > MAX_PYTHON:
        raise Unreadable("no JSON")
    try:
        node = ast.parse(text, mode="eval").body
        for each in ast.walk(node):
            if isinstance(each, ast.Dict):
                _object([(key.value if isinstance(key, ast.Constant) else key, None) for key in each.keys])
        value = ast.literal_eval(node)
        return orjson.loads(orjson.dumps(value))  # no tuples, bytes and sets
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise Unreadable("no JSON") from error


def _object(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a name stands twice")
    return found


def _constant(name: str) -> Any:
    raise Unreadable(f"{name} is no JSON")


def end_of(text: str, start: int) -> int:
    """Return the position after the object or list that begins at `start`; -1: it has no end."""
    for tokens in (_STRINGS_ONLY, _TOKENS):
        open_brackets: list[str] = []
        for found in tokens.finditer(text, start):
            token = found.group()
            if token in _CLOSING:
                open_brackets.append(_CLOSING[token])
            elif token in ("}", "]"):
                if not open_brackets or open_brackets.pop() != token:
                    break
                if not open_brackets:
                    return found.end()
    return -1
