"""Loading of the objects that lines of the catalogue name, and of what installed packages add to them."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import TypeVar

from goclaw.common.core.records import record
from goclaw.errors import ConfigError, GoclawError

PartT = TypeVar("PartT")

API_VERSION = 1
"""Version of everything that a plugin builds on: `goclaw.declare`, `goclaw.toolkit.base`, the kinds of parts.

It grows when a plugin that was right before may no longer be. A module says the version that it was written for as
`__goclaw_api__ = 1`; one that says nothing is taken as it is.
"""
WRITTEN_FOR = "__goclaw_api__"

_HOLDS = ("tool", "declared")
"""Where a declaration (`goclaw.declare`) has its part: a tool, or what an MCP server offers."""

GROUP = "goclaw.plugins"
"""Entry-point group for third-party parts; a name reads `tools.weather`, `channels.matrix`, `commands.deploy` …"""


@record
class Plugin:
    """A line that an installed package adds to a section of the catalogue."""

    section: str
    name: str
    path: str
    package: str
    """The package with its version."""

    @property
    def title(self) -> str:
        """The plugin's name for people."""
        return f"plugin {self.section}.{self.name} ({self.package})"


def load(path: str, kind: type[PartT]) -> PartT:
    """Import the object that `path` (`package.module:attribute`) names.

    Raises:
        ConfigError: it cannot be imported, is not a `kind`, or was written for another GoClaw; the message names the
            path.
    """
    try:
        found = resolve_name(path)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{path}: cannot be loaded: {error}") from error
    if misfit := api_misfit(getattr(sys.modules.get(path.partition(":")[0]), WRITTEN_FOR, API_VERSION)):
        raise ConfigError(f"{path}: {misfit}")
    held = (getattr(found, name, None) for name in _HOLDS)
    part = found if isinstance(found, kind) else next((each for each in held if isinstance(each, kind)), None)
    if part is None:
        raise ConfigError(f"{path} is a {type(found).__name__}, not a {kind.__name__}")
    return part


def api_misfit(version: object) -> str:
    """Return why code for this version of `API_VERSION` does not work with this GoClaw; empty: it does."""
    if not isinstance(version, int):
        return f"{WRITTEN_FOR} should be a number such as {API_VERSION}, not {version!r}"
    if version == API_VERSION:
        return ""
    remedy = "upgrade GoClaw" if version > API_VERSION else "install a newer version of it"
    return f"it was written for version {version} of the plugin API, but this GoClaw has {API_VERSION}: {remedy}"


def load_large(path: str, kind: type[PartT]) -> PartT:
    """Load a part with a large library in a thread, while the event loop goes on.

    Each collection of garbage holds up every thread, and so many new objects cause many: none takes place meanwhile,
    and the loaded objects are never scanned again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return load(path, kind)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def plugins(section: str) -> Sequence[Plugin]:
    """Return what installed packages add to a section of the catalogue, sorted; names may repeat."""
    prefix = f"{section}."
    found = [
        Plugin(section, point.name.removeprefix(prefix), point.value, _package(point))
        for point in _points(tuple(sys.path))
        if point.name.startswith(prefix)
    ]
    return sorted(found, key=lambda plugin: (plugin.name, plugin.package))


def third_party(section: str) -> Mapping[str, str]:
    """Return names and paths that installed packages add to a section of the catalogue (`tools`, `commands` …)."""
    return {plugin.name: plugin.path for plugin in plugins(section)}


def load_third_party(section: str, kind: type[PartT], report: Callable[[str, str], None]) -> dict[str, PartT]:
    """Load what installed packages add to a section, by name; `report` gets the title and the fault of what cannot be.

    It is foreign code: whatever it raises, it is left out.
    """
    found: dict[str, PartT] = {}
    for plugin in plugins(section):
        try:
            found[plugin.name] = load(plugin.path, kind)
        except (Exception, SystemExit) as error:
            report(plugin.title, fault_of(error))
    return found


def fault_of(error: BaseException) -> str:
    """Describe why a part could not be loaded. It is foreign code, and may raise any error."""
    return str(error) if isinstance(error, GoclawError | ValueError) else f"{type(error).__name__}: {error}"


@cache
def _points(_path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return entry points of all packages on `sys.path`, read once: it takes 1 ms, and a start asks nine times."""
    return tuple(entry_points(group=GROUP))


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value.partition(":")[0]
