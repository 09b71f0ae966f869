"""Declarations of installed packages besides single tools: agents, toolsets, their registries, MCP servers.

They become configuration values that rank below every value of the operator (`config.packaged`). A package is foreign
code: a part that fails is left out and reported by name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.exports import PublishSettings
from goclaw.common.config.mcp import McpServerSettings, PinnedSetSettings
from goclaw.common.config.packaged import (
    FileParts,
    FilesPart,
    Packaged,
    PackagedKey,
    PackagedPart,
    dump_set_values,
    file_title,
    possible_keys,
)
from goclaw.common.config.registries import FromRegistrySettings, RegistrySettings
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.plugins import fault_of, load, plugins
from goclaw.common.core.records import record
from goclaw.common.core.tool_ids import short_name
from goclaw.errors import GoclawError
from goclaw.tools.hooks.base import HookPart
from goclaw.tools.mcp.declared import Declared
from goclaw.tools.toolkit.base import Tool

PartT = TypeVar("PartT", "AgentPart", "ToolsetPart")
_QUOTED = re.compile(r"""["']([\w./-]{1,100})["']""")


@record
class RegistryPart:
    """A registry."""

    name: str
    settings: RegistrySettings


def is_same_tool(one: Tool, other: Tool) -> bool:
    """Whether two tools differ at most in their specs: a toolset adds labels, and an agent gives its own an id."""
    return one == replace(other, spec=one.spec)


@record
class ToolsetPart:
    """A named group of tools, some of them its own."""

    name: str
    description: str = ""
    tools: tuple[Tool, ...] = ()
    """Tools of its own."""
    also: tuple[str, ...] = ()
    """A selection of tools that are there already."""
    tags: tuple[str, ...] = ()
    pinned: PinnedSetSettings | None = None
    """Tools of an MCP server as they have to be; the set is those of them that are so."""
    origin: FromRegistrySettings | None = None
    """Its entry in a registry; None: not from a registry."""
    publish: PublishSettings | None = None
    """The settings for publishing it to registries; None: not published."""
    registries: tuple[RegistryPart, ...] = ()
    """The registries that `origin` and `publish` name."""

    @property
    def members(self) -> tuple[str, ...]:
        """The selection that it stands for."""
        return (*(short_name(tool.spec.id) for tool in self.tools), *self.also)


@record
class AgentPart:
    """An agent, and the parts that come with it."""

    name: str
    settings: AgentSettings
    toolsets: tuple[ToolsetPart, ...] = ()
    quickstart: bool = True
    """Whether `AGENTS_QUICKSTART.md` may be written."""
    registries: tuple[RegistryPart, ...] = ()
    """Those to which it publishes."""


@record
class ServerPart:
    """What GoClaw's MCP server offers, and its tools."""

    settings: McpServerSettings
    tools: ToolsetPart
    declared: Declared

    @property
    def name(self) -> str:
        """Its name, and that of the set of its tools."""
        return self.tools.name


@record
class PackageParts:
    """Everything that packages declare, each with the title of its package's line."""

    agents: Mapping[str, AgentPart] = field(default_factory=dict)
    toolsets: Mapping[str, ToolsetPart] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """The faults: title to reason."""
    servers: Mapping[str, Declared] = field(default_factory=dict)
    hooks: Mapping[str, HookPart | str] = field(default_factory=dict)
    """Hooks of one-file plugins, by title; a text: why a file that may have had one cannot be used."""
    of_files: Mapping[str, FileParts] = field(default_factory=dict)
    """One-file plugins, by the titles under which their agents and toolsets are above."""

    @property
    def sets(self) -> Iterator[tuple[str, ToolsetPart]]:
        """Every toolset, those that come with agents included, with the title of its line."""
        yield from self.toolsets.items()
        for title, agent in self.agents.items():
            yield from ((title, toolset) for toolset in agent.toolsets)

    @property
    def tools(self) -> Iterator[tuple[str, tuple[Tool, ...]]]:
        """The tools of each line of a package; those of files come and go (`toolkit.plugin_files`)."""
        yield from ((title, toolset.tools) for title, toolset in self.sets if title not in self.of_files)

    @property
    def registries(self) -> Iterator[tuple[str, RegistryPart]]:
        """Every registry that is named, the same one as often as it is, each with the title of the line."""
        yield from ((title, each) for title, toolset in self.sets for each in toolset.registries)
        yield from ((title, each) for title, agent in self.agents.items() for each in agent.registries)

    @property
    def served(self) -> list[Declared]:
        """What one-file plugins offer on the MCP server."""
        return [declared for title, declared in self.servers.items() if title in self.of_files]

    @property
    def packaged(self) -> Packaged:
        """Their values as packaged configuration. A key's first value counts; a different second one is a fault."""
        first: dict[tuple[str, ...], PackagedKey] = {}
        faults = dict(self.faults)
        for entry in self._entries():
            known = first.setdefault(entry.path, entry)
            if known.values != entry.values:
                faults[entry.place] = f"{known.place} says something else, which holds"
        return Packaged(tuple(first.values()), faults, declared=self)

    def _entries(self) -> Iterator[PackagedKey]:
        for title, agent in self.agents.items():
            yield PackagedKey(
                ("agents", "kinds", agent.name), dump_set_values(agent.settings), f"agent {agent.name} of {title}"
            )
            if not agent.quickstart:
                yield PackagedKey(("agents", "quickstart"), False, f"disable_agent_docs of {title}")
        for title, toolset in self.sets:
            yield from (
                PackagedKey(path, values, f"toolset {toolset.name} of {title}") for path, values in _keys(toolset)
            )
        for title, registry in self.registries:
            path = ("registries", registry.name)
            yield PackagedKey(path, dump_set_values(registry.settings), f"registry {registry.name} of {title}")
        for title, server in self.servers.items():
            # Only the operator opens the server to clients, so `enabled` is not among them.
            yield from (
                PackagedKey(("mcp", "server", key), said, f"{key} of {title}") for key, said in server.settings.items()
            )


def _keys(toolset: ToolsetPart) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield a toolset's configuration keys. One from a registry, or of pinned tools, has none in `tools.sets`."""
    if toolset.origin:
        yield ("tools", "from_registry", toolset.name), dump_set_values(toolset.origin)
    elif toolset.pinned:
        yield ("tools", "pinned", toolset.name), dump_set_values(toolset.pinned)
    else:
        yield ("tools", "sets", toolset.name), toolset.members
    if toolset.publish:
        yield ("tools", "publish", toolset.name), dump_set_values(toolset.publish)


def parts_of(packaged: Packaged) -> PackageParts:
    """Return the parts underlying a configuration, with the faults of those left out."""
    declared = packaged.declared if isinstance(packaged.declared, PackageParts) else PackageParts()
    return replace(declared, faults=packaged.faults)


def read(files: Sequence[Path], config: Config) -> Packaged:
    """Read the declarations of packages and of one-file plugins. Blocks; one that cannot be loaded is a fault.

    `config`: the places that it names, where no file may lie.
    """
    faults: dict[str, str] = {}
    absent: list[tuple[str, ...]] = []
    agents = _load_all("agents", AgentPart, faults, absent)
    toolsets = _load_all("toolsets", ToolsetPart, faults, absent)
    of_files: dict[str, FileParts] = {}
    servers: dict[str, Declared] = {}
    hooks: dict[str, HookPart | str] = {}
    for path in files:
        try:
            found = load(catalog.PLUGIN_FILES, FilesPart).load(path, config)
        except GoclawError as error:
            faults[file_title(path)] = str(error)
            with suppress(OSError):
                # A file that cannot be used may have said a part of any key that one of its words in quotes names.
                text = path.read_text("utf-8", "replace")
                for name in set(_QUOTED.findall(text)):
                    absent += [*possible_keys("agents", name), *possible_keys("toolsets", name)]
                if HookPart.__name__ in text:
                    hooks[file_title(path)] = str(error)
            continue
        of_files[file_title(path)] = found
        hooks |= {f"{file_title(path)} ({name})": hook for name, hook in found.hooks.items()}
        for part in found.declared:
            title = f"{file_title(path)} ({part.name})"
            of_files[title] = found
            if isinstance(part, ServerPart):
                servers[title], toolsets[title] = part.declared, part.tools
            else:
                (agents if isinstance(part, AgentPart) else toolsets)[title] = part
    for plugin in plugins("mcp"):
        with suppress(Exception, SystemExit):  # `servers.mcp.declarations` reports those that cannot be loaded
            servers[plugin.title] = load(plugin.path, Declared)
    parts = PackageParts(agents, toolsets, faults, servers, hooks, of_files)
    return replace(parts.packaged, absent=tuple(absent))


def _load_all(
    section: str, kind: type[PartT], faults: dict[str, str], absent: list[tuple[str, ...]]
) -> dict[str, PartT]:
    found: dict[str, PartT] = {}
    for plugin in plugins(section):
        try:
            part = load(plugin.path, kind)
            if part.name != plugin.name:
                raise ValueError(f"it calls itself {part.name}, not {plugin.name}")
            found[plugin.title] = part
        except (Exception, SystemExit) as error:
            faults[plugin.title] = fault_of(error)
            absent.extend(possible_keys(section, plugin.name))
    return found


PACKAGED = PackagedPart(read)
