"""Short texts about calls, as Jinja templates: hints, questions, texts of denials.

A template may use the tool's declared names and nothing else. It is checked when the tool is declared and compiled when
it is first used. Those of the built-in tools are checked by the tests: the engine (3 MB) is loaded with the first call.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache
from typing import Any

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load_large
from goclaw.common.core.records import record

Rendered = Callable[..., str]
"""From values by name to text; raises ValueError where it cannot be made of them."""
HINT_LENGTH = 140
"""Characters of a hint's template, and of its rendered text (Goa-AI, CallHintTemplate)."""
_ARGUMENT_LENGTH = 2_000
"""Characters of one value that a hint may look at."""


@record
class TemplateEngine:
    """A template engine: the functions to read and compile templates."""

    names: Callable[[str], set[str]]
    """Return the names that a template uses; raises ValueError for an invalid one."""
    compiled: Callable[[str], Rendered]


def check(text: str, names: Collection[str], where: str, longest: int = HINT_LENGTH) -> str:
    """Check that the template is valid and uses known names only, and return it.

    Raises:
        ValueError: it is not, or it is too long; the message names `where`.
    """
    if len(text) > longest:
        raise ValueError(f"{where}: {len(text)} characters, at most {longest}")
    try:
        used = _engine().names(text)
        _compile(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if unknown := used - set(names):
        raise ValueError(f"{where} names {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return text


def rendered(text: str, values: Mapping[str, Any]) -> str:
    """Render `check`ed text with these values.

    Raises:
        ValueError: the values do not fit.
    """
    return _compile(text)(**values)


def hint(text: str, values: Mapping[str, Any]) -> str:
    """Return one line for people, at most `HINT_LENGTH` characters; empty on an error: a hint stops nothing."""
    if not text:
        return ""
    try:
        line = " ".join(rendered(text, {name: _brief(value) for name, value in values.items()}).split())
    except ValueError:
        return ""
    return line if len(line) <= HINT_LENGTH else f"{line[: HINT_LENGTH - 1]}…"


async def engine_ready() -> None:
    """Load the engine in a thread, unless it is loaded: its import would hold up the event loop."""
    if not _engine.cache_info().currsize:
        await asyncio.to_thread(_engine)


@cache
def _engine() -> TemplateEngine:
    return load_large(catalog.TEMPLATES["jinja"], TemplateEngine)


@lru_cache(maxsize=512)
def _compile(text: str) -> Rendered:
    return _engine().compiled(text)


def _brief(value: Any) -> Any:
    return value[:_ARGUMENT_LENGTH] if isinstance(value, str) else value
