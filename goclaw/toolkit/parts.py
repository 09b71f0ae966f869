"""What installed packages declare beside single tools: agents and toolsets (`goclaw.declare` makes them).

They become what the configuration would have said: `merged` adds them to it, and whatever the operator has written
under the same name stays. What comes from a package is foreign code: whatever fails is left out and reported by name.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeVar

from goclaw.config.agents import AgentSettings, AgentsSettings
from goclaw.config.mcp_servers import PinnedTool
from goclaw.config.schema import Config
from goclaw.plugins import Plugin, fault_of, load, plugins
from goclaw.records import record
from goclaw.toolkit.base import Tool

PartT = TypeVar("PartT", "AgentPart", "ToolsetPart")


@record
class RegistryOrigin:
    """Where a toolset is to be fetched from."""

    registry: str
    toolset: str
    version: str = ""
    """Empty: the newest."""


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
    origin: RegistryOrigin | None = None

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

    def merged(self, config: Config) -> Config:
        """The configuration with all of it."""
        if not self.agents and not self.toolsets:
            return config
        kinds = {agent.name: agent.settings for agent in self.agents.values()} | config.agents.kinds
        quickstart = config.agents.quickstart and all(agent.quickstart for agent in self.agents.values())
        agents = config.agents.model_copy(update={"kinds": kinds, "quickstart": quickstart})
        sets = {toolset.name: toolset.members for _, toolset in self.sets} | config.tools.sets
        tools = config.tools.model_copy(update={"sets": sets})
        mcp = config.mcp.model_copy(update={"servers": self._pinned(config)})
        return config.model_copy(update={"agents": agents, "tools": tools, "mcp": mcp})

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
    for title, toolset in parts.sets:
        if toolset.origin is not None:
            faults[f"toolset {toolset.name} of {title}"] = "it is to come from a registry, and none can be asked yet"
        if missing := [server for server in toolset.pins if server not in config.mcp.servers]:
            what = f"toolset {toolset.name} of {title}"
            faults[what] = f"its MCP servers are not configured (mcp.servers): {', '.join(missing)}"
    return parts


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
