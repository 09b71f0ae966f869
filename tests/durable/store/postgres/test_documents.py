"""Documents of the database and their copies in state folders: what counts, and that nothing is lost."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from goclaw.common.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.common.auth.users import add_user
from goclaw.common.config.schema import Config
from goclaw.common.config.state import NOTES, PROMPT_FILES, SET_ASIDE, SHARED_FILES, WEBHOOK_SECRET
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.common.workspace.atomic import again_when_changed
from goclaw.common.workspace.described import ABSENT
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.documents import Brought, Documents, Effect, writer_of
from goclaw.durable.store.postgres.state_folder import StateFolder
from goclaw.durable.store.postgres.stored_files import PIECE, StoredFiles, stored_file
from goclaw.errors import ConfigError, DiskError, StateError
from goclaw.program.ops.doctor.state import check_database
from tests.durable.store.postgres.gateways import NOTE, TOKENS, USERS, Gateway, edit, gateway, soon, store
from tests.lanes import repeats
from tests.parts import sql
from tests.postgres import Server

MODE = 0o640


@pytest.fixture
async def here(place: PostgresPlace, tmp_path: Path) -> Path:
    """A folder of a schema that has tables."""
    async with open_database(place):
        (tmp_path / "here").mkdir(mode=0o700)
        return tmp_path / "here"


def begin(place: PostgresPlace, folder: Path) -> Brought:
    folder.mkdir(mode=0o700, exist_ok=True)
    return Documents(place, StateFolder(folder, SteppedClock())).begin()


def names(folder: Path) -> list[str]:
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != SHARED_FILES)


def change(place: PostgresPlace, folder: Path, name: str, text: str) -> None:
    with writer_of(place, folder)(folder / name):
        edit(folder, name, text)


@pytest.mark.promise("P-users-live", "P-store-files")
async def test_a_change_at_one_gateway_is_in_force_at_the_other_within_a_second(gateways: list[Gateway]) -> None:
    one, two = gateways
    add_user(one.folder / USERS, "telegram:5", name="Ann", writer=one.writer)
    await soon(lambda: two.users.get("telegram:5") is not None)
    two.put(USERS, '{"users": {}}')
    await soon(lambda: one.users.get("telegram:5") is None)
    token = add_token(two.folder / TOKENS, "phone", "telegram:5", 0.0, writer=two.writer)
    await soon(lambda: "phone" in read_tokens(one.folder / TOKENS))
    assert token not in one.text(TOKENS)
    one.put(NOTE, "tea")
    await soon(lambda: two.text(NOTE) == "tea")
    two.remove(NOTE)
    await soon(lambda: not (one.folder / NOTE).exists())
    assert one.aside() == two.aside() == []


@pytest.mark.promise("P-store-files")
async def test_administrators_who_add_people_at_once_lose_nobody(gateways: list[Gateway]) -> None:
    def add(each: Gateway, number: int) -> None:
        add_user(each.folder / USERS, f"telegram:{number}", writer=each.writer)
        add_token(each.folder / TOKENS, f"t{number}", f"telegram:{number}", 0.0, writer=each.writer)

    numbers = range(10, 10 + repeats(6, 40))
    adding = [asyncio.to_thread(add, gateways[number % 2], number) for number in numbers]
    await asyncio.gather(*adding)
    for each in gateways:
        await soon(lambda each=each: set(each.users.in_force) == {f"telegram:{number}" for number in numbers})  # type: ignore[misc]  # its default
        await soon(lambda each=each: len(read_tokens(each.folder / TOKENS)) == len(numbers))  # type: ignore[misc]  # its default
        assert each.aside() == []
    one, two = gateways
    revoke_token(one.folder / TOKENS, "t10", one.writer)
    add_token(two.folder / TOKENS, "last", "telegram:10", 0.0, writer=two.writer)
    for each in gateways:
        await soon(lambda each=each: "last" in each.text(TOKENS) and '"t10"' not in each.text(TOKENS))  # type: ignore[misc]  # its default


@pytest.mark.promise("P-store-files")
async def test_agents_at_two_gateways_that_add_to_one_note_keep_each_others_lines(gateways: list[Gateway]) -> None:
    path = "memory/users/telegram:5/tea.md"

    async def add(workspace: Workspace, line: str) -> None:
        async def once() -> None:
            found = await workspace.exists(path)
            version = (await workspace.stat(path)).version if found else ABSENT
            before = await workspace.read_bytes(path) if found else b""
            await workspace.write_bytes(path, before + line.encode(), unless_changed=version)

        await again_when_changed(once)

    async with AsyncExitStack() as stack:
        workspaces = []
        for each in gateways:
            (each.folder / "workspace").mkdir()
            opened = Workspace(each.folder / "workspace", notes=each.folder / NOTES, writer=each.writer)
            workspaces.append(await stack.enter_async_context(opened))
        await add(workspaces[0], "first\n")
        lines = [f"{number}\n" for number in range(repeats(8, 40))]
        for two in zip(lines[::2], lines[1::2], strict=True):
            await asyncio.gather(*(add(*pair) for pair in zip(workspaces, two, strict=True)))
        name, expected = f"{NOTES}/telegram:5/tea.md", sorted(["first\n", *lines])
        for each in gateways:
            await soon(lambda each=each: sorted(each.text(name).splitlines(keepends=True)) == expected)  # type: ignore[misc]  # its default
        await workspaces[1].remove(path)
        await soon(lambda: not (gateways[0].folder / NOTES / "telegram:5/tea.md").exists())
        assert gateways[0].aside() == gateways[1].aside() == []


@pytest.mark.promise("P-prompt-approved")
async def test_a_prompt_file_that_is_approved_at_one_gateway_counts_at_the_other(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    one, two = (ApprovedFiles(each.folder / PROMPT_FILES, lambda root: True, writer=each.writer) for each in gateways)
    assert (await one.texts_to_use(tmp_path, {"AGENTS.md": b"old"})).texts == {"AGENTS.md": "old"}
    await soon(lambda: two.workspaces() == [tmp_path])
    used = await two.texts_to_use(tmp_path, {"AGENTS.md": b"new"})
    assert used.texts == {"AGENTS.md": "old"} and [each.after for each in used.waiting] == ["new"]
    assert await asyncio.to_thread(one.approve, tmp_path, "AGENTS.md", "old", "new")
    await soon(lambda: two.waiting() == [])
    assert (await two.texts_to_use(tmp_path, {"AGENTS.md": b"new"})).texts == {"AGENTS.md": "new"}


@pytest.mark.promise("P-store-files")
async def test_an_edit_of_a_copy_does_not_count_and_is_set_aside(
    gateways: list[Gateway], place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = gateways
    add_user(one.folder / USERS, "telegram:1", writer=one.writer)
    one.put(NOTE, "tea")
    await soon(lambda: two.text(NOTE) == "tea" and two.users.get("telegram:1") is not None)
    edit(two.folder, USERS, '{"users": {}}')
    (two.folder / NOTE).unlink()
    await soon(lambda: two.text(USERS) == one.text(USERS) and two.text(NOTE) == "tea")
    await soon(lambda: two.users.get("telegram:1") is not None)
    assert two.aside() == ['{"users": {}}'] and f"{USERS} was edited here, but the database counts" in caplog.text
    config = Config.model_validate({"state_dir": two.folder, "store": f"{place.url}?schema={place.schema}"})
    assert "has 1 edited file that the database does not have" in str(check_database(config))


async def test_what_was_changed_while_nothing_was_heard_is_found_when_it_is_again(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(40), gateway(place, tmp_path / "one") as one:
        one.put(NOTE, "tea")
        await store(one.database, NOTE, "coffee")
        assert one.text(NOTE) == "tea", "it was not told"
        one.files._miss()
        await soon(lambda: one.text(NOTE) == "coffee")
        assert one.aside() == []


@pytest.mark.promise("P-store-files")
async def test_one_copy_that_cannot_be_written_holds_up_no_other(gateways: list[Gateway]) -> None:
    one, two = gateways
    (two.folder / "notes/a/y").mkdir(parents=True)
    (two.folder / "notes/a/y/link").symlink_to("nowhere")
    one.put("notes/a/y", "in the way of a folder")
    add_user(one.folder / USERS, "telegram:5", name="Ann", writer=one.writer)
    await soon(lambda: two.users.get("telegram:5") is not None)
    assert (two.folder / "notes/a/y").is_dir()
    (two.folder / "notes/a/y/link").unlink()
    await soon(lambda: two.text("notes/a/y") == "in the way of a folder")


@pytest.mark.promise("P-store-files")
async def test_an_empty_folder_gets_every_document_with_its_mode_and_time(
    place: PostgresPlace, here: Path, tmp_path: Path
) -> None:
    made = f"secrets/{WEBHOOK_SECRET}"
    contents = {USERS: b'{"users": {}}', made: b"s", NOTE: "Grüße".encode(), "notes/a/empty.md": b""}
    for name, content in contents.items():
        edit(here, name, content, MODE if name == USERS else 0o600)
    assert begin(place, here).number(Effect.SENT) == len(contents)
    elsewhere = tmp_path / "elsewhere"
    assert begin(place, elsewhere).number(Effect.COPIED) == len(contents)
    assert {name: (elsewhere / name).read_bytes() for name in names(elsewhere)} == contents
    for name in contents:
        ours, theirs = (here / name).stat(), (elsewhere / name).stat()
        assert (theirs.st_mode, theirs.st_mtime) == (ours.st_mode, ours.st_mtime)
    assert {(elsewhere / name).stat().st_mode & 0o777 for name in ("notes", "notes/a", "secrets")} == {0o700}
    assert begin(place, here).effects == begin(place, elsewhere).effects == {}


@pytest.mark.promise("P-store-files")
async def test_what_is_secret_or_belongs_to_a_machine_is_no_document(place: PostgresPlace, here: Path) -> None:
    passing = ("notes/.x.tmp", "users.json.new", "users.json.before-restore-20261121T160000Z")
    others = ("secrets/token", "config.yaml", "logs/goclaw.log", "daemon.json", "goclaw.db", "telegram-moved.json")
    for name in (*others, *passing, os.fsdecode(b"notes/telegram-5/caf\xe9.md")):
        edit(here, name, "x")
    (here / "notes" / "link.md").symlink_to(here / "config.yaml")
    assert begin(place, here).effects == {}
    with writer_of(place, here)(here / "config.yaml"):
        edit(here, "config.yaml", "y")
    async with open_database(place) as database:
        assert await StoredFiles(database).all() == {}


@pytest.mark.parametrize(
    "name",
    [
        "../outside.md",
        "/outside-of-goclaw.md",
        "notes/../../outside.md",
        "config.yaml",
        "plugins/evil.py",
        "secrets/token",
        "notes//twice.md",
    ],
)
async def test_a_name_that_no_gateway_stores_is_written_nowhere(
    place: PostgresPlace, here: Path, tmp_path: Path, name: str
) -> None:
    async with open_database(place) as database:
        await StoredFiles(database).put(name, None, stored_file(b"x", 0o600, 1.0), b"x")
    assert begin(place, here).effects == {}
    assert names(tmp_path) in ([], [f"here/{SHARED_FILES}"])


@pytest.mark.promise("P-store-files", "P-rolling-upgrade")
async def test_edits_of_a_former_version_that_were_not_sent_are_taken_over_once(
    place: PostgresPlace, here: Path, tmp_path: Path
) -> None:
    for name, text in ((USERS, "1"), (NOTE, "tea"), ("notes/a/gone.md", "gone")):
        edit(here, name, text)
    begin(place, here)
    known, chain = StateFolder(here, SteppedClock()).read_notes()
    former = {"files": known | {f"logs/audit-{chain}.jsonl": "0" * 64}, "media": ["0" * 64], "audit": chain}
    (here / SHARED_FILES).write_text(json.dumps(former))
    edit(here, USERS, "2")
    edit(here, "notes/a/new.md", "new")
    (here / "notes/a/gone.md").unlink()
    done = begin(place, here)
    assert done.effects == {USERS: Effect.SENT, "notes/a/new.md": Effect.SENT, "notes/a/gone.md": Effect.SENT}
    assert begin(place, here).effects == {} and StateFolder(here, SteppedClock()).read_notes()[1] == chain
    begin(place, tmp_path / "elsewhere")
    assert names(tmp_path / "elsewhere") == ["notes/a/new.md", NOTE, USERS]
    assert (tmp_path / "elsewhere" / USERS).read_text() == "2"


@pytest.mark.promise("P-store-files")
async def test_of_two_changes_the_one_in_the_database_counts_and_the_other_is_kept(
    place: PostgresPlace, here: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(here, USERS, "1")
    edit(here, NOTE, "tea")
    begin(place, here)
    begin(place, tmp_path / "elsewhere")
    for name in (USERS, NOTE):
        change(place, tmp_path / "elsewhere", name, "theirs")
    edit(here, USERS, "ours")
    assert begin(place, here).effects == {USERS: Effect.SET_ASIDE, NOTE: Effect.COPIED}
    assert [(here / name).read_text() for name in (USERS, NOTE)] == ["theirs", "theirs"]
    [aside] = (here / SET_ASIDE).rglob(USERS)
    assert aside.read_text() == "ours" and f"{USERS} was edited here, but the database counts" in caplog.text


@pytest.mark.promise("P-store-files")
async def test_a_folder_that_was_left_behind_keeps_nothing_that_was_removed(
    place: PostgresPlace, here: Path, tmp_path: Path
) -> None:
    edit(here, USERS, "old")
    edit(here, NOTE, "tea")
    begin(place, here)
    elsewhere = tmp_path / "elsewhere"
    begin(place, elsewhere)
    change(place, elsewhere, USERS, "new")
    with writer_of(place, elsewhere)(elsewhere / NOTE):
        (elsewhere / NOTE).unlink()
    begin(place, here)
    assert names(here) == [USERS] and (here / USERS).read_text() == "new"


@pytest.mark.promise("P-store-files")
async def test_what_is_newer_than_a_database_that_was_restored_is_kept(place: PostgresPlace, here: Path) -> None:
    edit(here, USERS, "new")
    begin(place, here)
    async with open_database(place) as database:
        stored = StoredFiles(database)
        await stored.put(USERS, (await stored.all())[USERS].sha256, stored_file(b"old", 0o600, 1.0), b"old")
    assert begin(place, here).effects == {USERS: Effect.SET_ASIDE}
    [aside] = (here / SET_ASIDE).rglob(USERS)
    assert ((here / USERS).read_text(), aside.read_text()) == ("old", "new")


async def test_a_folder_that_was_used_with_another_database_loses_nothing(place: PostgresPlace, here: Path) -> None:
    edit(here, USERS, "1")
    begin(place, here)
    async with open_database(place) as database:
        await database.write(sql("DELETE FROM state_files"))
    assert begin(place, here).effects == {USERS: Effect.SENT} and (here / USERS).read_text() == "1"


async def test_a_copy_that_cannot_be_moved_counts(
    place: PostgresPlace, here: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(tmp_path / "elsewhere", USERS, "theirs")
    begin(place, tmp_path / "elsewhere")
    edit(here, USERS, "mounted")
    edit(here, SET_ASIDE, "no folder can be made here")
    assert begin(place, here).effects == {USERS: Effect.SENT}
    assert "this copy counts, because it cannot be moved" in caplog.text
    begin(place, tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / USERS).read_text() == "mounted"


async def test_before_the_first_start_a_change_is_made_in_the_folder(place: PostgresPlace, tmp_path: Path) -> None:
    add_user(tmp_path / USERS, "telegram:5", writer=writer_of(place, tmp_path))
    async with gateway(place, tmp_path) as one:
        assert one.users.get("telegram:5") is not None
        assert list(await StoredFiles(one.database).all()) == [USERS]


async def test_a_change_in_a_stale_folder_is_made_to_the_present_document(
    place: PostgresPlace, here: Path, tmp_path: Path
) -> None:
    add_user(here / USERS, "telegram:1", writer=writer_of(place, here))
    add_user(tmp_path / "fresh" / USERS, "telegram:2", writer=writer_of(place, tmp_path / "fresh"))
    with pytest.raises(ConfigError, match="telegram:2 is already listed"):
        add_user(here / USERS, "telegram:2", writer=writer_of(place, here))
    assert set(json.loads((here / USERS).read_text())["users"]) == {"telegram:1", "telegram:2"}
    assert not (here / SET_ASIDE).exists()


@pytest.mark.promise("P-store-files")
async def test_a_change_that_cannot_be_stored_is_undone_in_the_folder(
    place: PostgresPlace, here: Path, server: Server
) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'goclaw beside' "
    end += "AND state = 'idle in transaction'"

    def lose_the_connection() -> None:
        with writer_of(place, here)(here / NOTE), psycopg.connect(server.url, autocommit=True) as other:
            edit(here, NOTE, "coffee")
            assert other.execute(end.encode()).fetchall()

    def fail() -> None:
        with writer_of(place, here)(here / "notes/new.md"):
            edit(here, "notes/new.md", "half")
            raise ZeroDivisionError

    change(place, here, NOTE, "tea")
    with pytest.raises(DiskError):
        lose_the_connection()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(here) == [NOTE] and (here / NOTE).read_text() == "tea"
    assert begin(place, here).effects == {}


@pytest.mark.promise("P-rolling-upgrade")
async def test_a_former_version_that_makes_the_document_first_is_not_written_over(
    place: PostgresPlace, here: Path
) -> None:
    async with gateway(place, here, hears=False) as one:

        async def lose() -> None:
            with writer_of(place, here)(here / NOTE):
                await store(one.database, NOTE, "theirs")
                edit(here, NOTE, "ours")

        with pytest.raises(StateError, match="was changed by another gateway at this moment"):
            await lose()
        one.files._miss()
        await soon(lambda: one.text(NOTE) == "theirs")


async def test_a_large_document_comes_in_pieces_and_a_damaged_one_is_refused(
    place: PostgresPlace, here: Path, tmp_path: Path
) -> None:
    content = bytes(range(256)) * (2 * PIECE // 256) + b"end"
    edit(here, NOTE, content)
    edit(here, USERS, "1")
    begin(place, here)
    begin(place, tmp_path / "two")
    assert (tmp_path / "two" / NOTE).read_bytes() == content
    async with open_database(place) as database:
        await database.write(sql("DELETE FROM state_file_pieces WHERE number = 1"))
    done = begin(place, tmp_path / "three")
    assert f"{NOTE} is damaged in the database" in str(done.troubles[NOTE])
    assert (tmp_path / "three" / USERS).read_text() == "1"


async def test_two_versions_that_are_set_aside_in_one_second_are_both_kept(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, SteppedClock())
    for text in ("tea", "coffee", "water"):
        (tmp_path / USERS).write_text(text)
        assert folder.set_aside(USERS)
    kept = sorted(path.read_text() for path in (tmp_path / SET_ASIDE).rglob(USERS))
    assert kept == ["coffee", "tea", "water"]
