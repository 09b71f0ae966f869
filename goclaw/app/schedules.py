"""Schedules, bound to what they start: turns through the engine, messages through the outbox."""

from functools import partial

from goclaw.auth.access import Access
from goclaw.auth.users import Users
from goclaw.core.clock import Clock
from goclaw.core.events import Inbound
from goclaw.engine.base import Engine
from goclaw.engine.outbox import Outbox
from goclaw.schedules.requests import Schedules
from goclaw.schedules.rows import ScheduleRows
from goclaw.schedules.scheduler import Scheduler
from goclaw.store.database import Database
from goclaw.turns.unattended import UnattendedPort


def build_schedules(
    database: Database,
    unattended: UnattendedPort,
    *,
    access: Access,
    users: Users,
    engine: Engine,
    outbox: Outbox,
    clock: Clock,
) -> Schedules:
    """Return the schedules, to whose runs `unattended` reports. Their loop is `Schedules.scheduler.run`."""
    rows = ScheduleRows(database)
    scheduler = Scheduler(rows, access, engine.submit, outbox, clock)
    unattended.ended, unattended.say = scheduler.ended, partial(_say, engine)
    return Schedules(rows, scheduler, access, users, clock)


async def _say(engine: Engine, inbound: Inbound) -> None:
    await engine.submit(inbound, "say")
