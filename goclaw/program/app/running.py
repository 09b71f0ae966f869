"""The running daemon: it resumes unfinished work, then opens channels and listeners; they close in reverse.

The shutdown: input stops, running work gets a while to end, the rest resumes at the next start. The order as a whole:
the HTTP listener and the channels accept nothing more (their services keep it), no turn begins, running turns end or
are cut, deliveries go out, then the parts close in reverse. Terminals stay until after that, so that `/stop` works
meanwhile; messages written there are kept for the next start.

In addition, a background task that ends is reported where it was started, and the prompts of MCP servers are slash
commands.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from goclaw import __version__
from goclaw.common.auth.config_lint import warnings
from goclaw.common.auth.pairing import Pairing
from goclaw.common.auth.tokens import open_tokens
from goclaw.common.auth.web_logins import WebLogins
from goclaw.common.auth.workplaces import in_words
from goclaw.common.config.listening import CLIENTS, is_loopback, listens, route_parts, wants_tokens
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Actor, Delivery, Notice
from goclaw.common.core.messages import join
from goclaw.common.core.plugins import load, load_large, load_third_party, third_party
from goclaw.common.core.redact import mask
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.common.health.samples import Samples
from goclaw.common.workspace import PathCompleter
from goclaw.conversation.schedules.configured import follow_configuration
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.zones import restore_zones
from goclaw.conversation.sessions.forgetting import MediaSweep
from goclaw.conversation.turns.status import greeting
from goclaw.durable.engine.machine_faults import ClockChange
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.file_writer import file_writer
from goclaw.durable.store.media import NeededMedia
from goclaw.durable.store.tasks import TaskRows
from goclaw.errors import DiskError, StateError, ToolError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.gateway.intake.gateway import Gateway, OwnersPart
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.memory.memory_queries import MemoryQueries
from goclaw.program.app.mcp_server import serve_mcp
from goclaw.program.app.parts import App
from goclaw.program.app.registries import publish_forever, sync_registries
from goclaw.program.app.shared_store import DaemonMemory, prune_audits
from goclaw.program.app.status import details, watch_faults
from goclaw.program.app.web import cookies_of, open_logins, page_address, page_link, taking_samples
from goclaw.tools.execution.tasks.base import Job, TaskInfo, TaskWork
from goclaw.tools.toolkit.base import LivePrompt
from goclaw.tools.toolkit.sources import Sources

if TYPE_CHECKING:
    from goclaw.gateway.servers.admission import Admission
    from goclaw.gateway.servers.routes import RoutePorts
    from goclaw.gateway.servers.terminals import RemoteTerminals

log = logging.getLogger(__name__)

VERSION_FACT = "version"
"""Name of the stored fact: the version that ran last."""
SWEEPS = "sweeps"
"""The duty that consists of what looks at all that is stored, now and then."""
PRUNE_SECONDS = 24 * 3600.0
OWNER = Actor("tui:start", "start", owner=True)
"""The actor for whom the room in the model's window is measured at the start: one with all tools."""
TOOLS_AFTER = 1.0
"""Seconds: two threads share one interpreter, and the channels' first look outside comes first."""
SPILL_SECONDS = 7 * 24 * 3600.0
"""Seconds for which a long output can be opened again."""
GRACE_SECONDS = 10.0
"""Seconds for running turns and deliveries to end at shutdown; the rest resumes at the next start."""
FLUSH_SECONDS = 3.0
"""Seconds of these that are kept for deliveries."""
_MAX_LABEL = 200
"""Maximum characters of a task's label in the notice of its end."""


