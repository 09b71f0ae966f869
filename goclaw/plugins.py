"""How a line of the catalogue becomes an object."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TypeVar

from goclaw.errors import ConfigError

PartT = TypeVar("PartT")

GROUP = "goclaw.plugins"
"""Entry-point group for third-party parts; a name reads `tools.weather`, `channels.matrix`, `commands.deploy` …"""


def load(path: str, kind: type[PartT]) -> PartT:
    """Import the object that `path` (`package.module:attribute`) names.

    Raises:
        ConfigError: it cannot be imported, or is not a `kind`; the message names the path.
    """
    try:
        found = resolve_name(path)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{path}: cannot be loaded: {error}") from error
    if not isinstance(found, kind):
        raise ConfigError(f"{path} is a {type(found).__name__}, not a {kind.__name__}")
    return found


def third_party(section: str) -> Mapping[str, str]:
    """Names and paths that installed packages add to a section of the catalogue (`tools`, `commands` …)."""
    prefix = f"{section}."
    return {
        point.name.removeprefix(prefix): point.value
        for point in entry_points(group=GROUP)
        if point.name.startswith(prefix)
    }
