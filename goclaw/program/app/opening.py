"""Opens every part in order and closes them in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from goclaw.channels.base import Channel, ChannelPorts, Routes
from goclaw.channels.open import open_channels
from goclaw.common.auth.access import Access
from goclaw.common.auth.users import open_users
from goclaw.common.config.load import CONFIG_FILE
from goclaw.common.config.schema import Config
from goclaw.common.config.state import USED_STORE, commit_upgrade, open_state
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import Actor
from goclaw.common.health.readiness import Probe
from goclaw.common.health.resources import DiskGauge
from goclaw.common.net import open_client
from goclaw.conversation.compaction.maintenance import works_alone
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.turns.stuck import StuckTurns
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import open_lanes
from goclaw.durable.engine.machine_faults import Outage
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.engine.sessions import sessions_of
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.file_writer import file_writer
from goclaw.durable.store.open import former_store, note_store, open_database, open_shared_files
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.tasks import TaskRows
from goclaw.gateway.intake.alerts import AlertDesk
from goclaw.llm.base import ModelPorts
from goclaw.llm.open import check_caching
from goclaw.llm.transcription import TranscriberPorts, open_transcriber
from goclaw.program.app.parts import App, Foundation, ProcessFacts, Quickstart, Storage, open_environment
from goclaw.program.app.running import start
from goclaw.program.app.sessions import build_sessions
from goclaw.tools.execution.tasks.room import TasksOnDisk
from goclaw.tools.hooks.open import open_hooks
from goclaw.tools.toolkit.parts import PackageParts
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import open_sources
from goclaw.tools.toolkit.tool_docs import ToolListing

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_app(
    config: Config,
    clock: Clock | None = None,
    *,
    with_channels: bool = True,
    vitals: Callable[[], Mapping[str, str]] = dict,
    counts: Callable[[], Mapping[str, float]] = dict,
    config_file: Path | None = None,
    parts: PackageParts | None = None,
    begun: Mapping[str, object] | None = None,
) -> AsyncIterator[App]:
    """Yield the daemon, listening and answering while the block runs.

    Without channels it serves local clients only, and no other gateway may use the store: for a command that opens the
    state for a moment. `vitals` adds lines to the status, `counts` numbers to that for machines. `config_file`: what
    `config` was read from, if anything was. `parts`: what packages declare, which `config` holds already. `begun`:
    things the channels have begun; then the caller holds the state folder.

    Raises:
        ConfigError: something in the configuration or users.json cannot be used.
        StateError: the state folder cannot be used, or another daemon has it.
    """
    check_caching(config)
    async with AsyncExitStack() as stack:
        if begun is None:
            stack.enter_context(open_state(config))
        foundation = await _open_ground(
            *(stack, config, clock or RealClock(), vitals, counts, parts or PackageParts()), alone=not with_channels
        )
        channels: Mapping[str, Channel] = {}
        faults: dict[str, str] = {}
        if with_channels:
            ports = partial(_channel_ports, foundation)
            channels = await stack.enter_async_context(open_channels(config, ports, begun or {}, faults.__setitem__))
        app = await _open_engine(stack, foundation, channels, config_file or config.state_dir / CONFIG_FILE)
        for what, fault in faults.items():
            foundation.tools.sources.report(what, fault)
        # From here on turns go on, deliveries go out, and channels acknowledge.
        commit_upgrade(config)
        await start(stack, app, alone=not with_channels)
        yield app


FORMER_STORE = (
    "%s was last used with %s, but `store` is no longer set: this gateway now uses its own SQLite file. Set `store` "
    "again, or copy the conversations here with `goclaw store copy --to sqlite`. To keep things as they are, delete %s"
)


async def _open_ground(
    stack: AsyncExitStack,
    config: Config,
    clock: Clock,
    vitals: Callable[[], Mapping[str, str]],
    counts: Callable[[], Mapping[str, float]],
    parts: PackageParts,
    *,
    alone: bool,
) -> Foundation:
    if former := await asyncio.to_thread(former_store, config):
        log.warning(FORMER_STORE, config.state_dir, former, config.state_dir / USED_STORE)
    database = await stack.enter_async_context(open_database(config.store_place, alone=alone))
    await asyncio.to_thread(note_store, config)
    await database.join(config.replica)
    clock = database.clock_of(clock)
    files = await stack.enter_async_context(open_shared_files(config.store_place, database, config.state_dir, clock))
    users = await stack.enter_async_context(open_users(config.users_path, clock))
    if files is not None:
        files.on_copy(users.refresh)
    feed = TranscriptFeed(database)
    database.written, database.deleted = feed.wake, feed.on_deletion
    access = Access(users, config)
    sources = await stack.enter_async_context(open_sources(config, clock, parts))
    tools = ToolListing(Registry([sources], access), sources)
    quickstart = Quickstart(config, users, access, tools)
    record, settings = TasksOnDisk(TaskRows(database)), Settings(database)
    environment = await stack.enter_async_context(
        open_environment(config, users, clock, record, feed, settings, files, quickstart.write_missing)
    )
    http = await stack.enter_async_context(open_client())
    bus = Bus(clock)
    journal = Journal(database)
    return Foundation(
        users=users,
        tools=tools,
        bus=bus,
        storage=Storage(database, journal, sessions_of(database, journal, bus, clock), files),
        environment=environment,
        ports=ModelPorts(
            http,
            environment.blobs.get,
            clock,
            first_byte=config.models.first_byte_seconds,
            local_wait=config.models.local_wait,
        ),
        alerts=AlertDesk(config.alerts, users, bus, settings, clock),
        routes=Routes(),
        process=ProcessFacts(vitals, counts, clock.awake_or_not(), DiskGauge(config, clock)),
        parts=parts,
    )


async def _open_engine(
    stack: AsyncExitStack, foundation: Foundation, channels: Mapping[str, Channel], config_file: Path
) -> App:
    config, clock, storage = foundation.config, foundation.clock, foundation.storage
    ownership = storage.owned.ownership
    outbox = await stack.enter_async_context(open_outbox(storage.database, channels, clock, ownership))
    settings = Settings(storage.database)
    models = Models(config, foundation.ports, lambda line: log.warning("%s", line), settings)
    hooks = await stack.enter_async_context(
        open_hooks(foundation.environment, foundation.alerts, foundation.parts.hooks)
    )
    outage = _watch(foundation, channels)
    lanes = open_lanes(storage.journal, outbox, clock, outage.on_delay, storage.owned)
    engine = await stack.enter_async_context(lanes)
    sessions = build_sessions(
        storage.database,
        access=foundation.access,
        blank_audit=foundation.environment.blank_audit,
        bus=foundation.bus,
        engine=engine,
        environment=foundation.environment,
        hooks=hooks,
        is_alone=partial(_is_alone, foundation),
        journal=storage.journal,
        models=models,
        outbox=outbox,
        registry=foundation.tools.registry,
        transcriber=open_transcriber(config, TranscriberPorts(foundation.ports.http, clock)),
        users=foundation.users,
        config_file=config_file,
    )

    def health() -> Mapping[str, str]:
        return {name: channel.health() for name, channel in channels.items()}

    probe = Probe(lambda: settings.learn("written", clock.now()), health, clock)
    stuck = StuckTurns(60 * config.limits.stuck_minutes, engine.at_work, foundation.bus, foundation.alerts, clock)
    return App(foundation, channels, models, sessions, engine, outbox, outage, probe, stuck)


def _watch(foundation: Foundation, channels: Mapping[str, Channel]) -> Outage:
    """Report it when the database refuses writes, or was damaged."""
    outage = Outage(channels, foundation.bus.publish, foundation.alerts, foundation.clock)
    foundation.storage.database.on_trouble(outage.on_trouble_change)
    if salvaged := foundation.storage.database.salvaged:
        foundation.alerts.tell("damaged database", f"{salvaged.summary}; `goclaw doctor` says what to do next")
    return outage


def _channel_ports(foundation: Foundation, begun: object) -> ChannelPorts:
    ports, owned = foundation.ports, foundation.storage.owned
    return ChannelPorts(
        ports.http,
        ports.clock,
        ports.load_image,
        ChannelRows(foundation.storage.database, owned.ownership.fence_of),
        foundation.alerts,
        foundation.routes,
        foundation.access.is_admin,
        begun,
        owned.processes,
        file_writer(foundation.config),
        foundation.users,
    )


def _is_alone(foundation: Foundation, actor: Actor, session: str) -> bool:
    """Whether the actor is alone in the workspace that the actor has in a session."""

    def root(key: str) -> Path:
        return foundation.environment.workspaces.place(key, session).root

    return works_alone(actor.key, (user.key for user in foundation.users.all()), root)
