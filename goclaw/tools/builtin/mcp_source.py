"""The tools, resources and prompts of the servers in `mcp.servers` and `tools.from_registry`, as a live source.

Nothing that costs time is loaded before a server is configured, and then in a thread. The tools of a server that is
away stay: a call fails with the reason, and the part of a request that providers have cached stays valid.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from goclaw.common.config.mcp import pin_tag, pins_of
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load_large
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.durable.store.file_writer import file_writer
from goclaw.tools.mcp.approved_tools import ApprovedTools
from goclaw.tools.mcp.base import Definition, Finder, LinkEnvironment, Listing, PromptDefinition
from goclaw.tools.mcp.servers import McpServers, ServerState, finders
from goclaw.tools.mcp.validation import OfferedTool, ValidatedTools, differences, validated_tools
from goclaw.tools.toolkit.base import LivePrompt, Tool, ToolSource
from goclaw.tools.toolkit.sources import Fixed, SourcePart, SourcePorts

MAX_FAULTS = 10
"""Maximum unoffered tools of one server that are reported one by one."""


@record
class Workshop:
    """The line of the catalogue: makes tools and prompts out of the offers (`tools.mcp_tools`)."""

    make: Callable[[OfferedTool, ServerState, ApprovedTools], Tool]
    """Makes the tool; raises ValueError where it cannot be made."""
    own: Callable[[McpServers], tuple[Tool, ...]]
    """Returns the tools that exist for every server."""
    prompts: Callable[[ServerState, Sequence[PromptDefinition]], tuple[tuple[LivePrompt, ...], Mapping[str, str]]]
    """Returns the offered prompts, and the faults of the others by name."""


@dataclass(slots=True)
class _ServerTools:
    """The tools and prompts of one server, as last listed."""

    made: dict[str, tuple[OfferedTool, bool, Tool]] = field(default_factory=dict)
    """By name: the definition, whether its change still needs approval, and the tool."""
    prompts: tuple[LivePrompt, ...] = ()
    faults: frozenset[str] = frozenset()


class McpSource:
    """Implements `ToolSource`, `ConnectingSource` and `PromptSource`."""

    def __init__(self, ports: SourcePorts, finders: Mapping[str, Finder]) -> None:
        config = ports.config
        environment = LinkEnvironment(ports.clock, config.state_dir, config.workspace_path, writer=file_writer(config))
        self.servers = McpServers(config.mcp.servers, environment, ports.report, finders)
        self._report = ports.report
        self._pinned = config.tools.pinned
        self._by_server = {name: _ServerTools() for name in self.servers.servers}
        self._own: tuple[Tool, ...] = ()
        self._tools: tuple[Tool, ...] = ()
        self._looking = asyncio.Lock()

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def prompts(self) -> Sequence[LivePrompt]:
        return [prompt for entry in self._by_server.values() for prompt in entry.prompts]

    async def settled(self, seconds: float) -> None:
        await self.servers.settled(seconds)

    async def run(self) -> None:
        """Keep the servers connected until the task ends."""
        workshop = await asyncio.to_thread(load_large, catalog.MCP["workshop"], Workshop)
        self._own = self._tools = workshop.own(self.servers)
        await self.servers.run(partial(self._update, workshop))

    async def _update(self, workshop: Workshop, server: ServerState, listing: Listing) -> None:
        async with self._looking:  # the library and the file are looked at by one at a time
            await self.servers.known.meet(server.name, listing.tools)
            found, faults = await asyncio.to_thread(self._make_tools, workshop, server, listing.tools)
        entry = self._by_server[server.name]
        entry.made = found
        entry.prompts, odd = workshop.prompts(server, listing.prompts)
        self._report_server(server, entry, {**listing.left_out, **faults, **odd})
        self._tools = (*self._own, *(tool for each in self._by_server.values() for _, _, tool in each.made.values()))

    def _make_tools(
        self, workshop: Workshop, server: ServerState, definitions: Sequence[Definition]
    ) -> tuple[dict[str, tuple[OfferedTool, bool, Tool]], dict[str, str]]:
        """Make the tools, in a thread. An unchanged tool stays the same object, so its approvals stay valid."""
        seen: ValidatedTools = validated_tools(server.name, server.settings, definitions, server.pinned_by)
        before, found, faults = self._by_server[server.name].made, {}, dict(seen.refused)
        for offered in seen.offered:
            changed = bool(self.servers.known.changes(server.name, offered.definition))
            if (old := before.get(offered.name)) and old[:2] == (offered, changed):
                found[offered.name] = old
                continue
            try:
                made = workshop.make(offered, server, self.servers.known)
            except ValueError as error:
                faults[offered.definition.name] = str(error)
            else:
                found[offered.name] = (offered, changed, self._tag(made, offered))
        return found, faults

    def _tag(self, made: Tool, offered: OfferedTool) -> Tool:
        """Return the tool with the tag of each set that has a pin matching it."""
        wanted = pins_of(self._pinned, offered.server, offered.definition.name)
        fits = {
            pin_tag(name, offered.definition.name) for name, pin in wanted if not differences(offered.definition, pin)
        }
        return replace(made, spec=replace(made.spec, tags=made.spec.tags | fits)) if fits else made

    def _find_missing(self, server: ServerState, entry: _ServerTools) -> Iterator[tuple[str, str]]:
        """Yield the pinned tools that the server lacks or has in another version."""
        has = {offered.definition.name: offered.definition for offered, _, _ in entry.made.values()}
        for name, settings in self._pinned.items():
            for tool, pin in settings.tools.items() if settings.server == server.name else ():
                if tool not in has:
                    yield f"tools.pinned.{name}: {tool}", f"is not part of the set: {server.name} does not offer it"
                elif odd := differences(has[tool], pin):
                    why = f"{', '.join(odd)} differ at {server.name}"
                    yield f"tools.pinned.{name}: {tool}", f"is not part of the set: {why}"

    def _report_server(self, server: ServerState, entry: _ServerTools, faults: dict[str, str]) -> None:
        place = server.place
        named = {f"{place}: {name}": f"is left out: {why}" for name, why in list(faults.items())[:MAX_FAULTS]}
        if (more := len(faults) - MAX_FAULTS) > 0:
            named[f"{place}: others"] = f"{more} more are not offered"
        for offered, changed, _ in entry.made.values():
            if changed:
                named[f"{place}: {offered.definition.name}"] = (
                    "its definition has changed: every call asks until an admin approves one, or runs `goclaw mcp "
                    f"approve {server.name}`"
                )
        named |= dict(self._find_missing(server, entry))
        for what in entry.faults - named.keys():
            self._report(what, "")
        for what, why in named.items():
            self._report(what, why)
        entry.faults = frozenset(named)


@asynccontextmanager
async def _open(ports: SourcePorts) -> AsyncIterator[ToolSource]:
    if not any(settings.enabled for _, settings in ports.config.mcp_servers.values()):
        yield Fixed(())
        return
    source = McpSource(ports, await finders(ports.config, ports.clock))
    async with background(source.run(), "MCP servers"):
        yield source


SOURCE = SourcePart("mcp", _open, "an MCP server (config mcp.servers, tools.from_registry)")