async def start(stack: AsyncExitStack, app: App, *, alone: bool = False) -> None:
    """Resume unfinished work, then open channels and listeners. They end in the opposite order.

    Unfinished work comes first, so that no new message overtakes an old one of the same session. With `alone`
    nothing listens, no registry is asked and no schedule begins: for a command that opens the state for a moment.
    """
    foundation, lead = app.foundation, app.foundation.storage.owned.ownership.lead
    foundation.environment.tasks.on_end(partial(notify_of_end, foundation.bus, app.outbox))
    schedules = app.sessions.schedules
    await restore_zones(schedules)
    await follow_configuration(schedules, foundation.config.schedules)
    logins = open_logins(app)
    gateway = _gateway(app, logins)
    turns = app.sessions.turns(gateway)
    await turns.restore()
    memory, channels = DaemonMemory(app), {LOCAL, *app.channels}
    owned = foundation.storage.owned
    await stack.enter_async_context(owned.open(app.engine, app.outbox, turns.handler, memory, channels))
    await stack.enter_async_context(
        open_socket(
            foundation.config.socket_path,
            gateway,
            foundation.clock,
            greeting=partial(greeting, app.models, foundation.config, foundation.users, foundation.environment.sandbox),
            link=partial(page_link, app, logins),
        )
    )
    stack.push_async_callback(wind_down, app, gateway)
    await _run_parts(stack, app, gateway, schedules)
    if not alone:
        # A run that began in the moment of a command would be cut off by its end.
        due = run_with_restarts("schedules", partial(lead, "schedules", schedules.scheduler.run), foundation.clock)
        await stack.enter_async_context(background(due, "schedules"))
        await _listen(stack, app, gateway, schedules, logins)


async def _run_parts(stack: AsyncExitStack, app: App, gateway: Gateway, schedules: Schedules) -> None:
    """Run the channels and everything that works in parallel to turns; a part that fails is started again."""
    foundation, sessions, clock = app.foundation, app.sessions, app.foundation.clock
    max_bytes = foundation.config.media.max_megabytes * 1_000_000
    sweep = MediaSweep(foundation.environment.blobs, NeededMedia(foundation.storage.database), clock, max_bytes)

    async def once(work: Coroutine[Any, Any, None], name: str) -> None:
        await stack.enter_async_context(background(work, name))

    async def supervise(name: str, run: Callable[[], Awaitable[None]]) -> None:
        await once(run_with_restarts(name, run, clock), name)

    sweeps: Mapping[str, Callable[[], Awaitable[None]]] = {
        "owed summaries": sessions.summary_retries.run,
        "pruning": partial(_prune, app, schedules),
        "looking whether the version is new": partial(_announce_version, app),
        "removing old media": sweep.run,
    }

    await supervise("alerts", partial(foundation.alerts.run, app.outbox, app.channels))
    for name, channel in app.channels.items():
        await supervise(name, partial(channel.run, gateway))
    await once(_tools(app), "loading tools")
    await once(app.models.resolve(), "looking for models")
    await supervise(SWEEPS, partial(foundation.storage.owned.ownership.lead, SWEEPS, partial(_together, sweeps, clock)))
    await supervise("removing long outputs", partial(_remove_outputs, app))
    await supervise("written summaries", sessions.summary_retries.follow)
    await supervise("old audit logs", partial(prune_audits, app))
    await supervise("checkpoints", sessions.maintenance.run)
    if files := foundation.tools.sources.files:
        foundation.users.looks.append(files.glance)
        await supervise("loading plugin files", files.run)
    await supervise("looking for stuck turns", app.stuck.run)
    await supervise("looking at the clock", ClockChange(foundation.storage.database, clock, schedules.scheduler).run)
    await supervise("looking for faults", partial(watch_faults, app))


async def _together(parts: Mapping[str, Callable[[], Awaitable[None]]], clock: Clock) -> None:
    """Run parts of one duty, each started again where it fails, until cancelled."""
    async with asyncio.TaskGroup() as group:
        for name, run in parts.items():
            group.create_task(run_with_restarts(name, run, clock), name=name)


