"""What of `tools.from_registry` cannot be as it is, beside the rest of the configuration."""

from collections.abc import Iterator

from goclaw.config.keys import Loc, what_helps
from goclaw.config.schema import Config
from goclaw.selection import BUILT_IN


def contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Names that mean something else already, registries that there are not, pins of nothing in particular."""
    for name, settings in config.tools.from_registry.items():
        loc: Loc = ("tools", "from_registry", name)
        if taken := next((place for place, names in _taken(config) if name in names), None):
            yield loc, f"`{name}` is {taken} already; choose another name"
        if settings.registry not in config.registries:
            known = what_helps(settings.registry, config.registries)
            yield (*loc, "registry"), f"unknown registry `{settings.registry}`{known}"
        if settings.sha256 and not settings.version:
            yield (*loc, "sha256"), "is that of one version; say which (`version`)"


def _taken(config: Config) -> Iterator[tuple[str, set[str]]]:
    """Where names of servers and sets are from, and which there are."""
    yield "a server of `mcp.servers`", set(config.mcp.servers)
    yield "a set of `tools.sets`", set(config.tools.sets)
    yield "a built-in set of tools", {each.name for each in BUILT_IN}
    yield "a set that an agent exports", set(config.agents.exported_sets)
