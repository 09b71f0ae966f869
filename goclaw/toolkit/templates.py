"""Short texts about calls, as Jinja templates: hints, questions, what is read of a denial.

A template may use what the tool declares and nothing else. It is checked when the tool is declared and compiled when
it is first used.
"""

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

HINT_LENGTH = 140
"""Characters of a hint's template, and of what is made of it (Goa-AI, CallHintTemplate)."""
_ARGUMENT_LENGTH = 2_000
"""Characters of one value that a hint may look at."""


def _quote(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
_ENVIRONMENT.filters = {
    name: _ENVIRONMENT.filters[name] for name in ("join", "count", "truncate", "default", "lower", "upper", "first")
} | {"json": _json, "quote": _quote}


def check(text: str, names: Collection[str], where: str, longest: int = HINT_LENGTH) -> str:
    """The template, which is one and uses known names only.

    Raises:
        ValueError: it is not, or it is too long; the message names `where`.
    """
    if len(text) > longest:
        raise ValueError(f"{where}: {len(text)} characters, at most {longest}")
    try:
        parsed = _ENVIRONMENT.parse(text)
        used = meta.find_undeclared_variables(parsed)
        _compiled(text)
    except TemplateError as error:
        raise ValueError(f"{where}: {error}") from error
    if any(meta.find_referenced_templates(parsed)):
        raise ValueError(f"{where}: there is no other template to take in")
    if unknown := used - set(names):
        raise ValueError(f"{where} names {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return text


def rendered(text: str, values: Mapping[str, Any]) -> str:
    """What `check`ed text becomes with these values.

    Raises:
        ValueError: it cannot be made of them.
    """
    try:
        return _compiled(text).render(values)
    except (TemplateError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        raise ValueError(f"template {text!r}: {error}") from error


def hint(text: str, values: Mapping[str, Any]) -> str:
    """One line for people, at most `HINT_LENGTH` characters; empty if it cannot be made: a hint stops nothing."""
    if not text:
        return ""
    try:
        line = " ".join(rendered(text, {name: _brief(value) for name, value in values.items()}).split())
    except ValueError:
        return ""
    return line if len(line) <= HINT_LENGTH else f"{line[: HINT_LENGTH - 1]}…"


@lru_cache(maxsize=512)
def _compiled(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


def _brief(value: Any) -> Any:
    return value[:_ARGUMENT_LENGTH] if isinstance(value, str) else value
