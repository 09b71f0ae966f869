"""Recovery from a damaged database file: it is set aside whole, and its readable rows are kept.

Nothing here ever writes to a damaged file. Readable rows are copied from a copy of it into a new file next to it; then
a plan is on disk, and only then things change their names. A kill at any moment leaves the old state or the new one;
the next start finishes the plan.

    goclaw.db.damaged-20261121T160000Z        the file as it was found (with -wal and -shm, if they were there)
    goclaw.db.damaged-20261121T160000Z.json   the findings, and what could be read

A file is looked at for `CHECK_SECONDS` at every start (a gigabyte takes half a second), and in full after SQLite met
damage while the daemon ran. `goclaw doctor` and `goclaw backup` always look at all of it. A table or a column that is
gone is damage, too: every message would fail on it. Indexes that are gone are made again.

A page that cannot be read costs the rows on it, not those after it. A header, or a first page, that is destroyed is
borrowed from the new file. Whatever does not look like a row of its table is left out. Every row keeps its id, so that
nothing is taken for new that was done before.
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
from typing import Any

import orjson
from sqlalchemy import Boolean, Float, Integer, Table

from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import LOCAL, Delivery, Inbound
from goclaw.common.core.files import flush
from goclaw.common.core.records import record
from goclaw.common.health.resources import disk_error, is_damage
from goclaw.durable.store.schema import metadata
from goclaw.durable.store.sqlite.migrations import MIGRATIONS, UnfitSchema, migrate, missing_parts
from goclaw.errors import StateError

log = logging.getLogger(__name__)


CLOCK = RealClock()
CHECK_SECONDS = 0.1
"""Time limit of a start for finding damage: enough for some 200 MB that are in memory."""
NEWEST = 1 + len(MIGRATIONS)
_ENDINGS = ("", "-wal", "-shm")
_MARK = ".suspect"
_PLAN = ".salvage.json"
_SCRATCH = ".salvage"

HEADER_BYTES = 100
PAGE_BYTES = 4096
"""SQLite's default, which GoClaw never changes (sqlite.org/fileformat2.html)."""
_FURTHEST = 1 << 40
"""No row has a higher id."""
MESSAGE_LOST = (
    "I was working on your message when my database was damaged, and I do not know how far I got. Please send it again."
)
_INBOUND: Codec[Inbound] = Codec(Inbound)
_DELIVERY: Codec[Delivery] = Codec(Delivery)


@record
class Salvage:
    """A damaged file that was set aside, and the rows kept of it."""

    aside: Path
    found: str
    """SQLite's words for the damage."""
    kept: dict[str, int] = field(default_factory=dict)
    """Rows by table."""
    incomplete: Sequence[str] = ()
    """Tables that could not be read completely."""

    @property
    def summary(self) -> str:
        """`set aside as …: …; kept 12 messages, 2 sessions; not all of messages could be read`."""
        rows = ", ".join(f"{count:,} {table}" for table, count in self.kept.items() if count) or "nothing"
        lost = f"; not all of {', '.join(self.incomplete)} could be read" if self.incomplete else ""
        return f"the damaged database was set aside as {self.aside.name} ({self.found}); recovered: {rows}{lost}"


def make_ready(path: Path, clock: Clock = CLOCK) -> Salvage | None:
    """Bring the database at `path` up to date, or make it. Return the salvaged rows, if it was damaged.

    Raises:
        StateError: the disk does not let us, or the file was written by a newer GoClaw.
    """
    try:
        finish(path)
        found = _damage(path)
        salvaged = _set_aside(path, found, clock.now()) if found else None
        try:
            migrate(path)
        except UnfitSchema as error:
            salvaged = _set_aside(path, str(error), clock.now())
            migrate(path)
    except (sqlite3.Error, OSError) as error:
        raise StateError(str(disk_error(error, path, "opened"))) from error
    if salvaged:
        log.error("%s. `goclaw doctor` says how to go on", salvaged.summary)
    return salvaged


def set_aside(path: Path) -> list[Salvage]:
    """Return the damaged files next to the database, oldest first."""
    return [_report(found) for found in sorted(path.parent.glob(f"{path.name}.damaged-*.json"))]


def list_rescued_files(path: Path) -> list[Path]:
    """Return the files kept of a database that was deleted or replaced while it was in use, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.rescued-*"))


def read_damage_mark(path: Path) -> str:
    """Return the damage that the last run met; empty if none."""
    mark = _beside(path, _MARK)
    return mark.read_text("utf-8") if mark.exists() else ""


def mark_damaged(path: Path, why: str) -> None:
    """Make the next start check all of the file."""
    _beside(path, _MARK).write_text(why, "utf-8")


def rescue(connection: sqlite3.Connection, path: Path) -> Path:
    """Save the content that an open connection still sees of a deleted or replaced file, in a new file next to it."""
    kept = _free(path, f".rescued-{_stamp(CLOCK.now())}")
    with closing(sqlite3.connect(kept)) as copy:
        connection.backup(copy)
    kept.chmod(0o600)
    return kept


def finish(path: Path) -> None:
    """Do the rest of an earlier run's plan."""
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
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > NEWEST:
                return ""  # of a newer GoClaw, which knows better what is in it
            if version == NEWEST and (missing := missing_parts(connection)):
                return missing
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


