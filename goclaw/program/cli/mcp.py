"""`goclaw mcp serve|list|approve`: tools for programs that speak the Model Context Protocol, and MCP servers.

Like `goclaw tool run`, `serve` runs the tools in this process, under the same rules and containment, whether a daemon
runs or not. A process that lives while its client does holds neither the socket nor the lock: conversations and the
status come, when they are asked for, from the daemon if one runs, else from the state folder. `list` and `approve` ask
the MCP servers of the configuration themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from goclaw.clients.tui.client import attach
from goclaw.common.auth.audit import AuditEntry, open_audit
from goclaw.common.auth.users import Users, login_name
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import AGENT_MARK, Actor, Outline, SessionInfo, TranscriptRow
from goclaw.common.core.records import record
from goclaw.errors import ConfigError, GoclawError, ToolError
from goclaw.gateway.servers.mcp.backend import ENTRY, Changed, McpBackend
from goclaw.gateway.servers.mcp.uris import STATUS, transcript_uri
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import command_group, load
from goclaw.program.cli.process import listens
from goclaw.program.cli.tool import User, open_toolbox
from goclaw.program.cli.transcripts import open_source
from goclaw.tools.mcp.approved_tools import FILE
from goclaw.tools.mcp.base import Definition, LinkEnvironment, Listing
from goclaw.tools.mcp.servers import McpServers, ServerState, finders, open_servers
from goclaw.tools.mcp.validation import ValidatedTools, full_name, validated_tools
from goclaw.tools.toolkit.parts import parts_of

SERVER_SECONDS = 30.0
"""Until a server has been looked at."""


@dataclass(slots=True)
class _Looked:
    """The tools that each server offers now."""

    servers: McpServers
    seen: dict[str, ValidatedTools] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)

    async def add_listing(self, server: ServerState, listing: Listing) -> None:
        self.listings[server.name] = listing
        self.seen[server.name] = await asyncio.to_thread(
            validated_tools, server.name, server.settings, listing.tools, server.pinned_by
        )

    def list_changes(self, name: str) -> list[tuple[Definition, tuple[str, ...]]]:
        """Return tools of a server that differ from the approved ones, with the differences."""
        found = [
            (each.definition, self.servers.known.changes(name, each.definition))
            for each in (self.seen[name].offered if name in self.seen else ())
        ]
        return [(definition, changes) for definition, changes in found if changes]


app = command_group("Serve tools to MCP clients, and inspect MCP servers.")


@app.command()
def serve(context: typer.Context, user: User = None) -> None:
    """Speak MCP on standard input and output until the client closes them. For the client's configuration."""
    asyncio.run(_serve(load(context), user))


@app.command("list")
def list_(context: typer.Context) -> None:
    """Connect to the MCP servers of the configuration and print what they offer."""
    config = load(context).config
    if not config.mcp_servers:
        print_message("no MCP server is configured (`mcp.servers`, `tools.from_registry`)")
    asyncio.run(_probe(config, ()))


