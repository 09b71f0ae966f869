"""The daemon's status: for `/status` and `goclaw status`, for `/readyz`, and for the operator's alerts."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from goclaw import __version__
from goclaw.common.config.listening import listens
from goclaw.common.core.clock import ago, span
from goclaw.common.health.readiness import Readiness
from goclaw.common.health.resources import DiskUse
from goclaw.conversation.turns.status import DAEMON, TELEGRAM, Details
from goclaw.errors import StateError
from goclaw.memory import memory_queries
from goclaw.program.app.parts import App

if TYPE_CHECKING:
    from goclaw.durable.store.replicas import StoreUse

LATE_MS = 100
"""Milliseconds by which the event loop may be late before `/status` says so: less is not felt."""
NOT_CONNECTED = "not connected; `goclaw setup` connects a bot"
LOOK_SECONDS = 5.0
"""Seconds between two checks for faults that are not reported where they happen."""


async def details(app: App, session: str) -> Details:
    """Return the daemon's details for the status of a session."""
    foundation = app.foundation
    disk, readiness = await foundation.process.disk.use(), await app.probe.look()
    vitals, alerts = foundation.process.vitals(), foundation.alerts.open()
    lines = {DAEMON: _of_the_daemon(app, readiness), TELEGRAM: NOT_CONNECTED}
    lines |= {name.capitalize(): line for name, line in readiness.channels.items()}
    queue = await app.engine.queue(session)
    lines["Queue"] = f"{queue.waiting} waiting, {app.outbox.waiting()} deliveries in progress"
    if (oldest := app.engine.oldest_waiting()) is not None:
        lines["Queue"] += f"; the oldest arrived {ago(foundation.clock.now() - oldest)}"
    if tasks := foundation.environment.tasks.count():
        lines["Tasks"] = f"{foundation.environment.tasks.count(session)} running here in the background, {tasks} in all"
    lines |= _of_the_database(app)
    use = None
    with suppress(StateError):  # what cannot be asked now is not shown
        use = await foundation.storage.database.use()
    lines |= _of_the_gateways(use)
    if stuck := app.stuck.line(session):
        lines["Stuck"] = stuck
    if unresponsive := app.sessions.ports.dispatcher.unresponsive.names():
        lines["Left behind"] = f"{len(unresponsive)} tools do not react to being stopped; the log names them"
    lines |= {"Disk": disk.text(), **vitals}
    if foundation.users.problem:
        lines["Users"] = f"users.json is broken: {foundation.users.problem}"
    if listens(foundation.config):
        lines["HTTP"] = f"{foundation.config.http.host} port {foundation.config.http.port}"
    if app.mcp_server.line:
        lines["MCP"] = app.mcp_server.line
    lines |= _of_the_tools(app)
    if waiting := await asyncio.to_thread(foundation.environment.approved_files.waiting):
        lines["Prompt files"] = f"{len(waiting)} changed but not approved; `goclaw prompt-files list` shows them"
    if alerts:
        # A person who may ask for the status need not know whom it is about.
        lines["Alerts"] = f"{len(alerts)} open; `goclaw status --json` lists them"
    counts = dict(foundation.process.counts())
    health = {
        "ready": readiness.ready,
        "problems": list(readiness.problems),
        "channels": dict(readiness.channels),
        "vitals": dict(vitals),
        "counts": counts,
        "turns": app.engine.busy(),
        "tasks": foundation.environment.tasks.count(),
        "stuck": app.stuck.now(),
        "left_behind": app.sessions.ports.dispatcher.unresponsive.names(),
        "oldest_waiting": app.engine.oldest_waiting(),
        "deliveries": app.outbox.waiting(),
        "alerts": dict(alerts),
        "store": use and asdict(use),
    }
    memory, numbers = await _of_memory(app)
    calm = frozenset(_calm(app, queue.waiting, disk, counts, use))
    return Details(lines, {"disk": disk.numbers(), "health": health, "memory": numbers}, memory, calm)


def _of_the_daemon(app: App, readiness: Readiness) -> str:
    seconds = app.foundation.clock.awake_or_not() - app.foundation.process.began
    running = f"running for {span(seconds)}, version {__version__}"
    return f"{running}, but it accepts no messages: {'; '.join(readiness.problems)}" if readiness.problems else running


def _calm(app: App, waiting: int, disk: DiskUse, counts: Mapping[str, float], use: "StoreUse | None") -> Iterator[str]:
    """Yield the lines that say no more than that all is well."""
    if use and len(use.replicas) == 1:
        yield "Gateways"
    if not disk.warning:
        yield "Disk"
    if not (app.foundation.storage.database.trouble or app.foundation.storage.database.salvaged):
        yield "Database"
    if counts.get("event_loop_late_ms", 0) < LATE_MS:
        yield "Event loop"
    if not waiting and not app.outbox.waiting() and app.engine.oldest_waiting() is None:
        yield "Queue"


async def _of_memory(app: App) -> tuple[Sequence[tuple[str, str]], Mapping[str, Any]]:
    try:
        status = await app.foundation.environment.memory.status()
    except StateError as error:
        return [("Mode", f"out of order: {error}")], {"trouble": str(error)}
    return list(memory_queries.brief_status_lines(status)), asdict(status)


def _of_the_tools(app: App) -> dict[str, str]:
    if not (faults := app.foundation.tools.sources.faults):
        return {}
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return {"Tools": f"{count} in tools or their servers; /tools lists them"}


def _of_the_database(app: App) -> dict[str, str]:
    """Return the lines about faults of the database; empty while all is well."""
    database, delayed = app.foundation.storage.database, app.engine.count_waiting_for_disk()
    if database.trouble:
        waiting = f"; {delayed} turns are waiting for it" if delayed else ""
        return {"Database": f"{database.trouble}{waiting}"}
    if database.salvaged:
        return {"Database": database.salvaged.summary}
    return {} if database.is_default else {"Database": database.name}


def _of_the_gateways(use: "StoreUse | None") -> dict[str, str]:
    if use is None:
        return {}
    return {"Gateways": f"{sum(each.lives for each in use.replicas)}: {', '.join(map(str, use.replicas))}"}


async def watch_faults(app: App) -> None:
    """Report faults that are seen by looking only: users.json, and the room on the disk."""
    foundation = app.foundation
    while True:
        if problem := foundation.users.problem:
            foundation.alerts.tell("users", f"users.json cannot be used: {problem}")
        else:
            foundation.alerts.clear("users")
        disk = await foundation.process.disk.use()
        if disk.warning:
            foundation.alerts.tell("disk", f"the disk: {disk.text()}")
        else:
            foundation.alerts.clear("disk")
        await foundation.clock.sleep(LOOK_SECONDS)
