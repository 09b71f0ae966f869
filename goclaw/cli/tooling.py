"""`goclaw tool`: run the tools without a model and without the daemon, under the same rights and containment."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import orjson

from goclaw.access import Access
from goclaw.app import Environment, open_environment
from goclaw.cli.daemon_memory import DaemonMemory
from goclaw.cli.process import listens
from goclaw.clock import RealClock
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.events import LOCAL, Actor, Address
from goclaw.hooks.open import open_hooks
from goclaw.messages import ToolCall, ToolResult
from goclaw.toolkit.arguments import json_type
from goclaw.toolkit.consent import ApprovalRequest, Consent
from goclaw.toolkit.dispatcher import Dispatcher, error_text
from goclaw.toolkit.parts import PackageParts
from goclaw.toolkit.registry import Registry
from goclaw.toolkit.scope import CallScope
from goclaw.toolkit.services import TurnServices
from goclaw.toolkit.sources import SETTLED_SECONDS, Sources, open_sources
from goclaw.toolkit.tool_listing import ListedTool, ToolListing
from goclaw.users import Users, login_name, open_users


class CommandLineServices(TurnServices):
    """The services of a call on the command line."""

    place = "on the command line"


class OwnerServices(CommandLineServices):
    """The services of a call by the owner of the state folder, who may have agreed beforehand."""

    def __init__(self, owner: Actor, *, agreed: bool) -> None:
        self._owner = owner
        self._agreed = agreed

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        if not self._agreed:
            raise ToolError(f"approval required: {wanted.reason}; `--approve` says yes beforehand")
        return Consent(wanted.digest, by=self._owner)


class Toolbox:
    """The dispatcher, for use at a command line. Made by `open_toolbox`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        sources: Sources,
        access: Access,
        users: Users,
        environment: Environment,
        *,
        approve: bool,
    ) -> None:
        self.dispatcher = dispatcher
        self.access = access
        self.users = users
        self.environment = environment
        self._listing = ToolListing(dispatcher.registry, sources)
        self._approve = approve
        self._calls = 0

    def tools(self, user: str | None) -> list[ListedTool]:
        """Return the tools that `user` (None: the owner of the state folder) may use."""
        return self._listing.of(_actor(user))

    async def run(self, name: str, given: Any, user: str | None) -> ToolResult:
        """Run one call; an error's content is `{"error": "…"}`."""
        self._calls += 1
        call_id = f"cli-{self._calls}"
        if not isinstance(given, dict):
            message = f"input: expected object, got {json_type(given)}"
            return ToolResult(call_id, name, error_text(message), is_error=True)
        actor = _actor(user)
        scope = CallScope(
            actor=actor,
            session=actor.key,
            address=Address(LOCAL, actor.key),
            services=OwnerServices(actor, agreed=self._approve) if actor.owner else CommandLineServices(),
            turn="cli",
        )
        return await self.dispatcher.call(ToolCall(call_id, name, given), scope)


def _actor(user: str | None) -> Actor:
    if user is None:
        return Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
    return Actor(user, "cli")


@asynccontextmanager
async def open_toolbox(config: Config, parts: PackageParts, *, approve: bool = False) -> AsyncIterator[Toolbox]:
    """Open the tools until the block ends.

    Args:
        config: the configuration, with what packages declare.
        parts: what they declare.
        approve: the owner says yes beforehand to what would ask in their calls.
    """
    clock = RealClock()
    async with (
        open_users(config.users_path, clock) as users,
        open_environment(config, users, clock) as environment,
        open_sources(config, clock, parts) as sources,
        open_hooks(environment) as hooks,
    ):
        if listens(config) and config.memory.enabled:
            environment.memory = DaemonMemory(environment.memory, config)
        await sources.ready()
        await sources.settled(SETTLED_SECONDS)
        access = Access(users, config)
        dispatcher = Dispatcher(Registry([sources], access), access, environment, hooks)
        yield Toolbox(dispatcher, sources, access, users, environment, approve=approve)


async def run_lines(box: Toolbox, source: BinaryIO, user: str | None) -> None:
    """Read a call per line and write an answer per line, in order, whatever the lines hold (`--jsonl`).

    An empty line gets an answer, too, so that callers may count lines. Answers are ASCII, because a result may hold
    characters that some readers take for the end of a line.
    """
    while line := await asyncio.to_thread(source.readline):
        answer = orjson.loads(await _answer(box, line, user))
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


async def _answer(box: Toolbox, line: bytes, user: str | None) -> str:
    try:
        asked = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return error_text(f"not JSON: {error}")
    if not isinstance(asked, dict):
        return error_text(f'expected an object {{"tool", "input", "user"}}, got {json_type(asked)}')
    name, acting = asked.get("tool"), asked.get("user")
    # Without a user in the line it is the one of the command line, never more than that.
    acting = user if acting is None else acting
    if not isinstance(name, str):
        return error_text(f'field "tool": expected string, got {_got(asked, "tool")}')
    if acting is not None and not isinstance(acting, str):
        return error_text(f'field "user": expected string, got {json_type(acting)}')
    result = await box.run(name, asked.get("input", {}), acting)
    if result.is_error:
        return result.content
    return orjson.dumps({"ok": True, "content": result.content}).decode()


def _got(asked: dict[str, Any], field: str) -> str:
    return json_type(asked[field]) if field in asked else "nothing"
