"""Check of the schedules: those that were stopped or fail again and again, and what is due next."""

import sqlite3
from contextlib import closing

from goclaw.config.schema import Config
from goclaw.core.clock import RealClock
from goclaw.core.timezones import machine_zone
from goclaw.ops.doctor.base import Finding
from goclaw.schedules.times import shown_shortly

IN_A_ROW = 2
"""Failures of a schedule that are a pattern."""
MAX_SHOWN = 10
"""Schedules that are named, the faulty ones first."""
_SHOWN = """
SELECT s.name, s.person, s.state, s.next, s.note, s.failures, r.state AS result, r.began_at, r.cost
FROM schedules AS s LEFT JOIN schedule_runs AS r
  ON r.id = (SELECT id FROM schedule_runs WHERE job = s.id ORDER BY due DESC, id DESC LIMIT 1)
WHERE s.state != 'done'
ORDER BY s.state = 'stopped' DESC, s.state = 'active' AND s.failures >= ? DESC, s.next IS NULL, s.next, s.id LIMIT ?
"""
_COUNT = "SELECT count(*) FROM schedules WHERE state != 'done'"


def check_schedules(config: Config) -> list[Finding]:
    """Name schedules with their next time, last result and cost; a warning is what was stopped or fails in a row."""
    if not config.database_path.exists():
        return []
    uri = f"{config.database_path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(_SHOWN, (IN_A_ROW, MAX_SHOWN)).fetchall()
            count = connection.execute(_COUNT).fetchone()[0]
    except sqlite3.Error:
        return []  # of an older version, or damaged, which the check of the database says
    others = count - len(rows)
    more = [Finding("schedules", "ok", f"{others} more: `goclaw schedule list` shows all")] if others else []
    return [*map(_finding, rows), *more]


def _finding(row: sqlite3.Row) -> Finding:
    named = f"{row['name']} of {row['person']}"
    if row["state"] == "stopped":
        remedy = f"mend that, then `goclaw schedule resume {row['name']}`, or `goclaw schedule remove {row['name']}`"
        return Finding("schedules", "warning", f"{named} is stopped: {row['note']}", remedy)
    if row["state"] == "active" and row["failures"] >= IN_A_ROW:
        text = f"{named} failed {row['failures']} times in a row; {_times(row)}"
        return Finding("schedules", "warning", text, f"`goclaw schedule runs {row['name']}` says why")
    return Finding("schedules", "ok", f"{named}: {_times(row)}")


def _times(row: sqlite3.Row) -> str:
    now, zone = RealClock().now(), machine_zone()
    following = row["state"] if row["next"] is None else f"next {shown_shortly(row['next'], zone, now)}"
    if row["result"] is None:
        return following
    cost = f", ${row['cost']:,.4f}" if row["cost"] else ""
    return f"{following}; last {shown_shortly(row['began_at'], zone, now)} {row['result']}{cost}"
