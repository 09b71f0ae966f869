"""The composition root: the only module that knows every part. Opens them in order, closes them in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from goclaw import catalog
from goclaw.access import Access
from goclaw.agent.prompt import Prompt, write_templates
from goclaw.blobs import Blobs, open_blobs
from goclaw.bus import Bus
from goclaw.channels.base import Channel, ChannelPart, ChannelPorts
from goclaw.clock import Clock, RealClock
from goclaw.commands.base import Command, CommandPorts
from goclaw.config.schema import Config
from goclaw.engine.journal import Journal
from goclaw.engine.lanes import Lanes, open_lanes
from goclaw.engine.outbox import Outbox, open_outbox
from goclaw.errors import StateError
from goclaw.events import Actor
from goclaw.gateway import Gateway, GatewayPorts
from goclaw.llm.base import ModelPorts
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.net import open_client
from goclaw.plugins import load, third_party
from goclaw.sandbox.base import Sandbox
from goclaw.sandbox.select import open_sandbox
from goclaw.servers.socket import open_socket
from goclaw.sessions.models import Models, open_models
from goclaw.sessions.service import SessionPorts, Sessions
from goclaw.state import open_state
from goclaw.store.database import Database, open_database
from goclaw.store.transcripts import Transcripts
from goclaw.supervise import background, keep_running
from goclaw.toolkit.dispatcher import Dispatcher
from goclaw.toolkit.registry import BuiltIn, Registry
from goclaw.users import Users, open_users, tool_warnings
from goclaw.workspace import Workspace

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""What running turns and deliveries get to end when the daemon is asked to; the rest is taken up at the next start."""


@dataclass(slots=True)
class Environment:
    """What tools stand on. Implements `toolkit.base.ToolEnvironment`."""

    config: Config
    clock: Clock
    users: Users
    blobs: Blobs
    memory: MemoryPort
    sandbox: Sandbox
    stack: AsyncExitStack
    _opened: dict[Path, Workspace] = field(default_factory=dict)

    async def workspace(self, actor: Actor) -> Workspace:
        """The user's own workspace if users.json names one, else the configured one; made when it is missing."""
        user = self.users.get(actor.key)
        root = (user.workspace if user and user.workspace else self.config.workspace_path).expanduser().absolute()
        if root not in self._opened:
            await asyncio.to_thread(_prepare_workspace, root)
            workspace = await self.stack.enter_async_context(Workspace(root, _state_files(self.config)))
            self._opened.setdefault(root, workspace)
        return self._opened[root]


@dataclass(frozen=True, slots=True)
class App:
    """The running daemon, for those who started it."""

    config: Config
    gateway: Gateway
    sessions: Sessions
    engine: Lanes
    outbox: Outbox
    channels: Mapping[str, Channel]
    models: Models


def _prepare_workspace(root: Path) -> None:
    if not root.exists():
        root.mkdir(parents=True, mode=0o700)
        write_templates(root)


def _state_files(config: Config) -> list[Path]:
    """Files of the daemon that no tool may touch, under whatever name they can be reached."""
    database = config.database_path
    names = [database, database.with_name(f"{database.name}-wal"), database.with_name(f"{database.name}-shm")]
    secrets = config.state_dir / "secrets"
    kept = [config.users_path, config.state_dir / "config.yaml", config.state_dir / "memory.db", config.socket_path]
    return [*names, *kept, *(secrets.glob("*") if secrets.is_dir() else ())]


@asynccontextmanager
async def open_environment(config: Config, users: Users, clock: Clock) -> AsyncIterator[Environment]:
    """The parts that tools stand on: enough for `goclaw tool run`, and a part of the daemon."""
    async with AsyncExitStack() as stack:
        environment = Environment(
            config=config,
            clock=clock,
            users=users,
            blobs=await stack.enter_async_context(open_blobs(config.state_dir / "blobs", clock)),
            memory=await stack.enter_async_context(open_memory(config.state_dir / "memory.db", config.memory)),
            sandbox=await stack.enter_async_context(open_sandbox(config.tools.exec)),
            stack=stack,
        )
        yield environment


