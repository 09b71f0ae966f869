"""The composition root: the only module that knows every part. Opens them in order, closes them in reverse."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
from goclaw.config.files import lies_inside
from goclaw.config.schema import Config
from goclaw.engine.journal import Journal
from goclaw.engine.lanes import Lanes, open_lanes
from goclaw.engine.outbox import Outbox, open_outbox
from goclaw.errors import StateError
from goclaw.events import LOCAL, Actor
from goclaw.gateway import Gateway, GatewayPorts
from goclaw.health.disk import DiskGauge
from goclaw.llm.base import ModelPorts
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.net import open_client
from goclaw.plugins import load, third_party
from goclaw.sandbox.base import Sandbox
from goclaw.sandbox.select import open_sandbox
from goclaw.servers.socket import open_socket
from goclaw.sessions.flush import Flush, works_alone
from goclaw.sessions.greeting import greeting
from goclaw.sessions.models import Models
from goclaw.sessions.questions import QuestionPorts, Questions
from goclaw.sessions.service import SessionPorts, Sessions
from goclaw.sessions.status import Details
from goclaw.state import check_apart, open_state
from goclaw.store.checkpoints import CheckpointStore
from goclaw.store.database import Database, open_database
from goclaw.store.forgetting import Forgetting
from goclaw.store.retention import Retention
from goclaw.store.settings import Settings
from goclaw.store.spending import Spending
from goclaw.store.transcripts import Transcripts
from goclaw.supervise import background, keep_running
from goclaw.toolkit.dispatcher import Dispatcher
from goclaw.toolkit.registry import BuiltIn, Registry
from goclaw.users import Users, open_users, tool_warnings
from goclaw.workspace import Completion, Workspace

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""What running turns and deliveries get to end when the daemon is asked to; the rest is taken up at the next start."""
PRUNE_SECONDS = 24 * 3600.0
SPILL_SECONDS = 7 * 24 * 3600.0
"""How long a long output can be opened again."""


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
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def workspace(self, actor: Actor) -> Workspace:
        """The user's own workspace if users.json names one, else the configured one; made when it is missing."""
        root = self.root(actor.key)
        if root not in self._opened:
            async with self._opening:
                await self._open(root)
        return self._opened[root]

    def root(self, key: str) -> Path:
        """The folder of the workspace of the user with this key."""
        user = self.users.get(key)
        return (user.workspace if user and user.workspace else self.config.workspace_path).expanduser().absolute()

    async def _open(self, root: Path) -> None:
        if root not in self._opened:
            check_apart(self.config.state_dir, root)
            if lies_inside(self.config.users_path, root):
                raise StateError(f"the users file lies inside the workspace {root}: move one of them")
            await asyncio.to_thread(_prepare_workspace, root)
            self._opened[root] = await self.stack.enter_async_context(Workspace(root, _state_files(self.config)))


@dataclass(frozen=True, slots=True)
class Ground:
    """What everything else stands on."""

    config: Config
    clock: Clock
    users: Users
    access: Access
    bus: Bus
    database: Database
    environment: Environment
    ports: ModelPorts
    disk: DiskGauge
    vitals: Callable[[], Mapping[str, str]]
    """What whoever runs the daemon has to add to its status: name and text."""


@dataclass(frozen=True, slots=True)
class App:
    """The running daemon, for those who started it."""

    ground: Ground
    channels: Mapping[str, Channel]
    models: Models
    registry: Registry
    sessions: Sessions
    journal: Journal
    engine: Lanes
    outbox: Outbox


def _prepare_workspace(root: Path) -> None:
    try:
        if root.exists():
            return
        root.mkdir(parents=True, mode=0o700)
        write_templates(root)
    except OSError as error:
        raise StateError(f"the workspace {root} cannot be made: {error.strerror}") from error


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
async def open_app(
    config: Config,
    clock: Clock | None = None,
    *,
    with_channels: bool = True,
    vitals: Callable[[], Mapping[str, str]] = dict,
) -> AsyncIterator[App]:
    """The daemon, listening and answering while the block runs.

    Without channels it serves local clients only: for a command that opens the state for a moment. `vitals` adds lines
    to the status.

    Raises:
        ConfigError: something in the configuration or users.json cannot be used.
        StateError: the state folder cannot be used, or another daemon has it.
    """
    async with AsyncExitStack() as stack:
        ground = await _open_ground(stack, config, clock or RealClock(), vitals)
        channels = await _open_channels(stack, config, ground.ports) if with_channels else {}
        app = await _open_engine(stack, ground, channels)
        await _start(stack, app)
        yield app


