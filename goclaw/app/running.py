"""The running daemon: what was left is taken up, then the world is let in; it winds down in the opposite order."""

import logging
import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from goclaw import catalog
from goclaw.app.ending_tasks import tell_of_end
from goclaw.app.mcp_server import serve_mcp
from goclaw.app.parts import App
from goclaw.app.prompting import LiveCommands
from goclaw.app.publishing import keep_published
from goclaw.app.registries import keep_registries
from goclaw.app.standing import details, watch_faults
from goclaw.app.winding import wind_down
from goclaw.commands.base import Command, CommandPorts
from goclaw.config.listening import CLIENTS, is_loopback, listens
from goclaw.engine.stamps import Stamps
from goclaw.errors import StateError
from goclaw.events import LOCAL, Actor
from goclaw.gateway import Gateway, GatewayPorts
from goclaw.memory.desk import MemoryDesk
from goclaw.pairing import Pairing, PairingPorts
from goclaw.plugins import load, third_party
from goclaw.servers.door import Door
from goclaw.servers.http import open_http
from goclaw.servers.socket import open_socket
from goclaw.sessions.greeting import greeting
from goclaw.sessions.media import MediaSweep
from goclaw.spelling import warnings
from goclaw.store.media import NeededMedia
from goclaw.store.tasks import TaskRows
from goclaw.store.transcripts import Transcripts
from goclaw.supervise import background, keep_running
from goclaw.tokens import open_tokens
from goclaw.toolkit.showing import Shelf
from goclaw.workspace import Completion

log = logging.getLogger(__name__)

PRUNE_SECONDS = 24 * 3600.0
OWNER = Actor("tui:start", "start", owner=True)
"""For whom the room in the model's window is measured at the start: whoever has all tools."""
TOOLS_AFTER = 1.0
"""Seconds: two threads share one interpreter, and the channels' first look outside comes first."""
SPILL_SECONDS = 7 * 24 * 3600.0
"""How long a long output can be opened again."""


async def start(stack: AsyncExitStack, app: App, *, alone: bool = False) -> None:
    """Everything is open: take up what was left, then let the world in. Ends in the opposite order.

    What was left comes first, so that nobody's new message overtakes an old one of the same session. `alone` keeps the
    HTTP listener closed: for a command that opens the state for a moment.
    """
    ground = app.ground
    ground.environment.tasks.tell = partial(tell_of_end, ground.bus, app.outbox)
    await app.sessions.restore()
    app.sessions.questions.restore(await app.journal.parked())
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
    stack.push_async_callback(wind_down, app, gateway)
    alerts = keep_running("alerts", partial(ground.alerts.run, app.outbox, app.channels), ground.clock)
    await stack.enter_async_context(background(alerts, "alerts"))
    for name, channel in app.channels.items():
        work = keep_running(name, partial(channel.run, gateway), ground.clock)
        await stack.enter_async_context(background(work, f"channel {name}"))
    await stack.enter_async_context(background(_tools(app), "loading tools"))
    await stack.enter_async_context(background(app.models.resolve(), "looking for models"))
    debts = keep_running("owed summaries", app.sessions.debts.run, ground.clock)
    await stack.enter_async_context(background(debts, "owed summaries"))
    aside = keep_running("checkpoints", app.sessions.aside.run, ground.clock)
    await stack.enter_async_context(background(aside, "checkpoints"))
    await stack.enter_async_context(background(_prune(app), "pruning"))
    sweep = MediaSweep(ground.environment.blobs, NeededMedia(ground.database), ground.clock, ground.config.media.ttl)
    sweeping = keep_running("media", sweep.run, ground.clock)
    await stack.enter_async_context(background(sweeping, "removing old media"))
    stuck = keep_running("looking for stuck turns", app.stuck.run, ground.clock)
    await stack.enter_async_context(background(stuck, "looking for stuck turns"))
    stamps = keep_running("looking at the clock", Stamps(ground.database, ground.clock).run, ground.clock)
    await stack.enter_async_context(background(stamps, "looking at the clock"))
    faults = keep_running("looking for faults", partial(watch_faults, app), ground.clock)
    await stack.enter_async_context(background(faults, "looking for faults"))
    wanted = listens(ground.config) or (ground.routes.added and ground.config.http.enabled is not False)
    if wanted and not alone:
        door = await _door(stack, app, gateway) if ground.config.http.clients else None
        await stack.enter_async_context(open_http(ground.config, ground.routes, app.probe.look))
        if door:
            stack.push_async_callback(door.end)
    if ground.config.mcp.server.enabled and not alone:
        await stack.enter_async_context(background(serve_mcp(app, gateway), "MCP clients"))
    if ground.config.registries and not alone:
        await stack.enter_async_context(background(keep_registries(app), "catalogues of registries"))
    if ground.config.publications and not alone:
        await stack.enter_async_context(background(keep_published(app), "publishing"))