@asynccontextmanager
async def open_app(config: Config, clock: Clock | None = None, *, with_channels: bool = True) -> AsyncIterator[App]:
    """The daemon, listening and answering while the block runs.

    Without channels it serves local clients only: for a command that opens the state for a moment.

    Raises:
        ConfigError: something in the configuration or users.json cannot be used.
        StateError: the state folder cannot be used, or another daemon has it.
    """
    clock = clock or RealClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(open_state(config))
        users = await stack.enter_async_context(open_users(config.users_path, clock))
        database = await stack.enter_async_context(open_database(config.database_path))
        environment = await stack.enter_async_context(open_environment(config, users, clock))
        access = Access(users, config)
        bus = Bus()
        http = await stack.enter_async_context(open_client())
        ports = ModelPorts(http, environment.blobs.get, clock)
        channels = await _open_channels(stack, config, ports) if with_channels else {}
        outbox = await stack.enter_async_context(open_outbox(database, channels, clock))
        models = await stack.enter_async_context(open_models(config, ports, lambda line: log.warning("%s", line)))
        registry = Registry([BuiltIn()], access)
        dispatcher = Dispatcher(registry, access, environment)
        sessions = Sessions(
            SessionPorts(
                config=config,
                clock=clock,
                bus=bus,
                blobs=environment.blobs,
                transcripts=Transcripts(database),
                outbox=outbox,
                channels=channels,
                dispatcher=dispatcher,
                environment=environment,
                models=models,
                prompt=Prompt(),
            )
        )
        journal = Journal(database)
        engine = await stack.enter_async_context(open_lanes(journal, outbox, sessions.run, sessions.failed, clock))
        gateway = _gateway(
            _Parts(
                config,
                clock,
                users,
                access,
                bus,
                database,
                journal,
                engine,
                outbox,
                sessions,
                channels,
                models,
                registry,
            )
        )
        await stack.enter_async_context(
            open_socket(config.socket_path, gateway, clock, greeting=lambda: models.sentence)
        )
        app = App(config, gateway, sessions, engine, outbox, channels, models)
        await _start(stack, app, users, journal, clock)
        yield app


async def _open_channels(stack: AsyncExitStack, config: Config, ports: ModelPorts) -> dict[str, Channel]:
    """The channels that the configuration wants."""
    channels: dict[str, Channel] = {}
    for name, path in {**catalog.CHANNELS, **third_party("channels")}.items():
        part = load(path, ChannelPart)
        if part.enabled(config):
            outside = ChannelPorts(ports.http, ports.clock, ports.load_image)
            channels[name] = await stack.enter_async_context(part.open(config, outside))
    return channels


@dataclass(frozen=True, slots=True)
class _Parts:
    config: Config
    clock: Clock
    users: Users
    access: Access
    bus: Bus
    database: Database
    journal: Journal
    engine: Lanes
    outbox: Outbox
    sessions: Sessions
    channels: Mapping[str, Channel]
    models: Models
    registry: Registry


def _rights(parts: _Parts, actor: Actor) -> str:
    """What an actor may do, in words, for /whoami."""
    tools = ", ".join(spec.name for spec in parts.registry.visible_to(actor)) or "none"
    return f"Role: {'admin' if parts.access.is_admin(actor) else 'user'}\nTools: {tools}"


def _gateway(parts: _Parts) -> Gateway:
    commands = {name: load(path, Command) for name, path in {**catalog.COMMANDS, **third_party("commands")}.items()}

    def details(session: str) -> Mapping[str, str]:
        lines = {name.capitalize(): channel.health() for name, channel in parts.channels.items()}
        lines["Queue"] = f"{parts.engine.waiting(session)} waiting, {parts.outbox.waiting()} deliveries under way"
        if parts.users.problem:
            lines["Users"] = f"users.json is broken, the last good version is in force: {parts.users.problem}"
        return lines

    ports = CommandPorts(
        sessions=parts.sessions,
        engine=parts.engine,
        clock=parts.clock,
        visible=lambda actor: gateway.commands(actor),
        details=details,
        report=lambda inbound, text: gateway.report(inbound, text),
        rights=lambda actor: _rights(parts, actor),
    )
    gateway = Gateway(
        GatewayPorts(
            access=parts.access,
            bus=parts.bus,
            clock=parts.clock,
            commands=commands,
            command_ports=ports,
            database=parts.database,
            engine=parts.engine,
            journal=parts.journal,
            limits=parts.config.limits,
            outbox=parts.outbox,
            transcripts=Transcripts(parts.database),
        )
    )
    return gateway


async def _start(stack: AsyncExitStack, app: App, users: Users, journal: Journal, clock: Clock) -> None:
    """Everything is open: take up what was left, then let the world in. Ends in the opposite order."""
    stack.push_async_callback(_wind_down, app)
    for warning in tool_warnings(app.config.users_path, users.all(), app.sessions.tools):
        log.warning("%s", warning)
    turns, deliveries = await app.engine.resume(), await app.outbox.resume()
    if turns or deliveries:
        log.info("taking up %d turns and %d deliveries from before", turns, deliveries)
    for name, channel in app.channels.items():
        work = keep_running(name, partial(channel.run, app.gateway), clock)
        await stack.enter_async_context(background(work, f"channel {name}"))
    await stack.enter_async_context(background(_prune(journal, app.outbox, clock), "pruning"))


async def _wind_down(app: App) -> None:
    """The channels take nothing in any more: let turns and deliveries end for a while."""
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await app.engine.idle()
    except TimeoutError:
        log.warning("%d turns are unfinished; they will be taken up at the next start", app.engine.busy())
    if not await app.outbox.flush(GRACE_SECONDS):
        log.warning("%d deliveries are left for the next start", app.outbox.waiting())


async def _prune(journal: Journal, outbox: Outbox, clock: Clock) -> None:
    while True:
        try:
            await journal.prune(clock.now())
            await outbox.prune()
        except StateError as error:
            log.warning("old receipts could not be removed: %s", error)
        await clock.sleep(24 * 3600.0)
