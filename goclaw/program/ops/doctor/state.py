"""Checks of the state folder: is it writable, and is the database sound? Also while a daemon runs.

Of what the database has: the schedules that were stopped or fail again and again, and the next one due; of gateways
that share one on Postgres: whether all of them see the same folders.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import and_, case, func, select

from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import folders_of
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import SET_ASIDE, check_apart, running_pid, unusable
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.timezones import machine_zone
from goclaw.common.health.resources import REMEDY, amount, measure
from goclaw.conversation.schedules.times import shown_shortly
from goclaw.durable.store.database import Row, Statement
from goclaw.durable.store.open import postgres, read_stored
from goclaw.durable.store.schema import schedule_runs, schedules
from goclaw.durable.store.sqlite.migrations import MIGRATIONS
from goclaw.durable.store.sqlite.recovery import Salvage, examine_file, list_rescued_files, read_damage_mark, set_aside
from goclaw.errors import StateError
from goclaw.program.ops.doctor.base import Finding

LOOK_SECONDS = 15.0
"""Time limit for finding damage: some ten gigabytes that are in memory, less from the disk."""
LARGE_LOG = 200_000_000
"""Bytes of the write-ahead log; usually some megabytes, unless an old view of the database is read for long."""
AN_EMPTY_PAGE = bytes(4096)


def check_state(config: Config) -> list[Finding]:
    """Check the use of the folder, and that a file can be written to it."""
    check_apart(config.state_dir, config.workspace_path)
    pid = running_pid(config)
    running = f"a daemon runs (pid {pid})" if pid else "no daemon runs"
    if config.state_dir.is_dir():
        try:
            with tempfile.NamedTemporaryFile(dir=config.state_dir, prefix=".doctor-") as file:
                file.write(AN_EMPTY_PAGE)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return [Finding("state", "problem", f"{unusable(config.state_dir, error)}; {running}")]
    return [Finding("state", "ok", f"{config.state_dir}; {running}")]


def check_disk(config: Config) -> list[Finding]:
    """Report used and free space."""
    use = measure(config)
    if use.warning:
        return [Finding("disk", "warning", f"{use.summary}: {use.warning}", REMEDY)]
    return [Finding("disk", "ok", use.summary)]


def check_database(config: Config) -> list[Finding]:
    """Check the database that is in use, and those that were set aside."""
    path = config.database_path
    if isinstance(place := config.store_place, PostgresPlace):
        return [*_on_postgres(place), *_conflicts(config), *map(_aside, set_aside(path)), *_report_rescues(path)]
    return [_in_use(path), *_log(path), *map(_aside, set_aside(path)), *_report_rescues(path)]


def _on_postgres(place: PostgresPlace) -> Iterator[Finding]:
    try:
        found = postgres().examine(place)
    except StateError as error:
        yield Finding("database", "problem", str(error))
        return
    yield Finding("database", "ok", found.words)
    for weakness, remedy in found.weaknesses:
        yield Finding("database", "warning", weakness, remedy)


def _conflicts(config: Config) -> Iterator[Finding]:
    folder = config.state_dir / SET_ASIDE
    if found := [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]:
        files = "1 edited file" if len(found) == 1 else f"{len(found)} edited files"
        words = f"{folder} has {files} that the database does not have: {', '.join(found[:3])}"
        remedy = "bring back what is missing with `goclaw store edit NAME`, then delete the folder"
        yield Finding("database", "warning", words, remedy)


def _in_use(path: Path) -> Finding:
    if not path.exists():
        return Finding("database", "ok", f"{path} will be created at the first start")
    restart, restore = daemon_command("restart"), daemon_command("restore FILE")
    remedy = f"{restart} sets it aside and continues with everything that can be read; or restore a backup: {restore}"
    try:
        found = examine_file(path, LOOK_SECONDS)
        if found:
            return Finding("database", "problem", f"{path}: {found}", remedy)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        return Finding("database", "problem", f"{path}: {error}", remedy)
    if version > 1 + len(MIGRATIONS):
        return Finding("database", "problem", f"a newer GoClaw wrote {path}", "install that version")
    if why := read_damage_mark(path):
        return Finding("database", "problem", f"{path}: damage was found while it was in use ({why})", remedy)
    words = "sound" if found == "" else f"no damage found within {LOOK_SECONDS:g} s; `goclaw backup` checks all of it"
    return Finding("database", "ok", f"{path}: {words}, schema {version}")


def _log(path: Path) -> Iterator[Finding]:
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and (size := log.stat().st_size) > LARGE_LOG:
        remedy = "look for a program that keeps reading the database (a backup?)"
        yield Finding("database", "warning", f"{log} has {amount(size)}", remedy)


def _aside(salvage: Salvage) -> Finding:
    remedy = (
        f"GoClaw continues with the rest. To restore a complete older state: {daemon_command('stop')}, "
        f"{daemon_command('restore FILE')}, {daemon_command('start')}. When everything works: `rm {salvage.aside}*`"
    )
    return Finding("database", "warning", salvage.summary, remedy)


def _report_rescues(path: Path) -> Iterator[Finding]:
    for file in list_rescued_files(path):
        words = f"{file} contains what the daemon still had of a database that was deleted or replaced while it ran"
        remedy = f"{daemon_command('stop')}, `mv {file} {path}`, {daemon_command('start')}; otherwise remove it"
        yield Finding("database", "warning", words, f"to use it: {remedy}")


_SAME_FOLDERS = "mount the same folder on both, or set `replica.workspaces: own` on all gateways"


async def check_gateways(loaded: Loaded) -> list[Finding]:
    """Put a file into each workspace and ask the running gateways for it; nothing where each has its own."""
    config = loaded.config
    if not isinstance(place := config.store_place, PostgresPlace) or config.replica.workspaces == "own":
        return []
    users = Users.read(config.users_path).all()
    try:
        unseen = await postgres().unseen_folders(place, lambda: folders_of(config, users), RealClock())
    except StateError:
        return []  # the check of the database says it
    if unseen:
        return [Finding("gateways", "warning", words, _SAME_FOLDERS) for words in unseen]
    return [Finding("gateways", "ok", "all running gateways see the same workspaces")]


IN_A_ROW = 2
"""Failures of a schedule that are a pattern."""
MAX_SCHEDULES = 10
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
    .limit(MAX_SCHEDULES)
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
    return [*map(_schedule, rows), *more]


def _schedule(row: Row) -> Finding:
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
