"""Schedules, bound to the things they start: turns through the engine, messages through the outbox."""

from functools import partial

from goclaw.common.auth.users import Users, set_timezone
from goclaw.common.core.events import Inbound
from goclaw.conversation.schedules.heartbeat import Heartbeat
from goclaw.conversation.schedules.orders import carried_out_for_agent
from goclaw.conversation.schedules.quiet_hours import QuietHours
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.rows import ScheduleRows
from goclaw.conversation.schedules.scheduler import Scheduler
from goclaw.durable.engine.base import Engine
from goclaw.durable.store.database import Database
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import AccessDenied, StateError, ToolError
from goclaw.program.app.sessions import SessionParts
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder


def build_schedules(sessions: SessionParts, database: Database, *, users: Users, engine: Engine) -> Schedules:
    """Return the schedules, to whom turns report. Their loop is `Schedules.scheduler.run`."""
    ports, access, rows = sessions.ports, sessions.access, ScheduleRows(database)
    quiet = QuietHours(database, users, ports.config.quiet_hours, ports.outbox, ports.clock)
    heartbeat = Heartbeat(
        ports.config.heartbeat,
        rows,
        users,
        ports.environment,
        engine.queue,
        engine.submit,
        quiet,
        ports.clock,
    )
    scheduler = Scheduler(rows, access, engine.submit, quiet, ports.clock, heartbeat.prepared)
    ports.unattended.let_through = quiet.let_through
    ports.unattended.ended, ports.unattended.say = scheduler.ended, partial(_say, engine)
    schedules = Schedules(
        rows,
        scheduler,
        access,
        users,
        partial(set_timezone, ports.config.users_path, writer=file_writer(ports.config)),
        ports.clock,
        ports.models,
        lambda actor: [kind.name for kind in sessions.agents_for.listed(actor)],
        ports.settings,
        heartbeat,
        quiet,
        ports.config.notify,
    )
    ports.schedule_port.carry_out = partial(_carry_out, schedules)
    return schedules


async def _carry_out(schedules: Schedules, inbound: Inbound, order: ScheduleOrder) -> str:
    """Carry out an agent's order. Raises ToolError where it cannot be."""
    try:
        return await carried_out_for_agent(schedules, inbound, order)
    except AccessDenied as error:
        raise ToolError(f"permission denied: {error}") from None
    except StateError as error:
        raise ToolError(str(error)) from error


async def _say(engine: Engine, inbound: Inbound) -> None:
    await engine.submit(inbound, "say")
