"""The file of registries: what is kept, whose it is, and that it is whole whatever happens to whoever writes it."""

import asyncio
import logging
import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.errors import StateError
from goclaw.extensions.registries import catalog_store as shelf_module
from goclaw.extensions.registries.base import EntryKind, digest
from goclaw.extensions.registries.catalog_store import (
    OWN,
    CatalogFull,
    CatalogRow,
    CatalogStore,
    ChangedEntry,
    ForeignName,
)
from tests import house


def document(name: str = "data-tools", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    return {"kind": "toolset", "name": name, "version": version, "description": "Tables.", **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry.db"


@pytest.fixture
def shelf(path: Path) -> CatalogStore:
    return CatalogStore(path)


def names(shelf: CatalogStore, registry: str = OWN) -> list[str]:
    return [f"{each.entry.name} {each.entry.version}" for each in shelf.entries(registry)]


def test_looking_makes_no_file(shelf: CatalogStore, path: Path) -> None:
    assert shelf.entries() == [] and shelf.versions(OWN, EntryKind.TOOLSET, "x") == [] and shelf.lines(OWN) == []
    assert shelf.sync("corp").synced_at == 0.0 and shelf.revision() == "" and shelf.list_own() == set()
    assert not path.exists() and not path.parent.exists()


def test_only_its_user_can_read_it_and_nothing_lies_beside_it(shelf: CatalogStore, path: Path) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in path.parent.iterdir()] == [(path.name, 0o600)]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_journal_of_a_write_is_as_private_as_the_file(shelf: CatalogStore, path: Path) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE entries SET latest = 1")
        journal = path.with_name(f"{path.name}-journal")
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600


def test_what_is_published_is_kept_as_it_is_and_published_once(shelf: CatalogStore) -> None:
    wanted = document(unknown={"field": [1, None, "é"]})
    assert shelf.publish(wanted, "tui:ann", 5.0) and not shelf.publish(wanted, "tui:ann", 9.0)
    [kept] = shelf.entries(OWN)
    assert (kept.document, kept.sha256, kept.published_at, kept.published_by) == (
        wanted,
        digest(wanted),
        5.0,
        "tui:ann",
    )


def test_a_version_never_becomes_something_else_not_even_after_it_was_withdrawn(shelf: CatalogStore) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    with pytest.raises(ChangedEntry, match=r"data-tools 1\.0\.0 is already published with other content"):
        shelf.publish(document(description="Other."), "tui:ann", 2.0)
    assert shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:ann") and names(shelf) == []
    with pytest.raises(ChangedEntry):
        shelf.publish(document(description="Other."), "tui:ann", 2.0)
    assert shelf.publish(document(), "tui:ann", 3.0) and names(shelf) == ["data-tools 1.0.0"]


def test_a_name_is_its_first_publishers(shelf: CatalogStore) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    with pytest.raises(ForeignName, match="belongs to another publisher"):
        shelf.publish(document(version="2.0.0"), "tui:eve", 2.0)
    with pytest.raises(ForeignName):
        shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:eve")
    for changes in ({"kind": "agent"}, {"kind": "mcp-server", "version": "2.0.0"}, {"name": "Data-Tools"}):
        with pytest.raises(ForeignName):
            shelf.publish({**document(), **changes}, "tui:eve", 2.0)
    assert shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", None), "whoever runs it may remove everything"
    with pytest.raises(ForeignName):
        shelf.publish(document(version="2.0.0"), "tui:eve", 3.0)
    assert not shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:ann")


def test_a_version_is_a_toolset_or_an_mcp_server_and_not_both(shelf: CatalogStore) -> None:
    """Whoever uses `data-tools 1.0.0` does not say which: the one would be used in place of the other."""
    shelf.publish(document(), "tui:ann", 1.0)
    with pytest.raises(ChangedEntry, match="already published with other content"):
        shelf.publish({**document(), "kind": "mcp-server"}, "tui:ann", 2.0)
    assert shelf.publish({**document(), "kind": "agent"}, "tui:ann", 2.0), "an agent is used by its toolsets"


def test_a_refused_publisher_does_not_get_the_name(shelf: CatalogStore) -> None:
    with pytest.raises(ValueError, match=r"^version: "):
        shelf.publish(document(version="latest"), "tui:eve", 1.0)
    assert shelf.list_own() == set()


def test_what_no_client_would_fetch_is_not_published(shelf: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "MAX_ENTRIES", 2)
    for version in ("1.0.0", "1.0.1"):
        shelf.publish(document(version=version), "tui:ann", 1.0)
    with pytest.raises(CatalogFull, match="withdraw old ones"):
        shelf.publish(document(version="1.0.2"), "tui:ann", 1.0)
    shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:ann")
    assert shelf.publish(document(version="1.0.2"), "tui:ann", 1.0)


def test_a_catalogue_is_taken_over_whole(shelf: CatalogStore) -> None:
    one, two = CatalogRow(document(), 1.0), CatalogRow(document(version="2.0.0"), 2.0)
    assert shelf.replace_catalog("corp", [one, two], 10.0, "tag").entries == 2
    shelf.replace_catalog("other", [one], 10.0)
    shelf.publish(document("mine"), "tui:ann", 1.0)
    assert names(shelf, "corp") == ["data-tools 2.0.0", "data-tools 1.0.0"] and shelf.sync("corp").etag == "tag"
    shelf.replace_catalog("corp", [one], 20.0)
    assert names(shelf, "corp") == names(shelf, "other") == ["data-tools 1.0.0"] and names(shelf) == ["mine 1.0.0"]


def test_what_became_something_else_stays_as_it_was_and_what_is_none_is_left_out(shelf: CatalogStore) -> None:
    shelf.replace_catalog("corp", [CatalogRow(document(), 1.0)], 10.0, "tag")
    lying = [
        CatalogRow(document(description="Other."), 1.0, latest=True),
        CatalogRow(document(), 1.0),
        CatalogRow({"name": "odd"}, 1.0),
        CatalogRow({"name": "\x1b[31m" * 90, "kind": 5}, 1.0),
        CatalogRow(document(version="2.0.0"), 1.0),
    ]
    taken = shelf.replace_catalog("corp", lying, 20.0, "tag 2")
    assert [words.split(":")[0].split(" is ")[0][:30] for words in taken.refused] == [
        "toolset data-tools 1.0.0",
        "'odd'",
        repr("\x1b[31m" * 90)[:30],
        "toolset data-tools 1.0.0",
    ]
    assert {each.entry.version: each.entry.description for each in shelf.entries("corp")} == {
        "1.0.0": "Tables.",
        "2.0.0": "Tables.",
    }
    assert shelf.sync("corp").etag == "", "a catalogue with faults is asked for whole again"


def test_a_version_does_not_become_another_kind(shelf: CatalogStore) -> None:
    server = CatalogRow({**document(), "kind": "mcp-server"}, 1.0)
    shelf.replace_catalog("corp", [server], 10.0)
    for listed in ([server, CatalogRow(document(), 1.0)], [CatalogRow(document(), 1.0)]):
        taken = shelf.replace_catalog("corp", listed, 20.0)
        assert [words[:49] for words in taken.changed] == ["toolset data-tools 1.0.0 is there as mcp-server a"]
        assert {each.entry.kind for each in shelf.entries("corp")} <= {EntryKind.MCP_SERVER}


def test_a_registry_that_lists_other_versions_every_time_fills_no_disk(
    shelf: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_module, "MAX_PINS", 3)
    taken = [shelf.replace_catalog("odd", [CatalogRow(document(version=f"{turn}.0.0"), 1.0)], 1.0) for turn in range(5)]
    assert names(shelf, "odd") == [] and "has had 3 versions" in taken[-1].refused[0]
    assert shelf.replace_catalog("odd", [CatalogRow(document(version="1.0.0"), 1.0)], 1.0).refused == ()


def test_what_a_registry_says_beside_a_document_is_followed(shelf: CatalogStore) -> None:
    old, new = CatalogRow(document(), 1.0), CatalogRow(document(version="2.0.0"), 2.0)
    shelf.replace_catalog("corp", [old, new], 10.0)
    before = shelf.revision()
    shelf.replace_catalog("corp", [old, new], 20.0)
    assert shelf.revision() == before, "nothing that is listed has changed"
    shelf.replace_catalog("corp", [CatalogRow(document(), 1.0, latest=True, via=("a",)), new], 20.0)
    assert shelf.revision() != before and names(shelf, "corp")[0] == "data-tools 1.0.0"
    assert shelf.entries("corp")[0].via == ("a",)


def test_every_change_is_a_new_revision(shelf: CatalogStore) -> None:
    seen = [shelf.revision()]
    shelf.publish(document(), "tui:ann", 1.0)
    seen.append(shelf.revision())
    shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:ann")
    seen.append(shelf.revision())
    shelf.record_try("corp", 5.0, "nobody answers")
    assert len(set(seen)) == 3 and shelf.revision() == seen[-1]


def test_when_a_catalogue_was_fetched_and_why_not_is_kept(shelf: CatalogStore) -> None:
    shelf.record_try("corp", 5.0, "nobody answers")
    assert (shelf.sync("corp").synced_at, shelf.sync("corp").problem) == (0.0, "nobody answers")
    shelf.replace_catalog("corp", [], 6.0, "tag")
    shelf.record_try("corp", 7.0, "nobody answers")
    assert (shelf.sync("corp").synced_at, shelf.sync("corp").etag) == (6.0, "tag")
    shelf.record_try("corp", 8.0)
    assert (shelf.sync("corp").synced_at, shelf.sync("corp").problem) == (8.0, "")


def test_lines_and_documents_are_what_is_kept(shelf: CatalogStore) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    [line] = shelf.lines(OWN)
    [raw] = shelf.documents([line])
    assert raw is not None
    assert (orjson.loads(raw), line.size, line.key) == (document(), len(raw), ("toolset", "data-tools", "1.0.0"))
    shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", "tui:ann")
    assert shelf.documents([line]) == [None]


def test_a_fact_is_the_first_that_was_said(shelf: CatalogStore) -> None:
    assert (shelf.fact("id", "one"), shelf.fact("id", "two")) == ("one", "one")


def test_a_document_that_is_not_what_it_was_is_not_used(
    shelf: CatalogStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    shelf.publish(document("other"), "tui:ann", 1.0)
    with closing(sqlite3.connect(path)) as connection, connection:
        other = sqlite3.Binary(orjson.dumps(document("other", description="Tablet.")))
        connection.execute("UPDATE entries SET document = ? WHERE name = 'other'", (other,))
    with caplog.at_level(logging.WARNING):
        assert names(shelf) == ["data-tools 1.0.0"]
    assert "toolset other 1.0.0 is not used" in caplog.text


def test_a_damaged_file_is_named_with_what_helps(shelf: CatalogStore, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database, and never was one" * 100)
    for use in (lambda: shelf.entries(), lambda: shelf.publish(document(), "tui:ann", 1.0)):
        with pytest.raises(StateError, match=r"registry\.db cannot be used .* `goclaw restore`, or move it away"):
            use()


def test_a_file_of_a_newer_goclaw_is_left_alone(shelf: CatalogStore, path: Path) -> None:
    shelf.publish(document(), "tui:ann", 1.0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    for use in (lambda: shelf.entries(), lambda: shelf.publish(document("x"), "tui:ann", 1.0)):
        with pytest.raises(StateError, match="a newer GoClaw wrote"):
            use()
    assert path.read_bytes() == before


def test_a_file_that_is_used_for_long_is_not_called_damaged(
    shelf: CatalogStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goclaw.extensions.registries.file.BUSY_SECONDS", 0.01)
    shelf.publish(document(), "tui:ann", 1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError, match="another program has locked"):
            shelf.entries()


def test_many_threads_and_the_first_file_of_all(path: Path) -> None:
    """Each has its own view of the file; one name has one owner, and nobody loses a lock to another."""

    def publish(number: int) -> bool:
        try:
            return CatalogStore(path).publish(document("one"), f"tui:{number}", 1.0)
        except ForeignName:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(publish, range(16))) == 1
    assert len(CatalogStore(path).entries()) == 1


KILLED = """
import sys
from pathlib import Path
from goclaw.extensions.registries.catalog_store import CatalogRow, CatalogStore
store = CatalogStore(Path(sys.argv[1]))
for turn in range(10_000):
    version = f"{turn}.0.0"
    like = {"kind": "toolset", "version": version, "description": "x" * 2_000}
    store.replace_catalog("corp", [CatalogRow({**like, "name": f"n{number}"}, 1.0) for number in range(50)], 1.0)
    print(turn, flush=True)
"""


async def test_a_kill_leaves_all_of_a_catalogue_or_nothing(path: Path) -> None:
    """Each turn of the process that dies replaces all fifty entries: a half of one would show two versions."""
    shelf = CatalogStore(path)
    for turns in (1, 2, 3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, str(path), cwd=house.ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(30):
            for _ in range(turns):
                await process.stdout.readline()
            process.kill()
            await process.wait()
        kept = shelf.entries("corp")
        assert len(kept) == 50 and len({each.entry.version for each in kept}) == 1
        assert shelf.publish(document("mine", version=f"{turns}.0.0"), "tui:ann", 1.0)
