"""The core of the daemon in one process, on real files, that a test can kill at any write and open again.

    world = World(tmp_path, [Answer("Hello")])
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    assert world.texts() == ["Hello"]

A `World` is what survives a kill: the disk, the chat, the model, the tools' effects. The end of a `running` block is
always a kill: nothing is wound down, nothing more is written.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from goclaw.channels.memory import HERE, MemoryChannel, Room
from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.audit_chain import Blanking
from goclaw.common.auth.users import User, Users
from goclaw.common.auth.web_logins import WebLogins
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.events import LOCAL, Acceptance, Actor, Inbound, NoAlerts, TurnEvent
from goclaw.common.core.messages import Message
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import background
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.turns.service import Sessions
from goclaw.conversation.turns.status import Details
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes, open_lanes
from goclaw.durable.engine.machine_faults import Outage
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.tasks import TaskRows
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import StateError
from goclaw.gateway.intake.commands.base import Command
from goclaw.gateway.intake.gateway import Gateway
from goclaw.llm.base import ChatModel
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.llm.transcription import Transcriber
from goclaw.memory.base import MemoryPort, NoMemory
from goclaw.program.app.running import notify_of_end
from goclaw.program.app.sessions import SessionParts, build_sessions
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.room import TaskRoom, TasksOnDisk, open_tasks
from goclaw.tools.hooks.base import Hooks
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import BUILT_IN, Named, Sources
from goclaw.tools.toolkit.tool_docs import ToolListing
from tests.parts import Environment, GivenModels, Mortal, NoSandbox, Tools, Watch, new_database

OWNER = Actor("tui:me", "socket", owner=True)
LOOK_SECONDS = 0.001
PATIENCE = 30.0
"""Seconds that a test waits for what should take milliseconds; machines of CI are slow at times."""


async def before_the_next_look() -> None:
    """Pause before looking again at what has no event: without one the processor is taken from those waited for."""
    await RealClock().sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class Core:
    """The running core."""

    database: Mortal
    room: Room
    bus: Bus
    gateway: Gateway
    engine: Lanes
    outbox: Outbox
    sessions: SessionParts
    transcripts: Transcripts
    seen: list[TurnEvent]
    """Everything that was published, oldest first."""
    schedules: Schedules
    turns: Sessions

    async def say(self, text: str, **options: Any) -> Acceptance:
        """Write from the chat `here` (see `Room.say`)."""
        return await self.room.say(text, **options)

    async def command(self, text: str, **options: Any) -> str:
        """Send a command and return its answer."""
        async with asyncio.timeout(PATIENCE):
            return (await self.say(text, **options)).text

    async def settled(self) -> None:
        """Wait until nothing is left to do, or the process is dead."""
        quiet = asyncio.ensure_future(self._quiet())
        dead = asyncio.ensure_future(self.database.dead.wait())
        try:
            done, _ = await asyncio.wait({quiet, dead}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            quiet.cancel()
            dead.cancel()
        assert done, "the core does not come to rest"

    async def waits_for_the_disk(self) -> None:
        """Wait until a turn does."""
        async with asyncio.timeout(PATIENCE):
            while not self.engine.count_waiting_for_disk():  # the engine has no event for it
                await before_the_next_look()

    async def settled_in(self, clock: SteppedClock) -> None:
        """Let time pass until nothing is left to do."""
        async with asyncio.timeout(PATIENCE):
            while self.engine.busy() or self.outbox.waiting():
                clock.advance(10)
                await (asyncio.sleep(0) if clock.sleepers else before_the_next_look())

    async def _quiet(self) -> None:
        while self.engine.busy() or self.outbox.waiting():
            await self.engine.idle()
            await self.outbox.flush(PATIENCE)

    async def messages(self, session: str = "memory:here") -> list[Message]:
        """The transcript, oldest first."""
        return [stored.message for stored in await self.transcripts.history(session, 0, 1_000)]


class World:
    """Everything that outlives the process."""

    def __init__(
        self,
        folder: Path,
        answers: Sequence[Answer] = (),
        *,
        tools: Sequence[Tool] = (),
        users: Sequence[User] = (),
        model: ChatModel | None = None,
        summary: ChatModel | None = None,
        transcriber: Transcriber | None = None,
        **config: Any,
    ) -> None:
        self.folder = folder
        self.clock = SteppedClock()
        self.script = ScriptedModel(answers, clock=self.clock)
        self.models: Models = GivenModels(model or self.script, summary)
        self.transcriber = transcriber
        self.tools = Tools(tools)
        self.sources = Sources([Named(BUILT_IN, self.tools)])
        self.users = Users(users)
        self.room = Room()
        self.audited: list[AuditEntry] = []
        self.blanked: list[Blanking] = []
        """The words of the audit log that were to go."""
        self.sandbox: Sandbox = NoSandbox()
        self.memory: MemoryPort = NoMemory()
        self.hooks = Hooks()
        self.approved_files = ApprovedFiles()
        self.open_logins: Callable[[Settings], WebLogins | None] = lambda settings: None
        self.logins: WebLogins | None = None
        """Pages that ask to be let in, where a test has any: of the newest life."""
        self.details = Details({})
        """What the status says beside the session and its queue."""
        self.config = Config.model_validate({"state_dir": folder / "state", **config})
        self.is_alone: Callable[[Actor, str], bool] = lambda actor, session: True
        """Return whether no other person works in an actor's workspace."""
        self.root = folder / "workspace"
        self.notes = folder / "state" / "notes"
        self.root.mkdir(exist_ok=True)

    def texts(self) -> list[str]:
        """What arrived in the chat, oldest first."""
        return [heard.delivery.text for heard in self.room.all]

    def prepare(self) -> None:
        """Create a new database unless one exists."""
        path = self.folder / "goclaw.db"
        if not path.exists():
            path.write_bytes(new_database())
            path.chmod(0o600)

    async def _environment(self, stack: AsyncExitStack, disk: Database, blobs: Blobs) -> tuple[Environment, TaskRoom]:
        """What tools stand on, and the room of their tasks."""
        workspace = await stack.enter_async_context(Workspace(self.root, notes=self.notes))
        # Not through the database that dies: what a task writes comes when it likes, and would be counted.
        record = TasksOnDisk(TaskRows(disk))
        tasks = await stack.enter_async_context(open_tasks(blobs, self.clock, self.config.tools.tasks, record))
        return Environment(
            *(self.config, self.clock, blobs, workspace, self.sandbox, self.memory),
            tasks=tasks,
            audited=self.audited,
            approved_files=self.approved_files,
        ), tasks

    async def _blank_audit(self, wanted: Blanking) -> bool:
        self.blanked.append(wanted)
        return True

    @asynccontextmanager
    async def running(
        self, *, die_before: int | None = None, die_after: int | None = None, watch: Watch | None = None
    ) -> AsyncIterator[Core]:
        """Start on what is on the disk; kill at the end of the block, or at write number `die_before` or after it.

        `watch` is told of each write (see `tests.kills`, which keeps all its moments in one life).
        """
        self.prepare()
        async with AsyncExitStack() as stack:
            disk = await stack.enter_async_context(open_database(self.folder / "goclaw.db"))
            database = Mortal(disk, die_before, die_after, watch)
            blobs = await stack.enter_async_context(open_blobs(self.folder / "blobs", self.clock))
            environment, tasks = await self._environment(stack, disk, blobs)
            channel = MemoryChannel(self.room, self.clock)
            outbox = await stack.enter_async_context(open_outbox(database, {channel.name: channel}, self.clock))
            access, bus, seen = Access(self.users, self.config), Bus(self.clock), list[TurnEvent]()
            tasks.on_end(partial(notify_of_end, bus, outbox))
            journal = Journal(database)
            outage = Outage({channel.name: channel}, bus.publish, NoAlerts(), self.clock)

            async def told_alive(inbound: Inbound, error: StateError) -> None:
                if not database.dead.is_set():
                    await outage.on_delay(inbound, error)

            engine = await stack.enter_async_context(open_lanes(journal, outbox, self.clock, told_alive))
            sessions = build_sessions(
                database,
                access=access,
                blank_audit=self._blank_audit,
                bus=bus,
                engine=engine,
                environment=environment,
                hooks=self.hooks,
                is_alone=self.is_alone,
                journal=journal,
                models=self.models,
                outbox=outbox,
                registry=Registry([self.tools], access),
                transcriber=self.transcriber,
                users=self.users,
            )
            gateway, schedules = gateway_of(self, database, engine, sessions, outage), sessions.schedules
            turns = sessions.turns(gateway)
            begun: list[asyncio.Task[None]] = []
            stack.push_async_callback(_ended, begun)
            stack.callback(database.buried.set)
            stack.callback(database.dead.set)
            await stack.enter_async_context(background(_watch(bus, seen), "watching"))
            begun.append(asyncio.create_task(_begin(sessions, turns, journal, outbox, engine, channel.name)))
            await _until_dead(begun[0], database)
            await stack.enter_async_context(background(channel.run(gateway), "room"))
            await stack.enter_async_context(background(schedules.scheduler.run(), "schedules"))
            yield Core(
                *(database, self.room, bus, gateway, engine, outbox, sessions, Transcripts(database), seen, schedules),
                turns,
            )


