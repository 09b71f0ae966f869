"""The options of a declaration: small values, each of a type that names the functions it may stand in.

An option does nothing by itself. A declaration collects its options, and refuses duplicates and misplaced ones: a
dropped limit or question would look like one that holds.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ClassVar, Unpack, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from goclaw.common.config.agents import RunPolicySettings
from goclaw.common.config.keys import closest
from goclaw.tools.mcp.declared import DeclaredPrompt, Notification, Resource
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import AgentPart, RegistryPart, ServerPart, ToolsetPart

_MODULES = re.compile(r"\b[a-z_]+(?:\.[a-z_]+)*\.(?=[A-Z])")


@dataclass(frozen=True)
class Option:
    """A word with its value."""

    forms: ClassVar[tuple[str, ...]] = ()
    """The functions in which it may stand."""
    word: str
    value: Any

    def __init_subclass__(cls, forms: tuple[str, ...]) -> None:
        cls.forms = forms


class ToolOption(Option, forms=("tool",)):
    """Stands in `tool`."""


class ToolsetOption(Option, forms=("toolset",)):
    """Stands in `toolset`."""


class ExportOption(Option, forms=("export",)):
    """Stands in `export`."""


class RegistryOption(Option, forms=("registry",)):
    """Stands in `registry`."""


class PublishOption(ToolsetOption, ExportOption, forms=("toolset", "export")):
    """An option of `toolset` and `export`: the settings for publishing to registries."""


class LabelOption(ToolOption, ToolsetOption, ExportOption, forms=("tool", "toolset", "export")):
    """Stands wherever tools are described."""


class TextOption(ToolsetOption, ExportOption, RegistryOption, forms=("toolset", "export", "registry")):
    """Stands where something has a description of its own."""


SEVERAL = frozenset({"tags", "artifact", "publish_to"})
"""Words that add up; of all others one is enough."""
_WITHIN = {
    "default_caps": "run_policy",
    "timing": "run_policy",
    "history": "run_policy",
    "cache": "run_policy",
    "federation": "registry",
}
"""Functions that stand in another one alone."""
_PLACES: dict[type, tuple[str, tuple[str, ...]]] = {
    RunPolicySettings: ("run_policy", ("agent",)),
    ToolsetPart: ("a toolset", ("use", "export")),
    Tool: ("a tool made by @tool", ("toolset", "use")),
    RegistryPart: ("a registry", ("from_registry", "publish_to")),
    AgentPart: ("an agent", ()),
    ServerPart: ("an MCP server", ()),
    Resource: ("a resource", ("mcp_server",)),
    DeclaredPrompt: ("a prompt of an MCP server", ("mcp_server",)),
    Notification: ("a notification", ("mcp_server",)),
}
"""The name of each type that is not an `Option`, and the functions in which it may stand."""


@cache
def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its arguments checked against its annotations, at each call.

    A wrong type would otherwise fail where the declaration is built, in words of a library and far from its line.
    Parts of the language are left to `refuse_leftovers`, which knows where each belongs.

    Raises:
        ValueError: an argument is unknown, missing, of another type, or cannot have that value; the message names the
            function and the argument.
    """
    signature, name = inspect.signature(function), function.__name__

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        hints = _hints(function)
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            raise ValueError(f"{name}: {error}{_guess(named, hints)}") from None
        for argument, value in _each(bound):
            if argument not in hints:
                raise ValueError(f"{name}: got an unexpected keyword argument '{argument}'{_guess(named, hints)}")
            if not type(value).__module__.startswith("goclaw.") and not _fits(function, argument, value):
                wanted = _MODULES.sub("", inspect.formatannotation(hints[argument])).strip("'")
                raise ValueError(f"{name}: {argument} must be {wanted}, not {repr(value)[:80]}")
        try:
            return function(*given, **named)
        except ValidationError as error:
            where = given[0] if given and isinstance(given[0], str) else name
            raise ValueError(f"{where}: {_explain(error)}") from None

    return checked


def _each(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Yield every argument; of the positional ones behind `*` only texts, for the others are parts of the language."""
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield from ((name, each) for each in value if parameter.annotation is str)
        elif parameter.kind is parameter.VAR_KEYWORD:
            own_names = get_origin(parameter.annotation) is Unpack
            yield from value.items() if own_names else ((name, each) for each in value.values())
        else:
            yield name, value


@cache
def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotation of each argument, those of a `TypedDict` of keywords among them."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        keywords = get_args(hint)[0] if get_origin(hint) is Unpack else None
        found |= get_type_hints(keywords, include_extras=True) if keywords else {name: hint}
    return found


@cache
def _check(function: Callable[..., Any], argument: str) -> TypeAdapter[Any] | None:
    """Return what checks an argument; None for types of the language."""
    with suppress(PydanticUserError):
        return TypeAdapter(_hints(function)[argument])
    return None


def _fits(function: Callable[..., Any], argument: str, value: Any) -> bool:
    try:
        if expected := _check(function, argument):
            expected.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _guess(named: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the hint for a misspelt keyword; empty if none is near."""
    meant = next((closest(each, list(known)) for each in named if each not in known), None)
    return f"; did you mean {meant}?" if meant else ""


def _explain(error: ValidationError) -> str:
    """Return the errors of a library in sentences, each with the key it is about."""
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))} {each['msg'].removeprefix('Value error, ')}" for each in details
    )


def refuse_leftovers(parts: Iterable[Any], kinds: type | tuple[type, ...], where: str, form: str) -> None:
    """Check that everything said in `form` is of a kind that belongs there.

    Args:
        parts: the given parts.
        kinds: the types that may stand in it.
        where: the name of the declaration, for the message.
        form: the function, such as `agent`.

    Raises:
        ValueError: something is left over; the message names it and its function.
    """
    for part in parts:
        if isinstance(part, kinds):
            continue
        word, forms = _place(part)
        if not forms:
            raise ValueError(f"{where}: {word} is nothing that {form}(…) takes")
        stands = " or ".join(dict.fromkeys(f"{_outermost(each, form)}(…)" for each in forms))
        raise ValueError(f"{where}: {word} stands in {stands}, not in {form}(…)")


def _place(part: Any) -> tuple[str, tuple[str, ...]]:
    """Return a part's name, and the functions it may stand in; none: it is not part of the language."""
    if (found := _PLACES.get(type(part))) is not None:
        return found
    forms: tuple[str, ...] = getattr(part, "forms", ())
    return (part.word, forms) if forms else (repr(part)[:80], ())


def _outermost(form: str, present: str) -> str:
    """Return the function to name for a word of `form` in `present`: the outermost that is not there already."""
    outer = _WITHIN.get(form)
    return form if outer is None or outer in (present, _WITHIN.get(present)) else outer


def collect(options: Iterable[Option], where: str) -> dict[str, Any]:
    """Return the values by their words; repeatable ones as tuples.

    Raises:
        ValueError: a word is said twice.
    """
    found: dict[str, Any] = {}
    for option in options:
        if option.word in SEVERAL:
            found[option.word] = (*found.get(option.word, ()), *option.value)
        elif option.word in found:
            raise ValueError(f"{where}: {option.word} is said twice")
        else:
            found[option.word] = option.value
    return found


def description(text: str) -> TextOption:
    """Set the description of a toolset, an export or a registry."""
    return TextOption("description", text)


def tags(*values: str) -> LabelOption:
    """Set labels that policies and selections choose tools by (`tag:x`)."""
    return LabelOption("tags", values)
