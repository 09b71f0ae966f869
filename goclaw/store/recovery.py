"""Recovery from a damaged database file: it is set aside whole, and its readable rows are kept.

Nothing here ever writes to a damaged file. Readable rows are copied from a copy of it into a new file beside it; then
a plan is on disk, and only then things change their names. A kill at any moment leaves the old state or the new one;
the next start finishes what was planned.

    goclaw.db.damaged-20261121T160000Z        the file as it was found (with -wal and -shm, if they were there)
    goclaw.db.damaged-20261121T160000Z.json   what was found, and what could be read

A file is looked at for `CHECK_SECONDS` at every start (a gigabyte takes half a second), and in full after SQLite met
damage while the daemon ran. `goclaw doctor` and `goclaw backup` always look at all of it.
"""

import logging
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer

import orjson

from goclaw.clock import Clock, RealClock
from goclaw.errors import StateError
from goclaw.files import flush
from goclaw.health.faults import disk_error, is_damage
from goclaw.records import record
from goclaw.store.migrations import STEPS, migrate
from goclaw.store.salvage import salvage

log = logging.getLogger(__name__)

CLOCK = RealClock()
CHECK_SECONDS = 0.1
"""Time limit of a start for finding damage: enough for some 200 MB that are in memory."""
_ENDINGS = ("", "-wal", "-shm")
_MARK = ".suspect"
_PLAN = ".salvage.json"
_SCRATCH = ".salvage"


@record
class Salvage:
    """A damaged file that was set aside, and the rows kept of it."""

    aside: Path
    found: str
    """SQLite's words for the damage."""
    kept: dict[str, int] = field(default_factory=dict)
    """Rows by table."""
    incomplete: Sequence[str] = ()
    """Tables of which something could not be read."""

    @property
    def summary(self) -> str:
        """`set aside as …: …; kept 12 messages, 2 sessions; not all of messages could be read`."""
        rows = ", ".join(f"{count:,} {table}" for table, count in self.kept.items() if count) or "nothing"
        lost = f"; not all of {', '.join(self.incomplete)} could be read" if self.incomplete else ""
        return f"a damaged database was set aside as {self.aside.name} ({self.found}); kept: {rows}{lost}"


def make_ready(path: Path, clock: Clock = CLOCK) -> Salvage | None:
    """Bring the database at `path` up to date, or make it. What was salvaged, if it was damaged.

    Raises:
        StateError: the disk does not let us, or the file was written by a newer GoClaw.
    """
    with _in_words(path):
        finish(path)
        found = _damage(path)
        salvaged = _set_aside(path, found, clock.now()) if found else None
        migrate(path)
    if salvaged:
        log.error("%s. `goclaw doctor` says how to go on", salvaged.summary)
    return salvaged


def set_aside(path: Path) -> list[Salvage]:
    """Return the damaged files that lie beside the database, oldest first."""
    return [_report(found) for found in sorted(path.parent.glob(f"{path.name}.damaged-*.json"))]


