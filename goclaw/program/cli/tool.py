"""`goclaw tool list|describe|run|docs`: tools without a model and a daemon, under the same rights and containment.

If a daemon runs, it holds the database: conversations are searched there (`DaemonMemory`) and notes here.
Who may search which is decided by the tool, here, as everywhere.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import orjson
import typer

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users, login_name, open_users
from goclaw.common.config.keys import closest
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import GATED_TOOLS
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import LOCAL, Actor, Address
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.core.wire import AskMemory, MemoryFrame
from goclaw.common.workspace import Workspace
from goclaw.errors import GoclawError, ToolError
from goclaw.memory.base import (
    MemoryFile,
    MemoryPort,
    MemoryStatus,
    NoteResults,
    Talk,
    TranscriptQuery,
    TranscriptResults,
)
from goclaw.memory.memory_queries import HEARD, TALKS, WANTED
from goclaw.program.app import Environment, open_environment
from goclaw.program.cli.base import show
from goclaw.program.cli.options import AsJson, command_group, load
from goclaw.program.cli.process import listens
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.hooks.open import open_hooks
from goclaw.tools.toolkit.arguments import json_type
from goclaw.tools.toolkit.dispatcher import Dispatcher, error_text
from goclaw.tools.toolkit.parts import PackageParts, parts_of
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from goclaw.tools.toolkit.sources import BUILT_IN, SETTLED_SECONDS, Sources, open_sources
from goclaw.tools.toolkit.tool_docs import ListedTool, ToolListing, details, in_brackets, tools_page

TURN = "cli"
"""The turn of a call in the audit log."""

app = command_group("List, describe and run tools.")

User = Annotated[
    str | None, typer.Option(help="The user to act as, a key of users.json; default: the owner of the state folder.")
]


@app.command("list")
def list_(context: typer.Context, user: User = None, as_json: AsJson = False) -> None:
    """Print the tools that a user may use."""
    shown = asyncio.run(_list_tools(load(context), user))
    if as_json:
        _print_json([tool.as_json() for tool in shown])
        return
    for tool in shown:
        print(f"{tool.name:16} {tool.tool.spec.short}{in_brackets(tool)}")


@app.command()
def describe(context: typer.Context, name: str, user: User = None, as_json: AsJson = False) -> None:
    """Print what a tool does, its parameters, examples, rights and risk."""
    known = {tool.name: tool for tool in asyncio.run(_list_tools(load(context), user))}
    shown = known.get(name)
    if shown is None:
        meant = closest(name, list(known))
        print(error_text(f"unknown tool: {name}; " + (f"did you mean {meant}?" if meant else "see `goclaw tool list`")))
        raise typer.Exit(1)
    if as_json:
        _print_json(shown.as_json())
        return
    print(details(shown.tool, shown.origin))
    if shown.availability:
        print(f"\nIt is {shown.availability}.")
    print("\nJSON Schema of its arguments:\n")
    _print_json(shown.tool.spec.schema)


@app.command()
def docs() -> None:
    """Print docs/tools.md, the page about the tools that come with GoClaw."""
    origins = {
        name: f"{BUILT_IN}, only with `tools.{gate}: true`" for gate, gated in GATED_TOOLS.items() for name in gated
    }
    listed = [ListedTool(tool, origins.get(tool.spec.name, BUILT_IN)) for tool in BuiltIn(GATED_TOOLS).tools()]
    print(tools_page(listed), end="")


@app.command()
def run(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The tool's name.")] = None,
    given: Annotated[str, typer.Option("--input", help="Its arguments, as a JSON object.")] = "{}",
    user: User = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read calls as lines of JSON from standard input.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Approve calls that would ask.")] = False,
) -> None:
    """Run a tool. Prints its content, or {"error": …} with exit code 1."""
    loaded = load(context)
    if jsonl:
        asyncio.run(_run_jsonl(loaded, user, approve=approve))
        return
    if name is None:
        raise typer.BadParameter("name a tool, or use --jsonl")
    result = asyncio.run(_run_one(loaded, name, given, user, approve=approve))
    show(result.content)
    if result.is_error:
        raise typer.Exit(1)


async def _list_tools(loaded: Loaded, user: str | None) -> list[ListedTool]:
    async with open_toolbox(loaded.config, parts_of(loaded.packaged)) as box:
        return box.tools(user)


def _print_json(value: Any) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


async def _run_one(loaded: Loaded, name: str, given: str, user: str | None, *, approve: bool) -> ToolResult:
    try:
        arguments: Any = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        return ToolResult("", name, error_text(f"input is not JSON: {error}"), is_error=True)
    async with open_toolbox(loaded.config, parts_of(loaded.packaged), approve=approve, user=user) as box:
        return await box.run(name, arguments, user)


async def _run_jsonl(loaded: Loaded, user: str | None, *, approve: bool) -> None:
    """Read a call per line and write an answer per line, in order, whatever the lines hold.

    An empty line gets an answer, too, so that callers may count lines. Answers are ASCII, because a result may hold
    characters that some readers take for the end of a line.
    """
    async with open_toolbox(loaded.config, parts_of(loaded.packaged), approve=approve, user=user) as box:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            answer = orjson.loads(await _answer(box, line, user))
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


class CommandLineServices(TurnServices):
    """The services of a call for `user` on the command line; its owner may say yes to it beforehand."""

    place = "on the command line"

    def __init__(self, box: "Toolbox", user: str | None) -> None:
        self._box = box
        self._user = user

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        box, owner, tool = self._box, _actor(None), wanted.call.name
        may_decide = self._user is None or box.access.authorize(owner, "question.answer", self._user).allowed
        if self._user != box.user or not may_decide:
            return await super().approve(wanted)
        if not box.approve:
            raise ToolError(f"approval required: {wanted.reason}; `--approve` says yes beforehand")
        entry = AuditEntry("tool.approval", tool, owner, _actor(self._user).key, rule="goclaw tool run --approve")
        box.environment.audit(replace(entry, result="allow", turn=TURN, tags=box.access.tags(tool)))
        return Approval(wanted.digest, by=owner)


@dataclass(slots=True)
class Toolbox:
    """The dispatcher, for use at a command line. Made by `open_toolbox`."""

    dispatcher: Dispatcher
    sources: Sources
    access: Access
    users: Users
    environment: Environment
    approve: bool
    user: str | None
    """The user of the command line; no other call is approved by its owner."""
    _calls: int = 0

    def tools(self, user: str | None) -> list[ListedTool]:
        """Return the tools that `user` (None: the owner of the state folder) may use."""
        return ToolListing(self.dispatcher.registry, self.sources).of(_actor(user))

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
            services=CommandLineServices(self, user),
            turn=TURN,
        )
        return await self.dispatcher.call(ToolCall(call_id, name, given), scope)


def _actor(user: str | None) -> Actor:
    if user is None:
        return Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
    return Actor(user, "cli")


@asynccontextmanager
async def open_toolbox(
    config: Config, parts: PackageParts, *, approve: bool = False, user: str | None = None
) -> AsyncIterator[Toolbox]:
    """Open the tools until the block ends.

    Args:
        config: the configuration, with what packages declare.
        parts: their declarations.
        approve: the owner says yes beforehand to questions about the calls of `user`.
        user: the user of the command line; None: the owner.
    """
    clock = RealClock()
    async with (
        open_users(config.users_path, clock) as users,
        open_environment(config, users, clock) as environment,
        open_sources(config, clock, parts) as sources,
        open_hooks(environment, files=parts.hooks) as hooks,
    ):
        if listens(config) and config.memory.enabled:
            environment.memory = DaemonMemory(environment.memory, config)
        await sources.ready()
        await sources.settled(SETTLED_SECONDS)
        access = Access(users, config)
        dispatcher = Dispatcher(Registry([sources], access), access, environment, hooks)
        yield Toolbox(dispatcher, sources, access, users, environment, approve, user)


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
        return error_text(f'field "tool": expected string, got {json_type(name) if "tool" in asked else "nothing"}')
    if acting is not None and not isinstance(acting, str):
        return error_text(f'field "user": expected string, got {json_type(acting)}')
    result = await box.run(name, asked.get("input", {}), acting)
    if result.is_error:
        return result.content
    return orjson.dumps({"ok": True, "content": result.content}).decode()


class DaemonMemory:
    """A `MemoryPort` that asks the daemon of a state folder for conversations, and another one for all else."""

    def __init__(self, notes: MemoryPort, config: Config) -> None:
        self._notes = notes
        self._config = config

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        answer = await self._ask(AskMemory("heard", limit=limit, wanted=WANTED.to_data(wanted)))
        return HEARD.from_data(answer["heard"])

    async def talks(self) -> Sequence[Talk]:
        return TALKS.from_data((await self._ask(AskMemory("talks")))["talks"])

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        return await self._notes.search(workspace, actor_key, query, limit)

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        return await self._notes.files(workspace, actor_key)

    async def forget(self) -> bool:
        return await self._notes.forget()

    async def status(self) -> MemoryStatus:
        return await self._notes.status()

    async def reindex(self) -> None:
        await self._notes.reindex()

    async def _ask(self, question: AskMemory) -> dict[str, Any]:
        from goclaw.clients.tui.client import attach  # most calls search no conversation

        try:
            async with attach(self._config.socket_path, f"tui:{login_name()}", limit=0) as client:
                return (await client.answer(question, MemoryFrame)).answer
        except GoclawError as error:
            raise ToolError(f"the daemon cannot search conversations now: {error}") from error
