"""`goclaw mcp list|approve`: the MCP servers of the configuration, asked by this very command, not by the daemon."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from goclaw.audit import AuditEntry, open_audit
from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.clock import RealClock
from goclaw.config.schema import Config
from goclaw.errors import ConfigError, ToolError
from goclaw.events import Actor
from goclaw.mcp.approved_tools import FILE
from goclaw.mcp.base import Definition, LinkEnvironment, Listing
from goclaw.mcp.servers import McpServers, ServerState, finders, open_servers
from goclaw.mcp.validation import ValidatedTools, full_name, vetted
from goclaw.users import login_name

SECONDS = 30.0
"""Until a server has been looked at."""


@dataclass(slots=True)
class _Looked:
    """The tools that each server offers now."""

    servers: McpServers
    seen: dict[str, ValidatedTools] = field(default_factory=dict)

    async def listed(self, server: ServerState, listing: Listing) -> None:
        self.seen[server.name] = await asyncio.to_thread(
            vetted, server.name, server.settings, listing.tools, server.pinned_by
        )

    def changed(self, name: str) -> list[tuple[Definition, tuple[str, ...]]]:
        """Return tools of a server that are not as they were agreed to, with what is different."""
        found = [
            (each.definition, self.servers.known.changes(name, each.definition))
            for each in (self.seen[name].offered if name in self.seen else ())
        ]
        return [(definition, changes) for definition, changes in found if changes]


def list_(context: typer.Context) -> None:
    """Connect to the MCP servers of the configuration and print what they offer."""
    asyncio.run(_list(load(context).config))


def approve(
    context: typer.Context,
    server: Annotated[str, typer.Argument(help="The server's name in the configuration.")],
    tools: Annotated[list[str] | None, typer.Argument(help="Which of its tools; not given: all that changed.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Agree to definitions of tools that a server has changed."""
    asyncio.run(_approve(load(context).config, server, tools or [], yes=yes))


async def _look(config: Config, names: Sequence[str]) -> _Looked:
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
    async with open_servers(looked.servers, looked.listed):
        await looked.servers.settled(SECONDS)
        for server in looked.servers.servers.values():
            show(f"{server.name}  {server.state}")
            _show(server.name, looked)
    return looked


def _show(name: str, looked: _Looked) -> None:
    if name not in looked.seen:
        return
    changed = {definition.name for definition, _ in looked.changed(name)}
    for each in looked.seen[name].offered:
        mark = "  CHANGED since it was agreed to" if each.definition.name in changed else ""
        show(f"  {each.name}  ({each.definition.annotations.risk} risk){mark}")
    for tool, why in looked.seen[name].refused.items():
        show(f"  left out: {tool}: {why}")


async def _list(config: Config) -> None:
    if not config.mcp_servers:
        say("no MCP server is configured (`mcp.servers`, `tools.from_registry`)")
    await _look(config, ())


async def _approve(config: Config, server: str, tools: Sequence[str], *, yes: bool) -> None:
    looked = await _look(config, (server,))
    if server not in looked.seen:
        raise ToolError(f"nothing was agreed to: {server} could not be asked for its tools (see above)")
    changed = [
        (definition, lines) for definition, lines in looked.changed(server) if not tools or definition.name in tools
    ]
    if not changed:
        say(f"nothing of {server} has changed since it was agreed to")
        return
    for definition, lines in changed:
        show(f"\n{definition.name}:")
        for line in lines:
            show(f"  {line}")
    if not yes and not await asyncio.to_thread(typer.confirm, "Agree to this?"):
        raise typer.Exit(1)
    clock, owner = RealClock(), Actor(f"tui:{login_name()}", "cli", owner=True)
    async with open_audit(config, clock) as audit:
        if not await looked.servers.known.agree(server, [each for each, _ in changed], owner.key, clock.now()):
            raise ConfigError(
                f"nothing was agreed to: {FILE} in the state folder cannot be read; mend it, or remove it"
            )
        for definition, _ in changed:
            audit.record(AuditEntry("mcp_tool.approve", full_name(server, definition.name), owner, result="ok"))
    say(f"agreed to {len(changed)} definition(s) of {server}; a daemon that runs knows it at its next look at the list")
