"""Arguments and names that are wrong in form only, put right where exactly one reading fits the schema.

Models write `"20"` for 20, a list as a JSON text, `functions.exec` for `exec`. Rights, hooks, approvals and the journal
see the call as it is read here. What may mean two things stays, and the validation reports it.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from goclaw.llm.base import INVALID_JSON
from goclaw.llm.lenient_json import Unreadable, parse
from goclaw.tools.toolkit.arguments import JSON_TYPES, parse_arguments, with_own_names

ROUNDS = 3
"""Rounds of repairs: a list in a text may hold objects in texts."""
ALIKE = 0.85
"""Similarity from which a name is taken for another one (`difflib`)."""
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})\Z")
_TRUTH = {"true": True, "True": True, "false": False, "False": False}
_PREFIX = re.compile(r"(?:functions?|default_api|tools?|api|namespace)[.:/]", re.IGNORECASE)
_SUFFIX = re.compile(r"<[|｜].*|:\d+\Z", re.DOTALL)
_FILLERS = frozenset({"file", "tool", "command", "function", "call", "run", "do", "the", "a"})
"""Words that models add to a tool's name: `write_file`."""


def repair(model: type[BaseModel], given: Any) -> Any:
    """Return the arguments with mere errors of form corrected; `given` itself where nothing is or can be corrected."""
    if not isinstance(given, dict) or INVALID_JSON in given or not _may_be_wrong(model, given):
        return given
    found: Any = with_own_names(model, given)
    for _ in range(ROUNDS):
        errors = _errors(model, found)
        if not errors:
            break
        found = _repair(found, errors)
        if found is None:
            return given
    return given if _errors(model, found) else found


def fits(model: type[BaseModel], given: Any, injected: Collection[str] = ()) -> bool:
    """Return whether arguments are valid, after repairs of their form; the injected ones come later."""
    if not isinstance(given, dict) or INVALID_JSON in given or given.keys() & set(injected):
        return False
    try:
        parse_arguments(model, repair(model, with_own_names(model, given)))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        return all(each["type"] == "missing" and each["loc"][0] in injected for each in errors)
    return True


def near_names(name: str, tools: Sequence[str]) -> list[str]:
    """Return the tools that a name may mean, of the closest sort alone: trimmed, without fillers, or misspelt."""
    plain = _SUFFIX.sub("", name.strip())
    while (prefix := _PREFIX.match(plain)) is not None:
        plain = plain[prefix.end() :]
    if not plain:
        return []
    wanted = _letters(plain)
    if same := [tool for tool in tools if _letters(tool) == wanted]:
        return same
    words = _words(plain) - _FILLERS
    if words and (filled := [tool for tool in tools if _words(tool) == words]):
        return filled
    return difflib.get_close_matches(plain.lower(), tools, n=3, cutoff=ALIKE) if len(plain) >= 4 else []


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name))


def _may_be_wrong(model: type[BaseModel], given: dict[str, Any]) -> bool:
    """Return whether an argument is a text where none may be, or holds others: all else is left to the validation."""
    texts = _text_fields(model)
    return any(
        isinstance(value, list | dict) or (isinstance(value, str) and name not in texts)
        for name, value in given.items()
    )


@lru_cache(maxsize=1_024)  # tools of MCP servers come and go
def _text_fields(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for name, field in model.model_fields.items() if str in _types(field.annotation))


def _types(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have, without those of the items in a list or an object."""
    yield annotation
    if get_origin(annotation) in (Annotated, Union, UnionType):
        for part in get_args(annotation):
            yield from _types(part)


def _errors(model: type[BaseModel], given: Any) -> list[ErrorDetails]:
    """Return the errors of the arguments, except missing ones."""
    try:
        parse_arguments(model, given)
    except ValidationError as error:
        return [each for each in error.errors(include_url=False) if each["type"] != "missing"]
    return []


def _repair(given: Any, errors: Sequence[ErrorDetails]) -> Any:
    """Return the arguments with each text read that stands for something else; None: one has no reading, or several."""
    wanted: dict[tuple[str | int, ...], set[str]] = {}
    for error in errors:
        kind = JSON_TYPES.get(error["type"], "")
        wanted.setdefault(_place(given, error["loc"]), set()).add(kind)
    for place, kinds in wanted.items():
        value = given
        for part in place:
            value = value[part]
        readings = {orjson.dumps(each): each for kind in kinds for each in _readings(value, kind)}
        if len(readings) != 1:
            return None
        given = _with(given, place, next(iter(readings.values())))
    return given


def _place(given: Any, loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the path of an error inside `given`, without the branches of unions that pydantic adds."""
    path: tuple[str | int, ...] = ()
    for part in loc:
        in_list = isinstance(given, list) and isinstance(part, int) and part < len(given)
        if in_list or (isinstance(given, dict) and part in given):
            given, path = given[part], (*path, part)
    return path


def _readings(value: Any, kind: str) -> Iterator[Any]:
    """Yield the meanings of a text as a value of that kind."""
    if not isinstance(value, str):
        return
    text = value.strip()
    if kind in ("integer", "number") and _WHOLE.match(text):
        yield int(text)
    elif kind == "boolean" and text in _TRUTH:
        yield _TRUTH[text]
    elif kind == "null" and text == "null":
        yield None
    elif kind in ("number", "array", "object"):
        try:
            found = parse(text)
        except Unreadable:
            return
        if isinstance(found, {"number": float, "array": list, "object": dict}[kind]):
            yield found


def _with(given: Any, place: Sequence[str | int], value: Any) -> Any:
    if not place:
        return value
    part, rest = place[0], place[1:]
    if isinstance(given, list) and isinstance(part, int):
        return [*given[:part], _with(given[part], rest, value), *given[part + 1 :]]
    return {**given, part: _with(given[part], rest, value)}
