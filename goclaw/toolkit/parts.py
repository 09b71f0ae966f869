"""What installed packages declare beside single tools: agents, toolsets, and the registries that these name.

They become what the configuration would have said: `merged` adds them to it, and whatever the operator has written
under the same name stays. What comes from a package is foreign code: whatever fails is left out and reported by name.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeVar

from goclaw.config.agents import AgentSettings, AgentsSettings
from goclaw.config.exports import PublishSettings
from goclaw.config.mcp_servers import PinnedTool
from goclaw.config.registries import FromRegistrySettings, RegistrySettings
from goclaw.config.schema import Config
from goclaw.plugins import Plugin, fault_of, load, plugins
from goclaw.records import record
from goclaw.redact import remember
from goclaw.toolkit.base import Tool

PartT = TypeVar("PartT", "AgentPart", "ToolsetPart")


@record
class RegistryPart:
    """A registry."""

    name: str
    settings: RegistrySettings


@record
class ToolsetPart:
    """A named group of tools, some of them its own."""

    name: str
    description: str = ""
    tools: tuple[Tool, ...] = ()
    """Its own."""
    also: tuple[str, ...] = ()
    """A selection of tools that are there already."""
    tags: tuple[str, ...] = ()
    pins: Mapping[str, Mapping[str, PinnedTool]] = field(default_factory=dict)
    """By MCP server: its tools as they have to be."""
    origin: FromRegistrySettings | None = None
    """What it is in a registry; None: it is from none."""
    publish: PublishSettings | None = None
    """What registries are told of it; None: nothing."""
    registries: tuple[RegistryPart, ...] = ()
    """Those that the two name."""

    @property
    def members(self) -> tuple[str, ...]:
        """The selection that it stands for."""
        return (*(tool.spec.name for tool in self.tools), *self.also)


@record
class AgentPart:
    """An agent, and what comes with it."""

    name: str
    settings: AgentSettings
    toolsets: tuple[ToolsetPart, ...] = ()
    quickstart: bool = True
    """Whether `AGENTS_QUICKSTART.md` may be written."""
    registries: tuple[RegistryPart, ...] = ()
    """Those to which it publishes."""


@record
class Parts:
    """Everything that packages declare, each with the title of its package's line."""

    agents: Mapping[str, AgentPart] = field(default_factory=dict)
    toolsets: Mapping[str, ToolsetPart] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """What does not work: its title, and why."""

    @property
    def sets(self) -> Iterator[tuple[str, ToolsetPart]]:
        """Every toolset, those that come with agents included, with the title of its line."""
        yield from self.toolsets.items()
        for title, agent in self.agents.items():
            yield from ((title, toolset) for toolset in agent.toolsets)

    @property
    def tools(self) -> Iterator[tuple[str, tuple[Tool, ...]]]:
        """The tools of each line."""
        yield from ((title, toolset.tools) for title, toolset in self.sets)

    @property
    def registries(self) -> Iterator[tuple[str, RegistryPart]]:
        """Every registry that is named, the same one as often as it is, each with the title of the line."""
        yield from ((title, each) for title, toolset in self.sets for each in toolset.registries)
        yield from ((title, each) for title, agent in self.agents.items() for each in agent.registries)

    def merged(self, config: Config) -> Config:
        """The configuration with all of it."""
        if not self.agents and not self.toolsets:
            return config
        kinds = {agent.name: agent.settings for agent in self.agents.values()} | config.agents.kinds
        quickstart = config.agents.quickstart and all(agent.quickstart for agent in self.agents.values())
        agents = config.agents.model_copy(update={"kinds": kinds, "quickstart": quickstart})
        usable = [toolset for _, toolset in self.sets if not _is_taken(toolset, config)]
        sets = {toolset.name: toolset.members for toolset in usable} | config.tools.sets
        origins = {toolset.name: toolset.origin for toolset in usable if toolset.origin}
        publish = {toolset.name: toolset.publish for toolset in usable if toolset.publish}
        tools = config.tools.model_copy(
            update={
                "sets": sets,
                "from_registry": origins | config.tools.from_registry,
                "publish": publish | config.tools.publish,
            }
        )
        mcp = config.mcp.model_copy(update={"servers": self._pinned(config)})
        registries = self._registries() | config.registries
        return config.model_copy(update={"agents": agents, "tools": tools, "mcp": mcp, "registries": registries})

    def _registries(self) -> dict[str, RegistrySettings]:
        """Where several say something of the same, the first one counts."""
        found: dict[str, RegistrySettings] = {}
        for _, part in self.registries:
            found.setdefault(part.name, part.settings)
        return found

    def _pinned(self, config: Config) -> Mapping[str, Any]:
        servers = dict(config.mcp.servers)
        for _, toolset in self.sets:
            for name, pins in toolset.pins.items():
                if name in servers:
                    tools = {**pins, **servers[name].tools}
                    servers[name] = servers[name].model_copy(update={"tools": tools})
        return servers


async def load_parts(config: Config) -> Parts:
    """What packages declare, in a thread; a part whose name the configuration has is a fault of no consequence."""
    faults: dict[str, str] = {}
    agents = await _loaded("agents", AgentPart, faults)
    toolsets = await _loaded("toolsets", ToolsetPart, faults)
    for title, agent in list(agents.items()):
        try:
            AgentsSettings(kinds={agent.name: agent.settings})
        except ValueError:
            faults[title] = f"no agent can be called {agent.name!r}"
            del agents[title]
        else:
            if agent.name in config.agents.kinds:
                # Under a name of its own: what lists the tools of this line would take the fault for mended.
                faults[f"agent {agent.name} of {title}"] = "the configuration has one of its own, which stays"
    parts = Parts(agents, toolsets, faults)
    faults |= dict(_of_registries(parts, config))
    for title, toolset in parts.sets:
        if missing := [server for server in toolset.pins if server not in config.mcp.servers]:
            what = f"toolset {toolset.name} of {title}"
            faults[what] = f"its MCP servers are not configured (mcp.servers): {', '.join(missing)}"
    return parts


def _of_registries(parts: Parts, config: Config) -> Iterator[tuple[str, str]]:
    """What of registries, and of what comes from them, does not fit together. Makes their tokens known to `redact`."""
    first: dict[str, tuple[str, RegistrySettings]] = {}
    for title, part in parts.registries:
        if part.settings.auth:
            remember(part.settings.auth.get_secret_value())
        where, settings = first.setdefault(part.name, (title, part.settings))
        if settings != part.settings and part.name not in config.registries:
            yield f"registry {part.name} of {title}", f"{where} says something else of it, which holds"
    for title, toolset in parts.sets:
        if _is_taken(toolset, config):
            yield (
                f"toolset {toolset.name} of {title}",
                "it would be an MCP server, and the configuration has one of that name (mcp.servers), which stays",
            )


def _is_taken(toolset: ToolsetPart, config: Config) -> bool:
    """Whether the MCP server that a toolset of a registry becomes is somebody else already."""
    return toolset.origin is not None and toolset.name in config.mcp.servers


async def _loaded(section: str, kind: type[PartT], faults: dict[str, str]) -> dict[str, PartT]:
    found: dict[str, PartT] = {}
    for plugin in plugins(section):
        try:
            found[plugin.title] = await asyncio.to_thread(_load, plugin, kind)
        except (Exception, SystemExit) as error:
            faults[plugin.title] = fault_of(error)
    return found


def _load(plugin: Plugin, kind: type[PartT]) -> PartT:
    part = load(plugin.path, kind)
    if part.name != plugin.name:
        raise ValueError(f"it calls itself {part.name}, not {plugin.name}")
    return part
