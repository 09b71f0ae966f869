"""A damaged database is set aside whole, what can be read of it goes on, and a kill in between loses nothing."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.durable.store.database import insert_into
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import sessions
from goclaw.durable.store.sqlite import recovery
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.durable.store.sqlite.recovery import MESSAGE_LOST, make_ready, mark_damaged, set_aside
from goclaw.errors import DiskError, StateError
from tests.parts import sql

pytestmark = pytest.mark.sqlite("damages pages of the file")

PAGE = 4096
CLOCK = SteppedClock()
ROWS = 2_000
INBOUND: Codec[Inbound] = Codec(Inbound)
ADD = insert_into(sessions, "key", "created_at", "context_start")

LEAVE_A_LOG = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for number in range(9):
    connection.execute("INSERT INTO sessions (key, created_at) VALUES (?, 1.0)", (str(number),))
os._exit(0)
"""


def filled(tmp_path: Path) -> Path:
    """A database with long conversations, one open turn that had begun, and one that had not."""
    path = tmp_path / "goclaw.db"
    migrate(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO sessions (key, created_at) VALUES ('memory:here', 1.0)")
        for number in range(ROWS):
            connection.execute(
                "INSERT INTO messages (session, turn, step, role, text, created_at)"
                " VALUES (?, ?, 'user', 'user', ?, 1.0)",
                ("memory:here", f"t{number}", f"{number}:" + "x" * 400),
            )
        for turn, state in (("t1", "done"), (f"t{ROWS - 1}", "new"), ("waiting", "new")):
            inbound = Inbound(turn, Actor("a", "memory"), "memory:here", turn, Address("memory", "here"), 1.0)
            connection.execute(
                "INSERT INTO inbox (id, session, kind, body, state, received_at) VALUES (?, ?, 'message', ?, ?, 1.0)",
                (turn, "memory:here", INBOUND.to_json(inbound), state),
            )
        connection.execute("INSERT INTO steps VALUES (?, 'user', 'done', '1')", (f"t{ROWS - 1}",))
        connection.execute("COMMIT")
    return path


def asked(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def page_of(path: Path, table: str) -> int:
    """The number of a table's first page."""
    found = asked(path, "SELECT name, rootpage FROM sqlite_master")
    return next(int(str(page)) for name, page in found if name == table)


def no_header(path: Path) -> None:
    overwrite(path, 0, os.urandom(100))


def no_first_page(path: Path) -> None:
    overwrite(path, 0, bytes(PAGE))


def a_leaf(path: Path) -> None:
    """A page in the middle, which holds some nine messages."""
    found = path.read_bytes().index(b"1000:xxx")
    overwrite(path, found // PAGE * PAGE, b"\xff" * PAGE)


def the_end(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def everything(path: Path) -> None:
    path.write_bytes(b"this is not a database, it only has its name\n" * 1_000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.promise("P-damaged-kept")
@pytest.mark.parametrize(
    ("damage", "at_least"),
    [
        (no_header, ROWS),
        (no_first_page, ROWS),
        (a_leaf, ROWS - 12),
        (the_end, ROWS // 3),
        (everything, 0),
        (empty, 0),
    ],
)
def test_a_damaged_file_is_set_aside_as_it_was_and_what_can_be_read_goes_on(
    tmp_path: Path, damage: Callable[[Path], None], at_least: int
) -> None:
    path = filled(tmp_path)
    damage(path)
    before = path.read_bytes()
    salvaged = make_ready(path, CLOCK)
    assert salvaged is not None
    assert salvaged.aside.read_bytes() == before
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]
    kept = asked(path, "SELECT id, text FROM messages WHERE step != 'damaged' ORDER BY id")
    assert len(kept) >= at_least
    assert all(str(text).startswith(f"{int(str(row)) - 1}:x") for row, text in kept), "each row under its own id"
    assert set_aside(path) == [salvaged]
    assert salvaged.aside.name in salvaged.summary
    assert make_ready(path, CLOCK) is None, "the new file is sound"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("P-damaged-kept")
def test_what_was_open_and_is_whole_is_still_to_be_answered(tmp_path: Path) -> None:
    path = filled(tmp_path)
    a_leaf(path)
    salvaged = make_ready(path, CLOCK)
    assert salvaged and list(salvaged.incomplete) == ["messages"]
    assert asked(path, "SELECT id FROM inbox WHERE state = 'new' ORDER BY seq") == [(f"t{ROWS - 1}",), ("waiting",)]
    assert asked(path, "SELECT name FROM steps") == [("user",)]


@pytest.mark.promise("P-damaged-kept")
def test_a_turn_whose_journal_is_lost_is_not_run_again_but_told(tmp_path: Path) -> None:
    path = filled(tmp_path)
    overwrite(path, (page_of(path, "steps") - 1) * PAGE, b"\xff" * PAGE)
    salvaged = make_ready(path, CLOCK)
    assert salvaged and list(salvaged.incomplete) == ["steps"]
    assert asked(path, "SELECT id FROM inbox WHERE state = 'new'") == [("waiting",)], "that one had not begun"
    assert asked(path, "SELECT text FROM messages ORDER BY id DESC LIMIT 1") == [(f"[{MESSAGE_LOST}]",)]
    (body,) = asked(path, "SELECT body FROM deliveries WHERE state = 'pending'")[0]
    assert MESSAGE_LOST in str(body)


@pytest.mark.promise("P-damaged-kept")
def test_a_log_that_is_damaged_costs_what_was_in_it_alone(tmp_path: Path) -> None:
    path = filled(tmp_path)
    child = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
    child += (
        "[c.execute(f\"INSERT INTO sessions (key, created_at) VALUES ('{n}', 1.0)\") for n in range(9)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", child, path], check=True, timeout=30)
    log = path.with_name("goclaw.db-wal")
    overwrite(log, log.stat().st_size // 2, b"\xff" * 3_000)
    make_ready(path, CLOCK)
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]
    assert len(asked(path, "SELECT id FROM messages")) == ROWS
    assert 1 <= len(asked(path, "SELECT key FROM sessions")) < 10


@pytest.mark.promise("P-damaged-kept")
def test_a_log_without_its_file_is_set_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "goclaw.db"
    path.with_name("goclaw.db-wal").write_bytes(b"what was said last")
    salvaged = make_ready(path, CLOCK)
    assert salvaged is not None
    assert salvaged.aside.with_name(f"{salvaged.aside.name}-wal").read_bytes() == b"what was said last"


@pytest.mark.promise("P-damaged-kept")
def test_two_damaged_files_of_one_second_are_both_kept(tmp_path: Path) -> None:
    path = filled(tmp_path)
    for _ in range(2):
        everything(path)
        assert make_ready(path, CLOCK)
    assert len({found.aside for found in set_aside(path)}) == 2


@pytest.mark.promise("P-damaged-kept")
@pytest.mark.parametrize("step", range(12))
def test_a_kill_at_any_rename_is_finished_by_the_next_start(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path)
    a_leaf(path)
    before = path.read_bytes()
    done = 0
    rename = Path.rename

    def dying(self: Path, target: Path) -> Path:
        nonlocal done
        if done == step:
            raise KeyboardInterrupt
        done += 1
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        try:
            make_ready(path, CLOCK)
        except KeyboardInterrupt:
            pass
        else:
            assert done <= step, "there are fewer renames than that"
    make_ready(path, CLOCK)
    (salvaged,) = set_aside(path)
    assert salvaged.aside.read_bytes() == before
    assert ROWS - 12 <= len(asked(path, "SELECT id FROM messages")) < ROWS
    assert sorted(found.name for found in tmp_path.iterdir() if "salvage" in found.name) == []


@pytest.mark.promise("P-damaged-kept")
def test_a_suspect_file_is_looked_at_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path)
    a_leaf(path)
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "examine_file", lambda path, seconds: None)
        assert make_ready(path, CLOCK) is None, "there was no time to find it"
    mark_damaged(path, "database disk image is malformed")
    assert make_ready(path, CLOCK) is not None
    assert not path.with_name("goclaw.db.suspect").exists()
    mark_damaged(path, "a false alarm")
    assert make_ready(path, CLOCK) is None
    assert not path.with_name("goclaw.db.suspect").exists()


@pytest.mark.promise("P-damaged-kept")
async def test_damage_that_is_met_while_it_runs_ends_all_writing(tmp_path: Path) -> None:
    path = filled(tmp_path)
    async with open_database(path) as database:
        told = list[object]()
        database.on_trouble(told.append)
        await database.write(ADD(key="before", created_at=1.0, context_start=0))
        page = page_of(path, "messages")
        await asyncio.to_thread(overwrite, path, (page - 1) * PAGE, b"\xff" * PAGE)
        with pytest.raises(DiskError, match="cannot be read"):
            await database.read(sql("SELECT text FROM messages"))
        found = path.read_bytes()
        for _ in range(3):
            with pytest.raises(DiskError, match="goclaw restart"):
                await database.write(ADD(key="after", created_at=1.0, context_start=0), durable=True)
        assert path.read_bytes() == found
        assert len(told) == 1
    async with open_database(path) as database:
        assert database.salvaged is not None
        assert "after" not in [row["key"] for row in await database.read(sql("SELECT key FROM sessions"))]
        await database.write(ADD(key="after", created_at=1.0, context_start=0))


@pytest.mark.promise("P-damaged-kept")
def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StateError, match="newer version"):
        make_ready(path, CLOCK)
    assert set_aside(path) == []


@pytest.mark.promise("P-damaged-kept")
@pytest.mark.parametrize(
    ("change", "words", "kept"),
    [
        ("DROP TABLE checkpoints", "there is no table checkpoints", ROWS),
        ("DROP TABLE steps", "there is no table steps", ROWS),
        ("DROP TABLE messages", "there is no table messages", 0),
        ("ALTER TABLE messages DROP COLUMN hint", "the table messages has no hint", ROWS),
        ("ALTER TABLE messages RENAME COLUMN text TO words", "the table messages has no text", 0),
        ("ALTER TABLE deliveries RENAME TO old", "there is no table deliveries", ROWS),
        ("DROP TABLE daemon_facts; CREATE TABLE daemon_facts (name, value)", "daemon_facts has no name", ROWS),
    ],
)
def test_a_file_without_a_table_or_a_column_is_set_aside_like_a_damaged_one(
    tmp_path: Path, change: str, words: str, kept: int
) -> None:
    path = filled(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"DROP INDEX IF EXISTS messages_with_artifacts; {change}")
    salvaged = make_ready(path, CLOCK)
    assert salvaged is not None and words in salvaged.found
    assert asked(path, "SELECT count(*) FROM messages WHERE step != 'damaged'") == [(kept,)]
    assert ("messages" in salvaged.incomplete) is (kept == 0)
    assert make_ready(path, CLOCK) is None, "the new file is sound"


@pytest.mark.promise("P-damaged-kept")
@pytest.mark.parametrize("change", ["DROP TABLE deliveries", "ALTER TABLE inbox DROP COLUMN body", "DROP TABLE steps"])
def test_an_old_file_that_lacks_something_is_set_aside_too(tmp_path: Path, change: str) -> None:
    path = tmp_path / "goclaw.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{Path(__file__).parents[1].joinpath('version_1.sql').read_text('utf-8')}; {change}")
    salvaged = make_ready(path, CLOCK)
    assert salvaged is not None and change.split()[2] in salvaged.found
    assert make_ready(path, CLOCK) is None, "the new file is sound"


def test_indexes_that_are_gone_are_made_again(tmp_path: Path) -> None:
    path = filled(tmp_path)
    named = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    before = asked(path, named)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("".join(f"DROP INDEX {name};" for name, _ in before))
    assert make_ready(path, CLOCK) is None
    assert asked(path, named) == before
