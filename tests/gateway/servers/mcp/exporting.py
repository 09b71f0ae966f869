"""A house whose agents offer tools to clients of MCP, on a world that outlives it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from goclaw.gateway.servers.mcp.backend import McpBackend
from goclaw.program.app.mcp_server import DaemonConversations
from goclaw.tools.toolkit.base import Tool
from tests.conversation.sessions.exporting import exporting, world_with
from tests.gateway.servers.mcp.house import EVERYBODY, House, Shelf
from tests.harness import PATIENCE, Answer, World


def offering(*tools: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The keys of `agents` with one that offers `create_plan`, and another tool, to a registry."""
    return exporting(dict(zip(("create_plan", "keep_plan"), tools, strict=False)), publish_to=["shared"], **more)


def world_of(
    folder: Path, answers: Sequence[Answer], own: Sequence[Tool] = (), /, server: Any = None, **config: Any
) -> World:
    """A world with these tools and all that its agents export; `server`: keys of `mcp.server`."""
    people = config.pop("users", EVERYBODY)
    return world_with(folder, answers, own, users=people, mcp={"server": {"port": 0, **(server or {})}}, **config)


@asynccontextmanager
async def living(world: World, **killed: Any) -> AsyncIterator[House]:
    """The house on a world; its end is a kill, as that of `World.running`."""
    async with asyncio.timeout(PATIENCE), world.running(**killed) as core:
        environment: Any = core.sessions.ports.environment
        access = core.sessions.ports.approvals.access
        standing: list[str] = []
        backend = McpBackend(
            environment=environment,
            access=access,
            dispatcher=core.sessions.ports.dispatcher,
            conversations=DaemonConversations(
                core.bus, core.gateway, core.transcripts, world.clock, lambda: tuple(standing)
            ),
            people=world.users.all,
            published=[each.word for each in world.config.publications],
            external_runs=core.sessions.external_runs,
        )
        yield House(core, world, environment, access, backend, Shelf(()), world.audited, standing)