async def _listen(
    stack: AsyncExitStack, app: App, gateway: Gateway, schedules: Schedules, logins: WebLogins | None
) -> None:
    """Open the HTTP listener and the MCP server, and connect to registries, as far as they are configured."""
    foundation, config = app.foundation, app.foundation.config
    if listens(config) or (foundation.routes.added and config.http.enabled is not False):
        from goclaw.gateway.servers.http import open_http  # its library takes 2 MB

        admission = await _admission(stack, app)
        remote_terminals = _remote_terminals(app, gateway, admission) if config.http.clients else None
        samples = await stack.enter_async_context(taking_samples(app)) if config.http.web else None
        if names := list(route_parts(config)):
            from goclaw.gateway.servers.routes import RoutePart

            ports = await _route_ports(app, gateway, admission, schedules, logins, samples)
            for name in names:
                part = await asyncio.to_thread(load_large, catalog.ROUTES[name], RoutePart)
                foundation.routes.added.extend(part.routes(ports))
                foundation.routes.rules.extend(part.rules)
        http = await stack.enter_async_context(open_http(config, foundation.routes, app.probe.look))
        if logins:
            logins.address = page_address(config, http.port)
        if remote_terminals:
            stack.push_async_callback(remote_terminals.end)
    if config.mcp.server.enabled:
        await stack.enter_async_context(background(serve_mcp(app, gateway), "MCP clients"))
    if config.registries:
        await stack.enter_async_context(background(sync_registries(app), "catalogues of registries"))
    if config.publications:
        told = run_with_restarts(
            "publishing",
            partial(foundation.storage.owned.ownership.lead, "publishing", partial(publish_forever, app)),
            foundation.clock,
        )
        await stack.enter_async_context(background(told, "publishing"))


async def _tools(app: App) -> None:
    """Load the tools, unless a turn that needs them was quicker (`Registry.ready`)."""
    await app.foundation.clock.sleep(TOOLS_AFTER)
    await app.foundation.tools.registry.ready()
    commands = {*catalog.COMMANDS, *third_party("commands")}
    known = {tool.spec.id: tool.spec.tags for tool in app.foundation.tools.sources.tools()}
    for warning in warnings(app.foundation.config, app.foundation.users.all(), known, commands):
        log.warning("%s", warning)
    if short := await app.sessions.inspection.no_room(OWNER):
        log.warning("%s", short)


async def _announce_version(app: App) -> None:
    """Announce the news of a version to an administrator, at its first run; the very first version has none."""
    settings = app.sessions.ports.store.settings
    try:
        before = await settings.fact(VERSION_FACT)
        if before == __version__:
            return
        if before is None:
            await settings.learn(VERSION_FACT, __version__)
            return
        from goclaw.program.ops.upgrade.changes import our_news  # a file is parsed that is read once in months

        text = await asyncio.to_thread(our_news, str(before))
        log.info("%s", text)
        await app.foundation.alerts.notify_once(text, VERSION_FACT, __version__, app.outbox, app.channels)
    except StateError as error:
        log.warning("it could not be noted which version runs: %s", error)


async def _admission(stack: AsyncExitStack, app: App) -> "Admission":
    """Open the access tokens, for the routes of the listener that opens next."""
    from goclaw.gateway.servers.admission import Admission
    from goclaw.gateway.servers.terminals import REMOTE_ENTRY

    foundation, config = app.foundation, app.foundation.config
    tokens = await stack.enter_async_context(open_tokens(config.tokens_path, foundation.clock))
    if foundation.storage.files is not None:
        foundation.storage.files.on_copy(tokens.refresh)
        tokens.fetch = partial(foundation.storage.files.copy, config.tokens_path.name)
    if wants_tokens(config) and not tokens.any() and not is_loopback(config.http.host):
        log.warning("there is no access token yet, so no client can connect: `goclaw token add NAME --user KEY`")
    return Admission(tokens, foundation.clock, foundation.environment.audit, REMOTE_ENTRY)


