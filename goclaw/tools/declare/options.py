"""The options of a declaration: small values, each of a type that names the functions it may stand in.

An option does nothing by itself. A declaration collects its options, and refuses duplicates and misplaced ones: a
dropped limit or question would look like one that holds.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ClassVar, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from goclaw.common.config.agents import RunPolicySettings
from goclaw.tools.mcp.declared import DeclaredPrompt, Notification, Resource
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import AgentPart, RegistryPart, ToolsetPart

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
        ValueError: an argument is of another type; the message names the function, the argument and the type.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        for name, value in signature.bind(*given, **named).arguments.items():
            parameter, expected = signature.parameters[name], _checks(function).get(name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                several = value if parameter.annotation is str else ()
            else:
                several = (value,) if parameter.kind is not parameter.VAR_KEYWORD else ()
            for each in several:
                if expected and not type(each).__module__.startswith("goclaw.") and not _fits(expected, each):
                    wanted = _MODULES.sub("", inspect.formatannotation(parameter.annotation)).strip("'")
                    raise ValueError(f"{function.__name__}: {name} must be {wanted}, not {repr(each)[:80]}")
        return function(*given, **named)

    return checked


@cache
def _checks(function: Callable[..., Any]) -> Mapping[str, TypeAdapter[Any]]:
    """Return what checks each argument; nothing for one of any type, or of a type of the language."""
    found = {}
    for name, hint in get_type_hints(function).items():
        with suppress(PydanticUserError):
            found[name] = TypeAdapter(hint)
    return found


def _fits(expected: TypeAdapter[Any], value: Any) -> bool:
    try:
        expected.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


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
