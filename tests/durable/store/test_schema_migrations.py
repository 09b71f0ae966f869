"""Old files are backed up and brought up to date; newer ones are refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.common.config.state import Locality
from goclaw.durable.store.schema import LOCALITY, metadata
from goclaw.durable.store.sqlite.migrations import MIGRATIONS, migrate
from goclaw.errors import StateError

pytestmark = pytest.mark.sqlite("the steps of SQLite's schema")

FIRST = Path(__file__).with_name("version_1.sql")
ADD_COLUMN = "ALTER TABLE sessions ADD COLUMN title TEXT"
BROKEN = "ALTER TABLE sessions ADD COLUMN colour TEXT; INSERT INTO nowhere VALUES (1)"


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def columns(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}


def test_a_new_file_has_every_table(tmp_path: Path) -> None:
    migrate(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"sessions", "messages", "compactions", "inbox", "steps", "deliveries"} <= names


def test_an_old_file_is_backed_up_and_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(path, [])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO sessions (key, created_at) VALUES ('kept', 1.0)")
    migrate(path, [ADD_COLUMN])
    assert version(path) == 2
    assert "title" in columns(path)
    backup = tmp_path / "a.db.v1.bak"
    assert version(backup) == 1
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT key FROM sessions").fetchall() == [("kept",)]


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(path, [])
    with pytest.raises(StateError, match="no such table: nowhere"):
        migrate(path, [ADD_COLUMN, BROKEN])
    assert version(path) == 2
    assert "colour" not in columns(path)


@pytest.mark.promise("P-damaged-kept")
def test_a_file_of_a_newer_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(path, [ADD_COLUMN])
    with pytest.raises(StateError, match="newer version"):
        migrate(path, [])
    assert version(path) == 2


def described(path: Path) -> dict[str, set[tuple[object, ...]]]:
    """Every table's columns and every index, however they came to be."""
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: {tuple(row[1:]) for row in connection.execute(f"PRAGMA table_info({name})")} for name in names}
        indexes = connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'")
        return found | {"indexes": {tuple(row) for row in indexes}}


def test_a_file_of_the_first_version_ends_with_the_tables_of_a_new_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(FIRST.read_text())
        connection.execute("INSERT INTO sessions (key, created_at) VALUES ('kept', 1.0)")
        connection.commit()
    migrate(tmp_path / "old.db")
    migrate(tmp_path / "new.db")
    assert described(tmp_path / "old.db") == described(tmp_path / "new.db")
    assert version(tmp_path / "old.db") == version(tmp_path / "new.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        assert connection.execute("SELECT key FROM sessions").fetchall() == [("kept",)]


def test_what_a_killed_upgrade_left_behind_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(path, [])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO sessions (key, created_at) VALUES ('kept', 1.0)")
    path.with_name("a.db.v1.bak.unfinished").write_bytes(b"half a copy")
    path.with_name("a.db.new").write_bytes(b"half a new file")
    migrate(path, [ADD_COLUMN])
    assert (version(path), version(tmp_path / "a.db.v1.bak")) == (2, 1)
    assert not path.with_name("a.db.v1.bak.unfinished").exists()


def test_a_new_file_whose_making_was_killed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.with_name("a.db.new").write_bytes(b"half a new file")
    migrate(path)
    assert described(path)["indexes"]
    assert [found.name for found in tmp_path.iterdir()] == ["a.db"]


def test_every_table_of_a_new_file_says_which_processes_need_its_rows(tmp_path: Path) -> None:
    migrate(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        names = sorted(row[0] for row in found)
    assert len(names) == len(metadata.tables)
    assert [name for name in names if metadata.tables[name].info.get(LOCALITY) not in set(Locality)] == []


def test_names_of_schedules_become_each_persons_own_and_ids_never_come_again(tmp_path: Path) -> None:
    path, add = (
        tmp_path / "a.db",
        "INSERT INTO schedules (name, person, body, state, made_at) VALUES (?, ?, '{}', ?, 1)",
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST.read_text())
        before = next(number for number, step in enumerate(MIGRATIONS) if "former_schedules" in step)
    migrate(path, MIGRATIONS[:before])
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("tea", "gone"):
            connection.execute(add, (name, "telegram:1", "active"))
        connection.execute("DELETE FROM schedules WHERE name = 'gone'")
    migrate(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(add, ("tea", "telegram:2", "active"))
        kept = connection.execute("SELECT id, name, person FROM schedules ORDER BY id").fetchall()
        assert kept == [(1, "tea", "telegram:1"), (3, "tea", "telegram:2")]
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(add, ("tea", "telegram:2", "active"))