def _remote_terminals(app: App, gateway: Gateway, admission: "Admission") -> "RemoteTerminals":
    """Add the entry for terminals over TCP to the listener that opens next."""
    from goclaw.gateway.servers.terminals import RemoteTerminals

    foundation = app.foundation

    def model() -> str:
        # What is missing here, and what would mend it, is for the owner and not for guests.
        return app.models.sentence.partition("\n")[0]

    remote_terminals = RemoteTerminals(gateway, admission, foundation.clock, foundation.environment.audit, model)
    foundation.routes.add("GET", CLIENTS, remote_terminals.receive)
    return remote_terminals


async def _route_ports(
    app: App,
    gateway: Gateway,
    admission: "Admission",
    schedules: Schedules,
    logins: WebLogins | None,
    samples: Samples | None,
) -> "RoutePorts":
    from goclaw.gateway.servers.routes import Gauges, RoutePorts, WebSignIn

    foundation = app.foundation
    gauges = Gauges(
        app.sessions.ports.store.spending,
        foundation.bus,
        outbox=app.outbox,
        disk=foundation.process.disk,
        store_use=foundation.storage.database.use,
        counts=foundation.process.counts,
        model_watches=foundation.ports.watches,
        samples=samples,
    )
    cookies = await cookies_of(foundation.config)
    return RoutePorts(
        foundation.environment,
        foundation.access,
        foundation.users,
        app.engine,
        schedules,
        gateway,
        admission,
        gauges,
        app.sessions.ports.config_file,
        WebSignIn(logins, cookies) if logins and cookies else None,
    )


def _gateway(app: App, logins: WebLogins | None) -> Gateway:
    completion = PathCompleter(app.foundation.clock)

    async def files(actor: Actor, begun: str) -> Sequence[str]:
        return await completion.matching(await app.foundation.environment.workspace(actor), begun)

    foundation, sessions = app.foundation, app.sessions
    ours = {name: load(path, Command) for name, path in catalog.COMMANDS.items()}
    commands = {**ours, **load_third_party("commands", Command, app.foundation.tools.sources.report)}
    environment = foundation.environment
    ports = sessions.command_ports(
        details=partial(details, app),
        engine=app.engine,
        logins=logins,
        pairing=_pairing(app),
        rights=partial(describe_rights, app),
        tools=foundation.tools,
    )
    return Gateway(
        ports,
        known=LiveCommands(commands, app.foundation.tools.sources),
        database=foundation.storage.database,
        completion=files,
        journal=foundation.storage.journal,
        queries=MemoryQueries(environment.memory, foundation.access, environment.workspace, foundation.config.memory),
        outage=app.outage,
        outbox=app.outbox,
        transcripts=sessions.ports.store.transcripts,
        with_owners=partial(
            load(catalog.OWNERS[foundation.storage.database.kind], OwnersPart).open, foundation.storage.owned
        ),
    )


def _pairing(app: App) -> Pairing:
    foundation = app.foundation
    return Pairing(
        foundation.config,
        users=foundation.users,
        writer=file_writer(foundation.config),
        clock=foundation.clock,
        audit=foundation.environment.audit,
        promise=app.outbox.promise,
        facts=app.sessions.ports.store.settings,
    )


def describe_rights(app: App, actor: Actor, session: str) -> str:
    """Describe an actor's rights and workspace in a session, for /whoami; in a group without the budget."""
    from goclaw.tools.toolkit.effective_rights import effective_rights, plain_lines  # no turn needs it

    foundation = app.foundation
    access, tools = foundation.access, foundation.tools
    workspace = in_words(foundation.config, foundation.environment.workspaces.place(actor.key, session))
    rights = effective_rights(tools.registry, access, actor, foundation.users.get(actor.key))
    if access.authorize(actor, "command.admin", "whoami").allowed:
        said = rights.lines("this workspace")
    else:
        theirs = tools.registry.with_agents(actor)
        specs = [spec for each in theirs for spec in each.offered_to(actor, planning=False)]
        said = plain_lines(rights, specs, tools.sources.plugin)
    lines = [("Role", access.role(actor)), ("Workspace", workspace), *said]
    hidden = ("Daily budget",) if access.is_group(session) else ()
    return "\n".join(f"{name}: {text}" for name, text in lines if name not in hidden)


