"""Turns errors of pydantic into lines for people: where, which key, the fault, the remedy.

Texts are never repeated in a message: a value at the wrong key may well be a secret.
"""

from collections.abc import Callable

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from goclaw.common.config.keys import Loc, child_kind, closest, is_secret, keys, kind_at, names_in
from goclaw.common.config.values import LISTED, MAPPED
from goclaw.common.core.catalog import ALIASES

Place = Callable[[Loc], str]
"""A function that returns where a value was set: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`."""

_MAX_PLACES = 3
"""Sections with a key of that name that are named."""
_ALIKE, _ALL_BUT_THE_SAME = 0.6, 0.8
"""How alike a key must be that was probably meant, from 0 to 1: where nothing else is known, and where another section
has a key of just that name."""
FORMS = (LISTED, MAPPED)
"""Prefixes by pydantic where a value may be written in two forms (`values.Groups`)."""
MAX_PROBLEMS = 100
"""Problems of one file that are worded: beyond that it is the wrong file."""

_WHOLE = "should be a whole number"
_NUMBER = "should be a number"
_SWITCH = "should be true or false"
_LIST = "should be a list"
_MAPPING = "should be a mapping (`key: value`, one per line)"
_EXPECTED = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "string_type": "should be text",
    "path_type": "should be a path",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "missing": "is missing",
}
_LIMITS = {
    "greater_than": "should be more than {gt}",
    "greater_than_equal": "should be at least {ge}",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be at most {le}",
}
_JSON_TYPES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def problem_lines(error: ValidationError, model: type[BaseModel], place: Place) -> list[str]:
    """Format one line `place: key: problem and remedy` for each value at fault, in the order of the schema."""
    lines: dict[Loc, str] = {}
    for details in error.errors(include_url=False)[:MAX_PROBLEMS]:
        loc = _real(details["loc"], model)
        if loc not in lines:
            lines[loc] = problem_line(place(loc), loc, _message(details, loc, model))
    return list(lines.values())


def problem_line(place: str, loc: Loc, message: str) -> str:
    """Format one problem for people."""
    return f"{place}: {format_location(loc)}: {message}" if loc else f"{place}: {message}"


def format_location(loc: Loc) -> str:
    """Format `("models", "agent", 0)` as `models.agent[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def unknown_key(loc: Loc, model: type[BaseModel]) -> str:
    """Describe a key that the schema does not have; of a path with several the first."""
    while len(loc) > 1 and kind_at(model, loc[:-1]) is None:
        loc = loc[:-1]
    if loc == ("tools", "enabled"):
        return "unknown key; `tools.disabled` turns tools off by name (`[ask_user]` for `clarify_disabled`)"
    name, container = str(loc[-1]), kind_at(model, loc[:-1])
    known = names_in(container)
    if (tool := ALIASES.get(name, "")) in known:  # a tool's name in other systems
        return f"unknown key; did you mean `{format_location((*loc[:-1], tool))}`?"
    elsewhere = [key.dotted for key in keys(model) if key.path[-1] == name]
    is_elsewhere = 0 < len(elsewhere) <= _MAX_PLACES
    # A name that is right in another place was meant for that, unless one here is all but the same.
    if meant := closest(name, known, _ALL_BUT_THE_SAME if is_elsewhere else _ALIKE):
        return f"unknown key; did you mean `{meant}`?"
    if is_elsewhere:
        return f"unknown key here; did you mean {' or '.join(f'`{place}`' for place in elsewhere)}?"
    return f"unknown key; known here: {', '.join(known)}"


def json_type(value: object) -> str:
    """Return a value's type in the words of YAML and JSON."""
    return _JSON_TYPES.get(type(value), "nothing" if value is None else type(value).__name__)


def _message(details: ErrorDetails, loc: Loc, model: type[BaseModel]) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(loc, model)
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context) + (f", not {value}" if _may_show(value) else "")
    if kind == "literal_error":
        return _choice(str(context["expected"]), value)
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    expected = _EXPECTED.get(kind, "is not valid here")
    if loc[:2] == ("models", "summary") and len(loc) == 2:
        expected = "should be `auto` or a list of `provider:name`"
    if kind == "missing" or isinstance(value, str):
        return expected
    is_text = kind == "string_type" and isinstance(value, (int, float))
    hint = "; put it in quotes" if is_text else ""
    shown = f" ({value})" if _may_show(value) and not is_secret(kind_at(model, loc)) else ""
    return f"{expected}, not {json_type(value)}{shown}{hint}"


def _choice(expected: str, value: object) -> str:
    choices = expected.replace(" or ", ", ").replace("''", '""').replace("'", "").split(", ")
    meant = closest(value, choices) if isinstance(value, str) else None
    listed = f"should be one of {', '.join(choices)}"
    return f"{listed}; did you mean `{meant}`?" if meant else listed


def _may_show(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _real(loc: Loc, model: type[BaseModel]) -> Loc:
    """Return the location without what pydantic adds of its own: the members of a union, `[key]`."""
    real: list[str | int] = []
    kind: object = model
    for part in loc:
        if part == "[key]":
            break
        if part in FORMS:
            continue
        inner = child_kind(kind, part)
        if isinstance(part, str) and inner is None and not names_in(kind):
            continue
        real.append(part)
        kind = inner
    return tuple(real)
