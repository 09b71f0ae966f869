"""Checks of `tools.from_registry` and `tools.pinned` against the rest of the configuration."""

from collections.abc import Iterator

from goclaw.config.keys import Loc, what_helps
from goclaw.config.schema import Config
from goclaw.selection import BUILT_IN


def contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield names with another meaning, unknown registries and servers, and pins of nothing."""
    for name, settings in config.tools.from_registry.items():
        loc: Loc = ("tools", "from_registry", name)
        if taken := next((place for place, names in _taken(config) if name in names), None):
            yield loc, f"`{name}` is {taken} already; choose another name"
        if settings.registry not in config.registries:
            known = what_helps(settings.registry, config.registries)
            yield (*loc, "registry"), f"unknown registry `{settings.registry}`{known}"
        if settings.sha256 and not settings.version:
            yield (*loc, "sha256"), "is that of one version; say which (`version`)"
    yield from _pinned(config)


def _pinned(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield unknown servers, and names of other sets."""
    for name, settings in config.tools.pinned.items():
        loc: Loc = ("tools", "pinned", name)
        if settings.server not in config.mcp.servers:
            known = what_helps(settings.server, config.mcp.servers)
            yield (*loc, "server"), f"unknown MCP server `{settings.server}` (mcp.servers){known}"
        if name in config.tools.sets:
            yield loc, f"`{name}` is a set of `tools.sets` already; choose another name"


def _taken(config: Config) -> Iterator[tuple[str, set[str]]]:
    """Yield the source of names of servers and sets, and the names."""
    yield "a server of `mcp.servers`", set(config.mcp.servers)
    yield "a set of `tools.sets`", set(config.tools.sets)
    yield "a set of `tools.pinned`", set(config.tools.pinned)
    yield "a built-in set of tools", {each.name for each in BUILT_IN}
    yield "a set that an agent exports", set(config.agents.exported_sets)