async def _open_ground(
    stack: AsyncExitStack, config: Config, clock: Clock, vitals: Callable[[], Mapping[str, str]]
) -> Ground:
    stack.enter_context(open_state(config))
    users = await stack.enter_async_context(open_users(config.users_path, clock))
    database = await stack.enter_async_context(open_database(config.database_path))
    environment = await stack.enter_async_context(open_environment(config, users, clock))
    http = await stack.enter_async_context(open_client())
    return Ground(
        config=config,
        clock=clock,
        users=users,
        access=Access(users, config),
        bus=Bus(clock),
        database=database,
        environment=environment,
        ports=ModelPorts(http, environment.blobs.get, clock),
        disk=DiskGauge(config, clock),
        vitals=vitals,
    )


async def _open_engine(stack: AsyncExitStack, ground: Ground, channels: Mapping[str, Channel]) -> App:
    config, clock = ground.config, ground.clock
    outbox = await stack.enter_async_context(open_outbox(ground.database, channels, clock))
    settings = Settings(ground.database)
    models = Models(config, ground.ports, lambda line: log.warning("%s", line), settings)
    registry = Registry([BuiltIn()], ground.access)
    journal = Journal(ground.database)
    forgetting = Forgetting(ground.database)
    questions = QuestionPorts(ground.access, clock, ground.bus.publish, outbox.promise, journal.answer)
    sessions = Sessions(
        SessionPorts(
            config=config,
            clock=clock,
            bus=ground.bus,
            blobs=ground.environment.blobs,
            transcripts=Transcripts(ground.database),
            outbox=outbox,
            channels=channels,
            dispatcher=Dispatcher(registry, ground.access, ground.environment),
            environment=ground.environment,
            models=models,
            prompt=Prompt(),
            checkpoints=CheckpointStore(ground.database),
            flush=Flush(config.memory.flush, settings, ground.access, ground.environment, partial(_is_alone, ground)),
            forgetting=forgetting,
            retention=Retention(ground.database, forgetting),
            questions=Questions(questions),
            settings=settings,
            spending=Spending(ground.database),
        )
    )
    engine = await stack.enter_async_context(open_lanes(journal, outbox, sessions.run, sessions.failed, clock))
    return App(ground, channels, models, registry, sessions, journal, engine, outbox)


def _is_alone(ground: Ground, actor: Actor) -> bool:
    """Whether nobody but the actor works in the actor's workspace."""
    return works_alone(actor.key, (user.key for user in ground.users.all()), ground.environment.root)


async def _open_channels(stack: AsyncExitStack, config: Config, ports: ModelPorts) -> dict[str, Channel]:
    """The channels that the configuration wants."""
    channels: dict[str, Channel] = {}
    for name, path in {**catalog.CHANNELS, **third_party("channels")}.items():
        part = load(path, ChannelPart)
        if part.enabled(config):
            outside = ChannelPorts(ports.http, ports.clock, ports.load_image)
            channels[name] = await stack.enter_async_context(part.open(config, outside))
    return channels


def _rights(app: App, actor: Actor) -> str:
    """What an actor may do, in words, for /whoami."""
    tools = ", ".join(spec.name for spec in app.registry.visible_to(actor)) or "none"
    return f"Role: {'admin' if app.ground.access.is_admin(actor) else 'user'}\nTools: {tools}"