@app.command()
def approve(
    context: typer.Context,
    server: Annotated[str, typer.Argument(help="The server's name in the configuration.")],
    tools: Annotated[list[str] | None, typer.Argument(help="The tools to approve; default: all that changed.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Agree to definitions of tools that a server has changed."""
    asyncio.run(_approve(load(context).config, server, tools or [], yes=yes))


async def _probe(config: Config, names: Sequence[str]) -> _Looked:
    clock = RealClock()
    wanted = {name: settings for name, settings in config.mcp.servers.items() if not names or name in names}
    found = {name: each for name, each in (await finders(config, clock)).items() if not names or name in names}
    if names and not wanted and not found:
        raise ConfigError(
            f"no MCP server is called {', '.join(names)}; see `mcp.servers` and `tools.from_registry` in the "
            "configuration"
        )
    environment = LinkEnvironment(clock, Path(config.state_dir), config.workspace_path)
    looked = _Looked(McpServers(wanted, environment, lambda what, fault: None, found))
    async with open_servers(looked.servers, looked.add_listing):
        await looked.servers.settled(SERVER_SECONDS)
        for server in looked.servers.servers.values():
            show(f"{server.name}  {server.state}")
            _show_tools(server.name, looked)
    return looked


def _show_tools(name: str, looked: _Looked) -> None:
    if name not in looked.seen:
        return
    changed = {definition.name for definition, _ in looked.list_changes(name)}
    for each in looked.seen[name].offered:
        mark = "  CHANGED since its approval" if each.definition.name in changed else ""
        show(f"  {each.name}  ({each.definition.annotations.risk} risk){mark}")
    listing = looked.listings[name]
    for tool, why in {**listing.left_out, **looked.seen[name].refused}.items():
        show(f"  left out: {tool}: {why}")
    if listing.cut:
        show(f"  {listing.cut}")


async def _approve(config: Config, server: str, tools: Sequence[str], *, yes: bool) -> None:
    looked = await _probe(config, (server,))
    if server not in looked.seen:
        raise ToolError(f"nothing approved: {server} did not list its tools (see above)")
    changed = [
        (definition, lines)
        for definition, lines in looked.list_changes(server)
        if not tools or definition.name in tools
    ]
    if not changed:
        print_message(f"nothing approved: no tool of {server} has changed since its approval")
        return
    for definition, lines in changed:
        show(f"\n{definition.name}:")
        for line in lines:
            show(f"  {line}")
    if not yes and not await asyncio.to_thread(typer.confirm, "Approve this?"):
        raise typer.Exit(1)
    clock, owner = RealClock(), Actor(f"tui:{login_name()}", "cli", owner=True)
    async with open_audit(config, clock) as audit:
        if not await looked.servers.known.agree(server, [each for each, _ in changed], owner.key, clock.now()):
            raise ConfigError(f"nothing approved: {FILE} in the state folder cannot be read; fix or remove it")
        for definition, _ in changed:
            audit.record(AuditEntry("mcp_tool.approve", full_name(server, definition.name), owner, result="ok"))
    print_message(f"approved {len(changed)} definition(s) of {server}; a running daemon notices at its next check")


async def _serve(loaded: Loaded, user: str | None) -> None:
    config = loaded.config
    if user is not None and Users.read(config.users_path).get(user) is None:
        raise ConfigError(f"{user} is not in users.json; run `goclaw users add {user}` first")
    # It takes a second: what is wrong with the command line or the configuration is said before.
    from goclaw.gateway.servers.mcp.declarations import declarations
    from goclaw.gateway.servers.mcp.offer import serve_stdio
    from goclaw.tools.mcp.declared import together

    # The MCP servers are left out: if their list names this very command, it would start itself again and again.
    # Nothing is lost by it: what speaks to us speaks to other servers by itself.
    mcp, tools = config.mcp.model_copy(update={"servers": {}}), config.tools.model_copy(update={"from_registry": {}})
    alone = config.model_copy(update={"mcp": mcp, "tools": tools})
    parts = parts_of(loaded.packaged)
    async with open_toolbox(alone, parts) as box:
        actor = Actor(user, ENTRY) if user else Actor(f"tui:{login_name()}", ENTRY, owner=True, name=login_name())
        backend = McpBackend(
            environment=box.environment,
            access=box.access,
            dispatcher=box.dispatcher,
            conversations=LocalConversations(config, box.environment.clock),
            people=box.users.all,
            declared=together([*declarations(), *parts.served]),
        )
        await serve_stdio(backend, actor)


POLL_SECONDS = 5.0
"""Seconds between two polls for changes: a process that is not attached gets no events."""


@record
class LocalConversations:
    """Implements `Conversations`."""

    config: Config
    clock: Clock

    async def sessions(self) -> Sequence[SessionInfo]:
        async with open_source(self.config) as source:
            return [info for info in await source.sessions() if AGENT_MARK not in info.key]

    async def outline(self, session: str, last: int) -> Outline:
        async with open_source(self.config, session) as source:
            return await source.outline(last)

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        async with open_source(self.config, session) as source:
            return await source.page(after)

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        """Return whether a daemon runs; its full status only to the owner, whom the socket admits."""
        if not await asyncio.to_thread(listens, self.config):
            return {"running": False}
        if not actor.owner:
            return {"running": True}
        async with attach(self.config.socket_path, f"tui:{login_name()}", limit=0) as client:
            return {"running": True, "pid": running_pid(self.config), **await client.status()}

    @asynccontextmanager
    async def changes(self, wanted: Callable[[], bool]) -> AsyncIterator[AsyncIterator[Changed]]:
        yield self._poll(wanted)

    async def _poll(self, wanted: Callable[[], bool]) -> AsyncIterator[Changed]:
        """Yield the differences between polls; while `wanted` is false nothing is polled."""
        before = None
        while True:
            await self.clock.sleep(POLL_SECONDS)
            now = await self._snapshot() if wanted() else None
            if before is None or now is None:
                before = now
                continue
            for uri in before.keys() | now.keys():
                if uri not in now:
                    yield Changed(uri, "deleted")
                elif before.get(uri) != now[uri]:
                    yield Changed(uri, "updated" if uri in before else "created")
            before = now

    async def _snapshot(self) -> dict[str, object]:
        """Return a comparable state per URI. Without a daemon only its status can change."""
        if not await asyncio.to_thread(listens, self.config):
            return {STATUS: False}
        try:
            found = {transcript_uri(info.key): (info.messages, info.last_at) for info in await self.sessions()}
        except GoclawError:  # it has just ended
            return {STATUS: False}
        return {STATUS: True, **found}