def salvage(damaged: Path, fresh: Path, now: float) -> tuple[dict[str, int], list[str]]:
    """Copy every row that can be read from the file `damaged`, which is a copy and may be changed, to `fresh`.

    Returns how many rows of each table were, and the tables with unreadable rows.
    """
    with closing(sqlite3.connect(fresh, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous=OFF")  # the caller flushes the whole, before it gets a name
        for borrowed in (0, HEADER_BYTES, PAGE_BYTES):
            _borrow(damaged, fresh, borrowed)
            with closing(sqlite3.connect(damaged, isolation_level=None)) as source:
                found = _columns(source)
                if found:
                    target.execute("BEGIN IMMEDIATE")
                    kept, incomplete = _copy(source, target, found)
                    _close_what_is_uncertain(target, incomplete, now)
                    target.execute("COMMIT")
                    return kept, incomplete
    return {}, [str(table.name) for table in metadata.sorted_tables]


def _borrow(damaged: Path, fresh: Path, count: int) -> None:
    """Put the first `count` bytes of a sound file in the place of those that are destroyed."""
    size = damaged.stat().st_size if damaged.exists() else 0
    if count == 0 or size < PAGE_BYTES:
        return
    sound = bytearray(fresh.read_bytes()[:count])
    sound[28:32] = (size // PAGE_BYTES).to_bytes(4, "big")
    sound[32:40] = bytes(8)  # no list of free pages: it would be that of the other file
    with damaged.open("r+b") as file:
        file.write(sound)


def _columns(source: sqlite3.Connection) -> dict[str, list[str]]:
    """Return our columns that the tables of the file have; empty when not even that can be read."""
    try:
        found = {
            table.name: [row[1] for row in source.execute(f"PRAGMA table_info({table.name})")]
            for table in metadata.sorted_tables
        }
    except sqlite3.DatabaseError:
        return {}
    return {name: columns for name, columns in found.items() if columns}


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, found: dict[str, list[str]]
) -> tuple[dict[str, int], list[str]]:
    kept: dict[str, int] = {}
    incomplete = []
    for table in metadata.sorted_tables:
        name = str(table.name)  # SQLAlchemy's is a kind of text of its own
        columns = [column.name for column in table.columns if column.name in found.get(name, ())]
        reading = _Reading(source, table, columns)
        marks = ", ".join("?" * len(columns))
        insert = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  # our names
        kept[name] = target.executemany(insert, reading).rowcount if columns else 0
        # A table that is younger than the file is no loss; a row cannot be kept without what every row must have.
        required = [c.name for c in table.columns if not (c.nullable or c.primary_key or c.server_default)]
        lacks = not set(required) <= set(columns)
        if not reading.whole or (lacks if columns else name in ("messages", "inbox", "steps", "deliveries")):
            incomplete.append(name)
    return kept, incomplete


class _Reading:
    """The rows of one table that can be read, in order of their ids."""

    def __init__(self, source: sqlite3.Connection, table: Table, columns: Sequence[str]) -> None:
        self._source, self._table = source, table
        self._kinds = [_kinds_of(table, name) for name in columns]
        named = f"rowid, {', '.join(columns)} FROM {table.name}"
        self._query = f"SELECT {named} NOT INDEXED WHERE rowid > ? ORDER BY rowid"  # our own names
        self.whole = True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        last: int | None = 0
        while last is not None:
            try:
                for row in self._source.execute(self._query, (last,)):
                    last = int(row[0])
                    if all(isinstance(value, kind) for value, kind in zip(row[1:], self._kinds, strict=True)):
                        yield row[1:]
                    else:
                        self.whole = False
                return
            except sqlite3.DatabaseError:
                self.whole = False
                last = self._next_readable(last or 0)

    def _next_readable(self, last: int) -> int | None:
        """Return the lowest id with a readable row after `last`; None: no row can be read."""
        step = 1
        while not self._can_read(last + step):
            step *= 2
            if step > _FURTHEST:
                return None
        low, high = last + step // 2, last + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._can_read(middle) else (middle, high)
        return high

    def _can_read(self, after: int) -> bool:
        try:
            self._source.execute(f"{self._query} LIMIT 1", (after,)).fetchone()
        except sqlite3.DatabaseError:
            return False
        return True


def _kinds_of(table: Table, name: str) -> tuple[type, ...]:
    column = table.columns[name]
    is_whole = isinstance(column.type, Integer | Boolean)
    of = (int, float) if isinstance(column.type, Float) else (int,) if is_whole else (str,)
    return (*of, type(None)) if column.nullable else of


def _close_what_is_uncertain(target: sqlite3.Connection, incomplete: Sequence[str], now: float) -> None:
    """End open turns with an incomplete journal: running them again could do twice what must be done once."""
    if "steps" not in incomplete:
        return
    opened = "SELECT id, session, body FROM inbox WHERE state != 'done'"
    if "messages" not in incomplete:
        opened += " AND id IN (SELECT turn FROM messages UNION SELECT turn FROM steps)"
    for turn, session, body in target.execute(f"{opened} ORDER BY seq").fetchall():
        address = _INBOUND.from_json(body).address
        target.execute("UPDATE inbox SET state = 'done', ended_at = ? WHERE id = ?", (now, turn))
        target.execute("DELETE FROM steps WHERE turn = ?", (turn,))
        target.execute(
            "INSERT INTO messages (session, turn, step, role, text, created_at) VALUES (?, ?, ?, 'notice', ?, ?)",
            (session, turn, "damaged", f"[{MESSAGE_LOST}]", now),
        )
        if address.channel != LOCAL:
            told = Delivery(f"{turn}:deliver:1", address, MESSAGE_LOST, turn=turn, session=session)
            target.execute(
                "INSERT OR IGNORE INTO deliveries (id, channel, chat, body, state, created_at)"
                " VALUES (?, ?, ?, ?, 'pending', ?)",
                (told.id, address.channel, address.chat, _DELIVERY.to_json(told), now),
            )