async def _tools(app: App) -> None:
    """Load the tools, unless a turn that needs them was quicker (`Registry.ready`)."""
    await app.ground.clock.sleep(TOOLS_AFTER)
    await app.registry.ready()
    commands = {*catalog.COMMANDS, *third_party("commands")}
    known = {spec.name: spec.tags for spec in app.registry.specs()}
    for warning in warnings(app.ground.config, app.ground.users.all(), known, commands):
        log.warning("%s", warning)
    if short := await app.sessions.no_room(OWNER):
        log.warning("%s", short)


async def _door(stack: AsyncExitStack, app: App, gateway: Gateway) -> Door:
    """Where terminals come in over TCP, on the listener that opens next."""
    ground = app.ground
    tokens = await stack.enter_async_context(open_tokens(ground.config.tokens_path, ground.clock))
    if not tokens.any() and not is_loopback(ground.config.http.host):
        log.warning("there is no access token yet, so nobody can come in: `goclaw token add NAME --user KEY`")
    # What is missing here, and what would mend it, is for the owner and not for guests.
    model = partial(_first_line, app)
    door = Door(gateway, tokens, ground.clock, ground.environment.audit, model)
    ground.routes.add("GET", CLIENTS, door.receive)
    return door


def _first_line(app: App) -> str:
    return app.models.sentence.partition("\n")[0]


def _gateway(app: App) -> Gateway:
    completion = Completion(app.ground.clock)

    async def files(actor: Actor, begun: str) -> Sequence[str]:
        return await completion.matching(await app.ground.environment.workspace(actor), begun)

    pairing = _pairing(app)
    ports = CommandPorts(
        access=app.ground.access,
        sessions=app.sessions,
        engine=app.engine,
        clock=app.ground.clock,
        visible=lambda actor: gateway.commands(actor),
        details=partial(details, app),
        report=lambda inbound, text: gateway.report(inbound, text),
        rights=lambda actor: _rights(app, actor),
        tools=Shelf(app.registry, app.sources),
        readable=lambda actor: gateway.sessions(actor),
        pairing=pairing,
        memory=app.ground.environment.memory,
    )
    gateway = Gateway(
        GatewayPorts(
            access=app.ground.access,
            audit=app.ground.environment.audit,
            bus=app.ground.bus,
            clock=app.ground.clock,
            commands=LiveCommands(
                {name: load(path, Command) for name, path in {**catalog.COMMANDS, **third_party("commands")}.items()},
                app.sources,
            ),
            command_ports=ports,
            database=app.ground.database,
            engine=app.engine,
            files=files,
            for_agents=app.ground.config.tools.command.allowed,
            journal=app.journal,
            limits=app.ground.config.limits,
            load_blob=app.ground.environment.blobs.get,
            memory=MemoryDesk(
                app.ground.environment.memory,
                app.ground.access,
                app.ground.environment.workspace,
                app.ground.config.memory,
            ),
            outbox=app.outbox,
            refused=app.outage.refused,
            stranger=pairing.knock,
            transcripts=Transcripts(app.ground.database),
        )
    )
    app.sessions.desk.answer = gateway.commanded
    return gateway


def _pairing(app: App) -> Pairing:
    ground = app.ground
    return Pairing(
        PairingPorts(
            settings=ground.config.pairing,
            users=ground.users,
            users_path=ground.config.users_path,
            clock=ground.clock,
            audit=ground.environment.audit,
            promise=app.outbox.promise,
            fact=app.sessions.settings.fact,
            learn=app.sessions.settings.learn,
        )
    )


def _rights(app: App, actor: Actor) -> str:
    """What an actor may do, in words, for /whoami."""
    tools = ", ".join(spec.name for spec in app.registry.visible_to(actor)) or "none"
    return f"Role: {app.ground.access.role(actor)}\nTools: {tools}"


async def _prune(app: App) -> None:
    """Forget what nobody can ask for any more, once a day."""
    while True:
        try:
            await app.journal.prune(app.ground.clock.now())
            await app.outbox.prune()
            # Pictures and files have a sweep of their own.
            await app.ground.environment.blobs.sweep(math.inf, spill_ttl=SPILL_SECONDS)
            await TaskRows(app.ground.database).prune(app.ground.clock.now() - SPILL_SECONDS)
            await app.sessions.forgetter.prune()
            await app.sessions.costs.prune()
        except StateError as error:
            log.warning("old receipts could not be removed: %s", error)
        await app.ground.clock.sleep(PRUNE_SECONDS)