def rescued(path: Path) -> list[Path]:
    """Return the files kept of a database that was deleted or replaced while it was in use, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.rescued-*"))


def marked(path: Path) -> str:
    """Return the damage that the last run met; empty if none."""
    mark = _beside(path, _MARK)
    return mark.read_text("utf-8") if mark.exists() else ""


def mark_damaged(path: Path, why: str) -> None:
    """Make the next start check all of the file."""
    _beside(path, _MARK).write_text(why, "utf-8")


def rescue(connection: sqlite3.Connection, path: Path) -> Path:
    """Keep what an open connection still sees of a file that was deleted or replaced, in a new file beside it."""
    kept = _free(path, f".rescued-{_stamp(CLOCK.now())}")
    with closing(sqlite3.connect(kept)) as copy:
        connection.backup(copy)
    kept.chmod(0o600)
    return kept


def finish(path: Path) -> None:
    """Do the rest of what an earlier run has planned."""
    plan, scratch = _beside(path, _PLAN), _beside(path, _SCRATCH)
    if plan.exists():
        aside = path.with_name(orjson.loads(plan.read_bytes())["aside"])
        if (scratch / path.name).exists():
            for ending in _ENDINGS:
                if _beside(path, ending).exists():
                    _beside(path, ending).rename(_beside(aside, ending))
            (scratch / path.name).rename(path)
        _beside(path, _MARK).unlink(missing_ok=True)
        plan.rename(_beside(aside, ".json"))
        flush(path.parent)
    if scratch.exists():
        shutil.rmtree(scratch)


def _damage(path: Path) -> str:
    """Describe the damage of the file; empty when none was found in the time."""
    if not path.exists():
        log_left = _beside(path, "-wal")
        return "it is gone, only its log is there" if log_left.exists() and log_left.stat().st_size else ""
    if path.stat().st_size == 0:
        return "it is empty"
    mark = _beside(path, _MARK)
    found = examine_file(path, None if mark.exists() else CHECK_SECONDS)
    if not found:
        mark.unlink(missing_ok=True)
    return found or ""


def examine_file(path: Path, seconds: float | None) -> str | None:
    """Look for damage in the file, without a change to it, for so long at most (None: to the end).

    Returns SQLite's words for it, the empty text for a sound file, and None when the time was over before.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] > 1 + len(STEPS):
                return ""  # of a newer GoClaw, which knows better what is in it
            with _interrupted_after(connection, seconds) as over:
                answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                return None
            if not is_damage(error):
                raise
            return str(error)
    if over.is_set() and answer != "ok":
        return None  # what it found may be nothing but its own interruption
    return "" if answer == "ok" else answer.splitlines()[-1]


@contextmanager
def _interrupted_after(connection: sqlite3.Connection, seconds: float | None) -> Iterator[Event]:
    """Interrupt SQLite when the time is over; the event says that it was.

    Not by a progress handler: a look through one table is one instruction, however large the table is.
    """
    over = Event()

    def interrupt() -> None:
        over.set()
        connection.interrupt()

    timer = Timer(seconds or 0.0, interrupt)
    if seconds is not None:
        timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        if seconds is not None:
            timer.join()  # it must not meet the connection after its end


def _set_aside(path: Path, found: str, now: float) -> Salvage:
    """Make a new file of the readable rows of the damaged one, then put it in its place."""
    log.error("%s is damaged (%s): reading what can be read", path, found)
    scratch = _beside(path, _SCRATCH)
    scratch.mkdir(mode=0o700)
    damaged, fresh = scratch / "damaged", scratch / path.name
    for ending in ("", "-wal"):
        if _beside(path, ending).exists():
            shutil.copyfile(_beside(path, ending), _beside(damaged, ending))
    migrate(fresh)
    kept, incomplete = salvage(damaged, fresh, now)
    flush(fresh)
    aside = _free(path, f".damaged-{_stamp(now)}")
    plan = {"aside": aside.name, "found": found, "kept": kept, "incomplete": incomplete}
    (scratch / "plan").write_bytes(orjson.dumps(plan))
    flush(scratch / "plan")
    (scratch / "plan").rename(_beside(path, _PLAN))
    flush(path.parent)
    finish(path)
    return _report(_beside(aside, ".json"))


def _report(file: Path) -> Salvage:
    aside = file.with_suffix("")
    try:
        told = orjson.loads(file.read_bytes())
        return Salvage(aside, told["found"], told["kept"], told["incomplete"])
    except (OSError, ValueError, KeyError, TypeError):
        return Salvage(aside, "its report cannot be read")


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def _free(path: Path, ending: str) -> Path:
    """Return a name that nothing has yet."""
    names = (_beside(path, f"{ending}{'' if number == 1 else f'-{number}'}") for number in range(1, 1_000))
    return next(name for name in names if not name.exists() and not _beside(name, ".json").exists())


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        trouble = disk_error(error, path, "opened")
        raise StateError(str(trouble)) from error
