"""Schedules, bound to what they start: turns through the engine, messages through the outbox."""

from functools import partial

from goclaw.app.sessions import SessionParts
from goclaw.auth.users import Users
from goclaw.core.events import Inbound
from goclaw.engine.base import Engine
from goclaw.schedules.requests import Schedules
from goclaw.schedules.rows import ScheduleRows
from goclaw.schedules.scheduler import Scheduler
from goclaw.store.database import Database


def build_schedules(sessions: SessionParts, database: Database, *, users: Users, engine: Engine) -> Schedules:
    """Return the schedules, to whom turns report. Their loop is `Schedules.scheduler.run`."""
    ports, access, rows = sessions.ports, sessions.access, ScheduleRows(database)
    scheduler = Scheduler(rows, access, engine.submit, ports.outbox, ports.clock)
    ports.unattended.ended, ports.unattended.say = scheduler.ended, partial(_say, engine)
    return Schedules(
        rows,
        scheduler,
        access,
        users,
        ports.config.users_path,
        ports.clock,
        ports.models,
        lambda actor: [kind.name for kind in sessions.agents_for.listed(actor)],
        ports.settings,
    )


async def _say(engine: Engine, inbound: Inbound) -> None:
    await engine.submit(inbound, "say")