async def _prune(app: App, schedules: Schedules) -> None:
    """Delete expired records once a day."""
    while True:
        try:
            await app.foundation.storage.journal.prune(app.foundation.clock.now())
            await app.outbox.prune()
            await ChannelRows(app.foundation.storage.database).prune()
            await TaskRows(app.foundation.storage.database).prune(app.foundation.clock.now() - SPILL_SECONDS)
            await app.sessions.forgetter.prune()
            await app.sessions.costs.prune()
            await schedules.prune()
        except StateError as error:
            log.warning("old receipts could not be removed: %s", error)
        await app.foundation.clock.sleep(PRUNE_SECONDS)


async def _remove_outputs(app: App) -> None:
    """Delete old outputs once a day: they are on this machine's disk, while another process may delete records."""
    while True:
        # Pictures and files have a sweep of their own.
        await app.foundation.environment.blobs.sweep(math.inf, spill_ttl=SPILL_SECONDS)
        await app.foundation.clock.sleep(PRUNE_SECONDS)


async def wind_down(app: App, gateway: Gateway) -> None:
    """Let turns and deliveries end for a while."""
    app.engine.wind_down()
    app.foundation.storage.owned.begin_no_more()
    clock = app.foundation.clock
    began = clock.monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS - FLUSH_SECONDS):
            await app.engine.idle(but_parked=True)
            await gateway.quiet()
    if left := app.engine.busy():
        log.warning("not finished, taken up at the next start: the turns of %d session(s)", left)
    if not await app.outbox.flush(max(FLUSH_SECONDS, GRACE_SECONDS - (clock.monotonic() - began))):
        log.warning("%d deliveries are left for the next start", app.outbox.waiting())


async def notify_of_end(bus: Bus, outbox: Outbox, info: TaskInfo, work: TaskWork | Job) -> None:
    """Send the notice to where the task was started from; a delivery that the disk refuses is only logged."""
    label = mask(info.label).replace("`", "'")[:_MAX_LABEL]
    text = f"Background task {info.id} (`{label}`) {info.end}."
    if work.address.channel != LOCAL:
        told = Delivery(f"{work.turn}:{info.id}", work.address, text, session=info.owner.session)
        try:
            await outbox.promise(told)
        except DiskError as error:
            log.warning("the chat is not told that %s has ended: %s", info.id, error)
    bus.publish(Notice(info.owner.session, text))


class LiveCommands(Mapping[str, Command]):
    """Commands and prompts by name. A prompt never takes the name of a command."""

    def __init__(self, fixed: Mapping[str, Command], sources: Sources) -> None:
        self._fixed = fixed
        self._sources = sources

    def __getitem__(self, name: str) -> Command:
        return self._fixed[name] if name in self._fixed else self._of_prompts()[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._fixed
        yield from self._of_prompts().keys() - self._fixed.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _of_prompts(self) -> dict[str, Command]:
        prompts = {prompt.name: prompt for prompt in reversed(self._sources.prompts())}
        return {
            name: Command(name, prompt.summary, partial(_submit, prompt), anywhere=True)
            for name, prompt in prompts.items()
        }


async def _submit(prompt: LivePrompt, context: CommandContext) -> Reply:
    """Submit the prompt's text as the message of a turn; the server's text in it is marked as foreign."""
    try:
        pieces = await prompt.say(context.arguments)
    except ToolError as error:
        return Reply(str(error))
    text, foreign = join(pieces)
    await context.ports.engine.submit(replace(context.inbound, text=text, foreign=foreign))
    return Reply(turn=context.inbound.id)
