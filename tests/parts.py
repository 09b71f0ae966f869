"""What the harness is built of: a database that dies on order, models that a test made, an environment for tools."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, cast

from sqlalchemy import text

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import TasksSettings
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import Message, ToolResult
from goclaw.common.net.pages.base import NoWeb, Web
from goclaw.common.specs import Confirmation, SideEffect
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.conversation.agent.context.compaction import Summarizer, SummarySource
from goclaw.conversation.agent.context.model_messages import MarkKind
from goclaw.conversation.sessions.models import AvailableModel, Models
from goclaw.durable.store.blobs import Blobs
from goclaw.durable.store.database import BoundStatement, Database, Row, Statement, StatementResult
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.errors import SandboxUnavailable, StateError
from goclaw.llm.base import ChatModel, Looking
from goclaw.llm.served import ServedModels
from goclaw.memory.base import MemoryPort, NoMemory
from goclaw.tools.execution.sandbox.base import Policy, Process, Sandbox, SandboxCommand
from goclaw.tools.execution.tasks.base import Tasks
from goclaw.tools.execution.tasks.room import NoRecord, TaskRoom
from goclaw.tools.toolkit.base import Tool, ToolContext, tool

Watch = Callable[[str, int], None]
"""Told before and after each write: the name of the moment, and the number of the write."""


def _unwatched(moment: str, write: int) -> None:
    """Where no moment is kept."""


@cache
def sql(words: str, **values: Any) -> BoundStatement:
    """A statement in SQL that both stores know, with `:name` for each value."""
    return Statement(text(words))(**values)


def new_database() -> bytes:
    """A database as GoClaw makes it: making one anew for each test costs more than most tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "goclaw.db"
        migrate(path)
        return path.read_bytes()


class Mortal(Database):
    """A database whose process dies at a chosen write: from then on nothing returns."""

    def __init__(
        self, inner: Database, die_before: int | None, die_after: int | None, watch: Watch | None = None
    ) -> None:
        self._inner = inner
        self._die_before, self._die_after = die_before, die_after
        self._watch = watch or _unwatched
        self.writes = 0
        self.full = False
        """Refuse every write, as when the disk is full."""
        self.dead = asyncio.Event()
        self.buried = asyncio.Event()
        """End everything that still waits for a write: the test has seen enough."""

    async def write(self, *statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
        await self._breathe()
        if self.full:
            raise StateError("the database cannot be written: database or disk is full")
        self.writes += 1
        number = self.writes
        if number == self._die_before:
            await self._die()
        self._watch(f"before write {number}", number)
        results = await self._inner.write(*statements, durable=durable)
        self._watch(f"after write {number}", number)
        if number == self._die_after:
            await self._die()
        await self._breathe()
        return results

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        await self._breathe()
        return await self._inner.read(statement)

    async def rewrite(self) -> bool:
        await self._breathe()
        return await self._inner.rewrite()

    async def _breathe(self) -> None:
        if self.dead.is_set():
            await self._die()

    async def _die(self) -> NoReturn:
        self.dead.set()
        await self.buried.wait()
        raise StateError("the process is dead")


class GivenModels(Models):
    """Models that a test made itself; they look at their servers before their first request, as others do."""

    def __init__(self, main: ChatModel, summary: ChatModel | None = None, spec: str = "ollama:qwen2.5:7b") -> None:
        self._main, self._given_summary = main, summary
        self.served = ServedModels()
        self.sentence = f"Model: {main.spec}, as the test wants it."
        self.summary_specs = (spec,) if summary else ()

    async def agent(self, session: str = "") -> ChatModel:
        if isinstance(self._main, Looking):
            await self._main.look()
        return self._main

    async def choice_for(self, session: str) -> str:
        return ""

    def forget(self, session: str) -> None:
        """Nothing is chosen here."""

    async def choices(self) -> tuple[Sequence[AvailableModel], Sequence[str]]:
        return [AvailableModel(self._main.spec, "given", configured=True)], []

    @property
    def main(self) -> str:
        return self._main.spec

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        first = [Summarizer(SummarySource.LLM, self._given_summary)] if self._given_summary else []
        return first if self.is_demo else [*first, Summarizer(SummarySource.FALLBACK, self._main)]


class NoSandbox:
    """For tools that run no command."""

    tier = "none"

    def run(self, command: SandboxCommand, policy: Policy) -> AbstractAsyncContextManager[Process]:
        raise SandboxUnavailable("this test runs no command")


def no_tasks() -> TaskRoom:
    """Background tasks for tools that start none."""
    refusal = "nothing can run in the background here"
    return TaskRoom(cast(Blobs, None), RealClock(), TasksSettings(), NoRecord(), refusal)


@dataclass(frozen=True)
class Environment:
    """What tools stand on. Implements `toolkit.base.ToolEnvironment`."""

    config: Config
    clock: Clock
    blobs: Blobs
    the_workspace: Workspace
    sandbox: Sandbox = field(default_factory=NoSandbox)
    memory: MemoryPort = field(default_factory=NoMemory)
    tasks: Tasks = field(default_factory=no_tasks)
    web: Web = field(default_factory=NoWeb)
    audited: list[AuditEntry] = field(default_factory=list)
    approved_files: ApprovedFiles = field(default_factory=ApprovedFiles)

    def audit(self, entry: AuditEntry) -> None:
        self.audited.append(entry)

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        return self.the_workspace


@dataclass(frozen=True)
class Tools:
    """A `ToolSource`."""

    listed: Sequence[Tool]

    def tools(self) -> Sequence[Tool]:
        return self.listed


def acting(
    name: str, act: Callable[[], Awaitable[str]], *, idempotent: bool = True, confirm: Confirmation | None = None
) -> Tool:
    """A tool without arguments that does what the test says."""

    async def run(ctx: ToolContext) -> str:
        """Do what the test says."""
        return await act()

    return tool(side_effect=SideEffect.READ_ONLY, name=name, idempotent=idempotent, confirm=confirm)(run)


@dataclass
class Trail:
    """An effect that can be counted, and held up."""

    result: str = "done"
    times: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0

    async def leave(self) -> str:
        """Count, and return at once."""
        self.times += 1
        return self.result

    async def leave_slowly(self) -> str:
        """Count, and return when the gate opens."""
        self.times += 1
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.result


def unmarked(messages: Sequence[Message]) -> list[Message]:
    """Messages of a request without the marks around what tools said, and without the line that explains them."""
    return [
        replace(message, content="\n".join(message.content.removeprefix(f"{MarkKind.OUTSIDE}\n").splitlines()[1:-1]))
        if isinstance(message, ToolResult) and message.foreign
        else message
        for message in messages
    ]
