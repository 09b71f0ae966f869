"""Schedules, bound to the things they start: turns through the engine, messages through the outbox."""

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users
from goclaw.conversation.schedules.heartbeat import Heartbeat
from goclaw.conversation.schedules.quiet_hours import QuietHours
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.rows import ScheduleRows
from goclaw.conversation.schedules.scheduler import Scheduler
from goclaw.conversation.turns.agent_selection import AgentSelector
from goclaw.conversation.turns.turn_context import SessionPorts
from goclaw.durable.engine.base import Engine
from goclaw.durable.store.database import Database


def build_schedules(
    ports: SessionPorts, agents_for: AgentSelector, database: Database, *, access: Access, users: Users, engine: Engine
) -> Schedules:
    """Return the schedules, to whom turns report. Their loop is `Schedules.scheduler.run`."""
    rows = ScheduleRows(database)
    quiet = QuietHours(database, users, ports.config.quiet_hours, ports.outbox, ports.clock)
    heartbeat = Heartbeat(
        ports.config.heartbeat, rows, users, ports.environment, engine.queue, engine.submit, quiet, ports.clock
    )
    scheduler = Scheduler(rows, access, engine.submit, quiet, ports.clock, heartbeat.prepare)
    return Schedules(
        rows,
        scheduler,
        access,
        users,
        ports.config,
        ports.clock,
        ports.models,
        lambda actor: [kind.name for kind in agents_for.list_for(actor)],
        ports.store.settings,
        heartbeat,
    )