async def _details(app: App, session: str) -> Details:
    """More for the status of a session."""
    lines = {name.capitalize(): channel.health() for name, channel in app.channels.items()}
    lines["Queue"] = f"{app.engine.waiting(session)} waiting, {app.outbox.waiting()} deliveries under way"
    disk = await app.ground.disk.use()
    lines |= {"Disk": disk.text(), **app.ground.vitals()}
    if app.ground.users.problem:
        lines["Users"] = f"users.json is broken, the last good version is in force: {app.ground.users.problem}"
    return Details(lines, {"disk": disk.numbers()})


def _gateway(app: App) -> Gateway:
    completion = Completion(app.ground.clock)

    async def files(actor: Actor, begun: str) -> Sequence[str]:
        return await completion.matching(await app.ground.environment.workspace(actor), begun)

    ports = CommandPorts(
        access=app.ground.access,
        sessions=app.sessions,
        engine=app.engine,
        clock=app.ground.clock,
        visible=lambda actor: gateway.commands(actor),
        details=lambda session: _details(app, session),
        report=lambda inbound, text: gateway.report(inbound, text),
        rights=lambda actor: _rights(app, actor),
        readable=lambda actor: gateway.sessions(actor),
    )
    gateway = Gateway(
        GatewayPorts(
            access=app.ground.access,
            bus=app.ground.bus,
            clock=app.ground.clock,
            commands={
                name: load(path, Command) for name, path in {**catalog.COMMANDS, **third_party("commands")}.items()
            },
            command_ports=ports,
            database=app.ground.database,
            engine=app.engine,
            files=files,
            journal=app.journal,
            limits=app.ground.config.limits,
            outbox=app.outbox,
            transcripts=Transcripts(app.ground.database),
        )
    )
    return gateway


async def _start(stack: AsyncExitStack, app: App) -> None:
    """Everything is open: take up what was left, then let the world in. Ends in the opposite order.

    What was left comes first, so that nobody's new message overtakes an old one of the same session.
    """
    ground = app.ground
    known = [*catalog.TOOLS, *third_party("tools")]
    for warning in tool_warnings(ground.config.users_path, ground.users.all(), known):
        log.warning("%s", warning)
    await app.sessions.restore()
    turns, deliveries = await app.engine.resume({LOCAL, *app.channels}), await app.outbox.resume()
    if turns or deliveries:
        log.info("taking up %d turns and %d deliveries from before", turns, deliveries)
    gateway = _gateway(app)
    await stack.enter_async_context(
        open_socket(
            ground.config.socket_path,
            gateway,
            ground.clock,
            greeting=partial(greeting, app.models, ground.config, ground.users, ground.environment.sandbox),
        )
    )
    stack.push_async_callback(_wind_down, app)
    for name, channel in app.channels.items():
        work = keep_running(name, partial(channel.run, gateway), ground.clock)
        await stack.enter_async_context(background(work, f"channel {name}"))
    await stack.enter_async_context(background(app.models.resolve(), "looking for models"))
    debts = keep_running("owed summaries", app.sessions.debts.run, ground.clock)
    await stack.enter_async_context(background(debts, "owed summaries"))
    aside = keep_running("checkpoints", app.sessions.aside.run, ground.clock)
    await stack.enter_async_context(background(aside, "checkpoints"))
    await stack.enter_async_context(background(_prune(app), "pruning"))


async def _wind_down(app: App) -> None:
    """The channels take nothing in any more: let turns and deliveries end for a while."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await app.engine.idle(but_parked=True)
    if left := app.engine.busy():
        log.warning("not finished, taken up at the next start: the turns of %d session(s)", left)
    if not await app.outbox.flush(GRACE_SECONDS):
        log.warning("%d deliveries are left for the next start", app.outbox.waiting())


async def _prune(app: App) -> None:
    """Forget what nobody can ask for any more, once a day."""
    while True:
        try:
            await app.journal.prune(app.ground.clock.now())
            await app.outbox.prune()
            # Pictures stay while a conversation refers to them.
            await app.ground.environment.blobs.sweep(math.inf, spill_ttl=SPILL_SECONDS)
            await app.sessions.forgetter.prune()
        except StateError as error:
            log.warning("old receipts could not be removed: %s", error)
        await app.ground.clock.sleep(PRUNE_SECONDS)
