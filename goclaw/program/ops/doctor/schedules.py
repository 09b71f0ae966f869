"""Check of the schedules: those that were stopped or fail again and again, and the next one due."""

from sqlalchemy import and_, case, func, select

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.timezones import machine_zone
from goclaw.conversation.schedules.times import shown_shortly
from goclaw.durable.store.database import Row, Statement
from goclaw.durable.store.open import read_stored
from goclaw.durable.store.schema import schedule_runs, schedules
from goclaw.errors import StateError
from goclaw.program.ops.doctor.base import Finding

IN_A_ROW = 2
"""Failures of a schedule that are a pattern."""
MAX_SHOWN = 10
"""Schedules that are named, the faulty ones first."""
_last = schedule_runs.alias()
_LAST_RUN = (
    select(_last.c.id)
    .where(_last.c.job == schedules.c.id)
    .order_by(_last.c.due.desc(), _last.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_SHOWN = Statement(
    select(
        *(schedules.c[name] for name in ("name", "person", "state", "next", "note", "failures")),
        schedule_runs.c.state.label("result"),
        schedule_runs.c.began_at,
        schedule_runs.c.cost,
    )
    .select_from(schedules)
    .outerjoin(schedule_runs, schedule_runs.c.id == _LAST_RUN)
    .where(schedules.c.state != "done")
    .order_by(
        case((schedules.c.state == "stopped", 0), else_=1),
        case((and_(schedules.c.state == "active", schedules.c.failures >= IN_A_ROW), 0), else_=1),
        schedules.c.next.is_(None),
        schedules.c.next,
        schedules.c.id,
    )
    .limit(MAX_SHOWN)
)
_COUNT = Statement(select(func.count()).where(schedules.c.state != "done"))


def check_schedules(config: Config) -> list[Finding]:
    """Name schedules with their next time, last result and cost; those stopped or failing in a row are warnings."""
    try:
        rows, counted = read_stored(config.store_place, _SHOWN(), _COUNT())
    except StateError:
        return []  # of an older version, or damaged, which the check of the database says
    others = (counted[0][0] if counted else 0) - len(rows)
    more = [Finding("schedules", "ok", f"{others} more: `goclaw schedule list` shows all")] if others else []
    return [*map(_finding, rows), *more]


def _finding(row: Row) -> Finding:
    named = f"{row['name']} of {row['person']}"
    if row["state"] == "stopped":
        remedy = f"fix that, then run `goclaw schedule resume {row['name']}` or `goclaw schedule remove {row['name']}`"
        return Finding("schedules", "warning", f"{named} has stopped: {row['note']}", remedy)
    if row["state"] == "active" and row["failures"] >= IN_A_ROW:
        text = f"{named} failed {row['failures']} times in a row; {_times(row)}"
        return Finding("schedules", "warning", text, f"`goclaw schedule runs {row['name']}` says why")
    return Finding("schedules", "ok", f"{named}: {_times(row)}")


def _times(row: Row) -> str:
    now, zone = RealClock().now(), machine_zone()
    following = row["state"] if row["next"] is None else f"next {shown_shortly(row['next'], zone, now)}"
    if row["result"] is None:
        return following
    cost = f", ${row['cost']:,.4f}" if row["cost"] else ""
    return f"{following}; last {shown_shortly(row['began_at'], zone, now)} {row['result']}{cost}"