async def _begin(
    sessions: SessionParts, turns: Sessions, journal: Journal, outbox: Outbox, engine: Lanes, channel: str
) -> None:
    """Take up what is on the disk, as the daemon does at its start."""
    await turns.restore()
    sessions.ports.questions.restore(await journal.list_open_questions())
    await outbox.resume()
    await engine.resume(turns.handler, {channel, LOCAL})


async def _until_dead(beginning: "asyncio.Task[None]", database: Mortal) -> None:
    """Wait for the start, or for the death of the process in the middle of it, after which nothing of it returns."""
    dead = asyncio.create_task(database.dead.wait())
    await asyncio.wait({beginning, dead}, return_when=asyncio.FIRST_COMPLETED)
    dead.cancel()
    if beginning.done():
        beginning.result()


async def _ended(begun: "list[asyncio.Task[None]]") -> None:
    """A start in whose middle the process died ends when that is buried; what it says then does not matter."""
    if begun and not begun[0].done():
        await asyncio.wait(begun)
        begun[0].exception()


def gateway_of(world: World, database: Database, engine: Lanes, sessions: SessionParts, outage: Outage) -> Gateway:
    """The gateway, wired as `app` does it."""

    async def details(session: str) -> Details:
        queue = {"Queue": f"{engine.waiting(session)} waiting"}
        return replace(world.details, lines={**queue, **world.details.lines})

    world.logins = world.open_logins(sessions.ports.store.settings)
    ports = sessions.command_ports(
        details=details,
        engine=engine,
        rights=lambda actor, _: f"Role: {'admin' if sessions.access.is_admin(actor) else 'user'}",
        logins=world.logins,
        tools=ToolListing(sessions.ports.dispatcher.registry, world.sources),
    )
    return Gateway(
        ports,
        known={name: load(path, Command) for name, path in catalog.COMMANDS.items()},
        database=database,
        completion=no_files,
        journal=sessions.ports.store.journal,
        queries=None,
        outage=outage,
        outbox=sessions.ports.outbox,
        transcripts=sessions.ports.store.transcripts,
    )


async def no_files(actor: Actor, begun: str) -> Sequence[str]:
    """Nothing to complete."""
    return ()


async def _watch(bus: Bus, seen: list[TurnEvent]) -> None:
    async with bus.subscribe(None) as events:
        async for event in events:
            seen.append(event)


__all__ = ["HERE", "PATIENCE", "Answer", "Core", "GivenModels", "Mortal", "Tools", "World"]
