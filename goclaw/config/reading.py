"""One key of the configuration, or a section, as text without secrets."""

import re
from collections.abc import Iterator
from typing import Any

import orjson
from pydantic import BaseModel, SecretStr

from goclaw.config.document import HIDDEN
from goclaw.config.keys import closest
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.redact import mask

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)$", re.IGNORECASE)
_FOREIGN = ("channels",)
"""Sections with keys of packages: which of them are secrets is not known here."""


def shown(config: Config, dotted: str) -> str:
    """Return `key: value`, of a section a line for each key in it.

    Raises:
        ToolError: there is no such key.
    """
    value: Any = config
    path: list[str] = []
    for name in dotted.split("."):
        names = _names(value)
        if name not in names:
            meant = closest(name, sorted(names))
            inside = f" in {'.'.join(path)}" if path else ""
            hint = f"; did you mean {meant}?" if meant else f"; there are: {', '.join(sorted(names)) or 'none'}"
            raise ToolError(f"no key {name[:100]!r}{inside}{hint}")
        path.append(name)
        value = getattr(value, name) if isinstance(value, BaseModel) else value[name]
    return "\n".join(_lines(value, tuple(path)))


def plain(config: Config, dotted: str) -> Any:
    """Return the value of a single, non-secret key; see `changing.CHANGEABLE`."""
    value: Any = config
    for name in dotted.split("."):
        value = getattr(value, name)
    return value


def _names(value: Any) -> set[str]:
    if isinstance(value, BaseModel):
        return set(type(value).model_fields)
    return set(value) if isinstance(value, dict) else set()


def _lines(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if path[0] in _FOREIGN and (value or len(path) > 1):
        yield f"{'.'.join(path)}: {HIDDEN}"
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _lines(getattr(value, name), (*path, name))
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _lines(inner, (*path, str(name)))
    else:
        hidden = _SECRET_NAME.search(path[-1]) and isinstance(value, str | SecretStr)
        yield f"{'.'.join(path)}: {HIDDEN if hidden else mask(orjson.dumps(value, default=_plain).decode())}"


def _plain(value: Any) -> Any:
    """Convert a value that JSON has no type for."""
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, BaseModel):
        return {
            name: HIDDEN if _SECRET_NAME.search(name) and isinstance(inner, str) else inner for name, inner in value
        }
    return str(value)
