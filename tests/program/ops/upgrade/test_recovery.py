"""The end of an upgrade that was cut, from each state that a kill can leave; real kills are in `acceptance`."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import UPGRADE_JOURNAL, commit_upgrade, open_state
from goclaw.errors import StateError
from goclaw.program.ops.upgrade import journal, snapshot
from goclaw.program.ops.upgrade.exchange import exchange
from goclaw.program.ops.upgrade.journal import Journal, Phase, identity
from goclaw.program.ops.upgrade.recovery import recover, undo


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config(state_dir=tmp_path / "state")
    with open_state(made):
        write(made, "old")
    return made


@pytest.fixture
def begun(config: Config, tmp_path: Path) -> Journal:
    """Two environments, the new one beside; the state is kept as the old version left it."""
    home, beside = tmp_path / "venv", tmp_path / ".venv.new"
    for folder, version in ((home, "old"), (beside, "new")):
        folder.mkdir()
        (folder / "version").write_text(version)
    snapshot.create(config.state_dir)
    found = Journal(Phase.SWITCHING, "0.1.0", "0.2.0", home, beside, identity(beside))
    journal.mark_uncommitted(config.state_dir)
    journal.write(config.state_dir, found)
    return found


def write(config: Config, text: str) -> None:
    """Put a text into the database, and into a small file."""
    with closing(sqlite3.connect(config.state_dir / "goclaw.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS texts (text TEXT)")
        database.execute("INSERT INTO texts VALUES (?)", (text,))
        (config.state_dir / "daemon.json").write_text(text)


def texts(config: Config) -> list[str]:
    with closing(sqlite3.connect(config.state_dir / "goclaw.db")) as database:
        return [text for (text,) in database.execute("SELECT text FROM texts")]


def version(found: Journal) -> str:
    return (found.home / "version").read_text()


def left(config: Config) -> Iterator[str]:
    yield from (path.name for path in config.state_dir.iterdir() if "upgrade" in path.name and path.suffix != ".lock")


def test_without_a_journal_there_is_nothing_to_do(config: Config) -> None:
    assert recover(config) is None


@pytest.mark.promise("P-upgrade")
def test_a_switch_without_a_commit_brings_back_program_and_data(config: Config, begun: Journal) -> None:
    exchange(begun.beside, begun.home)
    write(config, "new")
    (config.state_dir / "unknown.json").write_text("new")
    done = recover(config)
    assert done is not None and done.must_restart and "undid an interrupted upgrade to 0.2.0" in done.sentence
    assert (version(begun), texts(config)) == ("old", ["old"])
    assert (config.state_dir / "daemon.json").read_text() == "old"
    assert (config.state_dir / "unknown.json").exists(), "nothing is deleted"
    assert list(left(config)) == [] and not begun.beside.exists()


@pytest.mark.promise("P-upgrade")
def test_a_switch_that_was_not_made_yet_needs_no_restart(config: Config, begun: Journal) -> None:
    done = recover(config)
    assert done is not None and not done.must_restart
    assert (version(begun), texts(config), list(left(config))) == ("old", ["old"], [])


@pytest.mark.promise("P-upgrade")
def test_a_commit_is_finished_and_keeps_what_the_new_version_wrote(config: Config, begun: Journal) -> None:
    exchange(begun.beside, begun.home)
    write(config, "new")
    commit_upgrade(config)
    done = recover(config)
    assert done is not None and not done.must_restart and "finished" in done.sentence
    assert (version(begun), texts(config), list(left(config))) == ("new", ["old", "new"], [])
    assert not begun.beside.exists()
    with pytest.raises(FileNotFoundError):
        version(replace(begun, home=begun.beside))


@pytest.mark.promise("P-upgrade")
@pytest.mark.parametrize("is_exchanged", [True, False], ids=["before the exchange back", "after it"])
def test_an_undoing_that_was_cut_is_done_again(config: Config, begun: Journal, is_exchanged: bool) -> None:
    exchange(begun.beside, begun.home)
    write(config, "new")
    journal.write(config.state_dir, replace(begun, phase=Phase.UNDOING))
    (config.state_dir / "goclaw.db.putting-back").write_text("half")
    if not is_exchanged:
        exchange(begun.beside, begun.home)
        journal.unmark(config.state_dir)
    done = recover(config)
    assert done is not None and done.must_restart is is_exchanged
    assert (version(begun), texts(config), list(left(config))) == ("old", ["old"], [])


def test_what_was_only_prepared_is_removed(config: Config, begun: Journal) -> None:
    journal.write(config.state_dir, replace(begun, phase=Phase.PREPARING))
    done = recover(config)
    assert done is not None and not done.must_restart and "removed the files of an interrupted upgrade" in done.sentence
    assert (version(begun), list(left(config)), begun.beside.exists()) == ("old", [], False)


def test_an_upgrade_that_is_under_way_is_left_alone(config: Config, begun: Journal) -> None:
    with journal.only_upgrade(config.state_dir):
        assert recover(config) is None
        with (
            pytest.raises(StateError, match="another `goclaw upgrade` is running"),
            journal.only_upgrade(config.state_dir),
        ):
            pass
    assert journal.read(config.state_dir) == begun


def test_a_daemon_that_is_about_to_commit_is_left_alone(config: Config, begun: Journal) -> None:
    exchange(begun.beside, begun.home)
    with open_state(config):
        assert recover(config) is None
    assert version(begun) == "new"


def test_what_was_committed_meanwhile_is_not_undone(config: Config, begun: Journal) -> None:
    exchange(begun.beside, begun.home)
    commit_upgrade(config)
    with pytest.raises(StateError, match=r"0\.2\.0 has already taken over"):
        undo(config, begun)
    assert version(begun) == "new"


def test_a_journal_that_cannot_be_read_is_named_and_stays(config: Config) -> None:
    path = config.state_dir / UPGRADE_JOURNAL
    path.write_text("{")
    with pytest.raises(StateError, match=r"upgrade\.json: cannot be read"):
        recover(config)
    assert path.read_text() == "{"


def test_a_snapshot_that_was_cut_is_no_snapshot(config: Config) -> None:
    (config.state_dir / f"{snapshot.FOLDER}.new").mkdir()
    assert not snapshot.put_back(config.state_dir)
    snapshot.create(config.state_dir)
    assert snapshot.put_back(config.state_dir)
    assert texts(config) == ["old"]


def test_a_log_of_the_new_database_goes_with_it(config: Config, begun: Journal) -> None:
    exchange(begun.beside, begun.home)
    # A killed daemon leaves the log that it has not written back yet.
    log = config.state_dir / "goclaw.db-wal"
    log.write_bytes(b"of the new database")
    assert recover(config) is not None
    assert not log.exists() and texts(config) == ["old"]


def test_a_snapshot_has_its_name_when_it_is_whole(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(OSError, match="no space"):
        snapshot.create(config.state_dir)
    assert not (config.state_dir / snapshot.FOLDER).exists()


def test_a_snapshot_has_no_secret_and_no_media(config: Config) -> None:
    for name in ("secrets", "blobs", "logs", "notes"):
        (config.state_dir / name).mkdir(exist_ok=True)
        (config.state_dir / name / "a").write_text("a")
    snapshot.create(config.state_dir)
    kept = {path.name for path in (config.state_dir / snapshot.FOLDER).iterdir()}
    assert kept == {"goclaw.db", "daemon.json", "notes"}
