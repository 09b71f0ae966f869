"""Reads YAML and JSON into plain values and remembers where in the file each of them stands.

Stricter than YAML: keys are text and may not repeat, `yes`, `no`, `on` and `off` stay text (the schema decides what
they mean: `sandbox: off` is a name, `enabled: off` a switch), and there are no aliases, tags or dates. In JSON it finds
duplicate keys, which Python's reader takes silently.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from goclaw.common.config.keys import Loc

MAX_DEPTH = 50
"""No configuration is nested deeper; the parser's time grows with the square of the depth."""
_PLAIN = "tag:yaml.org,2002:"
_SCALARS: Mapping[str, Callable[[str], object]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
}
_COLLECTIONS = frozenset({f"{_PLAIN}map", f"{_PLAIN}seq"})
NO_TAGS = "tags (`!…`) are not supported; put the value in quotes"


class _Loader(yaml.CSafeLoader):
    """Knows null, true, false and numbers; every other plain word is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 -- PyYAML's own attribute


for _name, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]{1,30}$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_PLAIN + _name, re.compile(_pattern), list(_first))


@dataclass(slots=True)
class Located:
    """A parsed file. `places` maps each location to `line:column`, counted from 1."""

    value: Any = None
    places: dict[Loc, str] = field(default_factory=dict)
    problems: list[tuple[str, Loc, str]] = field(default_factory=list)
    """`line:column`, location and message of a fault in the file itself."""


def parse_yaml(text: str) -> Located:
    """Return values, positions and problems of a YAML document; an empty one has the value None."""
    located = Located()
    try:
        if trouble := _find_fault(text):
            located.problems.append(trouble)
            return located
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        located.problems.append((_spot(mark) if mark else "1:1", (), _syntax(error, text)))
        return located
    except yaml.YAMLError:
        located.problems.append(("1:1", (), "not YAML: the file contains control characters"))
        return located
    if node is not None:
        located.value = _build(node, (), located)
    return located


def _find_fault(text: str) -> tuple[str, Loc, str] | None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if isinstance(event, yaml.AliasEvent):
            return _spot(event.start_mark), (), "aliases are not supported; write the value out, or put it in quotes"
        if depth > MAX_DEPTH:
            return _spot(event.start_mark), (), f"nested deeper than {MAX_DEPTH} levels"
        if documents > 1:
            return _spot(event.start_mark), (), "a second document begins here; remove the line `---`"
    return None


def _build(node: yaml.Node, loc: Loc, located: Located) -> object:
    located.places.setdefault(loc, _spot(node.start_mark))
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
        located.problems.append((_spot(node.start_mark), loc, NO_TAGS))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, loc, located)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*loc, index), located) for index, item in enumerate(node.value)]
    return _scalar(node, loc, located)


def _mapping(node: yaml.MappingNode, loc: Loc, located: Located) -> dict[str, object]:
    built: dict[str, object] = {}
    for key, value in node.value:
        spot = _spot(key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            located.problems.append((spot, loc, "a key should be text"))
            continue
        if key.tag.removeprefix(_PLAIN) not in _SCALARS:
            located.problems.append((spot, loc, NO_TAGS))
            continue
        inner = (*loc, key.value)
        if key.value in built:
            located.problems.append((spot, inner, _duplicate(located.places[inner])))
            continue
        located.places[inner] = spot
        built[key.value] = _build(value, inner, located)
    return built


def _scalar(node: yaml.Node, loc: Loc, located: Located) -> object:
    try:
        return _SCALARS[node.tag.removeprefix(_PLAIN)](str(node.value))
    except (KeyError, ValueError):  # the latter: an explicit tag (`!!int x`) on something else
        located.problems.append((_spot(node.start_mark), loc, NO_TAGS))
        return None


def _spot(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "cannot start any token" in str(error.problem):
        return "not YAML: indent with spaces instead of tabs, and put text with special characters in quotes"
    if "mapping values are not allowed" in str(error.problem):
        return "not YAML: a second `:` in this line; put the value in quotes, or check the indentation above"
    return f"not YAML: {error.problem or error.context}; check quotes, brackets and the indentation of this line"


_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def parse_json(text: str) -> Located:
    """Return values, positions and problems of a JSON text; an empty text is a problem."""
    located = Located()
    try:
        located.value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        located.problems.append((f"{error.lineno}:{error.colno}", (), f"not JSON: {_remedy(error, text)}"))
    except (ValueError, RecursionError):
        located.problems.append(("1:1", (), "not usable JSON: NaN, an infinite number, or nested too deeply"))
    else:
        _walk(text, located)
    return located


def _refuse(name: str) -> NoReturn:
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
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    loc: list[str | int] = []
    containers: list[str] = []
    expects_key = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        line = bisect_right(starts, match.start())
        spot = f"{line}:{match.start() - starts[line - 1] + 1}"
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
            if first := located.places.get(inner := tuple(loc)):
                located.problems.append((spot, inner, _duplicate(first)))
            located.places[inner] = spot
        else:
            located.places.setdefault(tuple(loc), spot)
            if piece in "[{":
                containers.append(piece)
                loc.append("" if piece == "{" else 0)
                expects_key = piece == "{"


def _duplicate(first: str) -> str:
    return f"duplicate key; it is also set at {first}, keep one of them"
