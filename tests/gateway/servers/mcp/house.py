"""GoClaw's MCP server on a running core, with the real tools on a real workspace, for clients of the library."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens, add_token, open_tokens, revoke_token
from goclaw.common.auth.users import User, Users
from goclaw.common.core.events import Actor
from goclaw.common.workspace.notes import Notes
from goclaw.gateway.servers.mcp.backend import ENTRY, McpBackend
from goclaw.gateway.servers.mcp.http import open_mcp_http
from goclaw.gateway.servers.mcp.offer import ClientCall, McpExport, open_offer
from goclaw.program.app import Environment, open_environment
from goclaw.program.app.mcp_server import DaemonConversations
from goclaw.tools.hooks.base import Hooks
from goclaw.tools.mcp.declared import Declared
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from tests.harness import PATIENCE, Answer, Core, World

ANN, BOB = "tui:ann", "telegram:7"
EVERYBODY = (User(ANN), User(BOB))


@dataclass
class Shelf:
    """A source of tools that come and go."""

    listed: tuple[Tool, ...]

    def tools(self) -> Sequence[Tool]:
        return self.listed


@dataclass
class House:
    """The parts that the server stands on."""

    core: Core
    world: World
    environment: Environment
    access: Access
    backend: McpBackend
    tools: "Shelf"
    audited: list[AuditEntry] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)
    """Faults that the daemon knows of."""

    @property
    def files(self) -> Path:
        return self.world.config.workspace_path

    def shown(self, path: str) -> Path:
        """Where a path of the workspace lies on the disk."""
        return Notes(self.world.notes).place(path) or self.files / path

    def put_users(self, *users: User) -> None:
        """What users.json says from now on."""
        self.world.users._users = Users(users)._users

    @asynccontextmanager
    async def offer(self, actor: str = ANN) -> AsyncIterator[McpExport]:
        caller = ClientCall(Actor(actor, ENTRY), actor)
        async with open_offer(self.backend, lambda ctx: caller) as offer:
            yield offer

    @asynccontextmanager
    async def client(self, actor: str = ANN, mode: Any = "auto", **options: Any) -> AsyncIterator[Client]:
        """A client in this process; `mode` chooses the era of the protocol."""
        async with self.offer(actor) as offer, Client(offer.server, mode=mode, **options) as client:
            yield client

    @asynccontextmanager
    async def listener(self) -> AsyncIterator["Listener"]:
        path = self.world.folder / "access-tokens.json"
        async with open_tokens(path, self.world.clock) as tokens, open_mcp_http(self.backend, tokens) as listening:
            yield Listener(self, tokens, path, listening.port)


@dataclass
class Listener:
    """The server on a port."""

    house: House
    tokens: Tokens
    path: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def token(self, name: str, user: str) -> str:
        secret = add_token(self.path, name, user, self.house.world.clock.now())
        await self.tokens.refresh()
        return secret

    async def revoke(self, name: str) -> None:
        revoke_token(self.path, name)
        await self.tokens.refresh()

    @asynccontextmanager
    async def client(self, token: str, mode: Any = "auto", **options: Any) -> AsyncIterator[Client]:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20) as http:
            async with Client(streamable_http_client(self.url, http_client=http), mode=mode, **options) as client:
                yield client


@asynccontextmanager
async def house(
    folder: Path,
    *,
    users: Sequence[User] = EVERYBODY,
    answers: Sequence[Answer] = (),
    tools: Sequence[Tool] = (),
    declared: Declared | None = None,
    hooks: Hooks | None = None,
    policy: Any = None,
    roles: Any = None,
    **settings: Any,
) -> AsyncIterator[House]:
    """The house; `settings` are those of `mcp.server`."""
    world = World(
        folder,
        answers,
        users=users,
        workspace=folder / "files",
        mcp={"server": {"port": 0, **settings}},
        policy=policy or {},
        roles=roles or {},
    )
    async with (
        asyncio.timeout(PATIENCE),
        world.running() as core,
        open_environment(world.config, world.users, world.clock) as environment,
    ):
        access = Access(world.users, world.config)
        own = Shelf(tuple(tools))
        registry = Registry([BuiltIn(), own], access)
        audited: list[AuditEntry] = []
        standing: list[str] = []
        environment.audit = audited.append
        backend = McpBackend(
            environment=environment,
            access=access,
            dispatcher=Dispatcher(registry, access, environment, hooks),
            conversations=DaemonConversations(
                core.bus, core.gateway, core.transcripts, world.clock, lambda: tuple(standing)
            ),
            people=world.users.all,
            declared=declared or Declared(),
        )
        yield House(core, world, environment, access, backend, own, audited, standing)
