"""Registries belong to a backup: what was published here is nowhere else."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.extensions.registries import backup
from goclaw.extensions.registries.base import EntryKind
from goclaw.extensions.registries.catalog_store import OWN, CatalogStore, ChangedEntry
from goclaw.extensions.registries.file import FILE, check_catalog
from goclaw.program.ops.backup.archive import RegistryFilePart
from tests.program.ops.backup.support import Home

ENTRY = {"kind": "toolset", "name": "data-tools", "version": "1.0.0", "description": "Tables."}


@pytest.fixture
def shelf(home: Home) -> CatalogStore:
    """A registry in which something is published."""
    found = CatalogStore(home.state / FILE)
    found.publish(ENTRY, "tui:ann", 1.0)
    return found


def test_what_was_published_comes_back_and_what_was_there_is_kept(home: Home, shelf: CatalogStore) -> None:
    assert FILE in home.back_up().manifest.members
    shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", None)
    shelf.publish({**ENTRY, "name": "later"}, "tui:ann", 1.0)
    done = home.restore()
    assert "registries" in done.parts and [each.entry.name for each in shelf.entries(OWN)] == ["data-tools"]
    assert stat.S_IMODE((home.state / FILE).stat().st_mode) == 0o600
    [before] = home.state.glob(f"{FILE}{done.mark}")
    assert [each.entry.name for each in CatalogStore(before).entries(OWN)] == ["later"]
    with pytest.raises(ChangedEntry):
        shelf.publish({**ENTRY, "description": "Other."}, "tui:ann", 2.0)


def test_a_write_that_was_cut_does_not_change_what_comes_back(home: Home, shelf: CatalogStore) -> None:
    """The journal of the file that is replaced goes with it: SQLite would play it back onto the new one."""
    home.back_up()
    journal = home.state / f"{FILE}-journal"
    with closing(sqlite3.connect(home.state / FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_spill = 1")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE entries SET document = zeroblob(200000)")
        cut = journal.read_bytes()
        connection.execute("ROLLBACK")
    journal.write_bytes(cut)
    done = home.restore()
    assert not journal.exists()
    assert (home.state / f"{FILE}{done.mark}-journal").read_bytes() == cut
    assert [each.entry.name for each in shelf.entries(OWN)] == ["data-tools"]


def test_a_registry_beside_which_no_daemon_ever_ran_is_kept_too(tmp_path: Path) -> None:
    served = Home(tmp_path)
    served.configure(registry_server={"open": True})
    shelf = CatalogStore(served.state / FILE)
    shelf.publish(ENTRY, "tui:ann", 1.0)
    served.back_up()
    shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", None)
    served.restore()
    assert [each.entry.name for each in shelf.entries(OWN)] == ["data-tools"]


def test_a_backup_without_registries_leaves_those_that_are_here(home: Home) -> None:
    assert FILE not in home.back_up().manifest.members
    shelf = CatalogStore(home.state / FILE)
    shelf.publish(ENTRY, "tui:ann", 1.0)
    assert "registries" not in home.restore().parts and len(shelf.entries(OWN)) == 1


@pytest.mark.usefixtures("shelf")
def test_a_damaged_file_of_registries_makes_no_backup(home: Home) -> None:
    (home.state / FILE).write_bytes(b"no database" * 1_000)
    with pytest.raises(StateError, match=r"registry\.db"):
        home.back_up()
    assert not (home.folder / "backup.tar.gz").exists()


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON pins BEGIN DELETE FROM pins; END"


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("trick", [TRIGGER, "DROP TABLE pins"])
def test_a_file_with_more_or_less_in_it_than_ours_is_refused(
    home: Home, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup may come from anybody, and what is in a database acts in every use of it."""
    with closing(sqlite3.connect(home.state / FILE)) as connection:
        connection.execute(trick)
    with pytest.raises(StateError, match="is no file of registries"):
        home.back_up()

    def copied(source: Path, target: Path) -> bool:
        return bool(shutil.copy(source, target))

    monkeypatch.setattr(backup, "PART", RegistryFilePart(copied, check_catalog))
    home.back_up()
    (home.state / FILE).unlink()
    with pytest.raises(StateError, match="is no file of registries"):
        home.restore()
    assert not (home.state / FILE).exists()
