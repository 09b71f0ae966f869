"""Files of two state folders while both gateways run: a change reaches the other one, and none is lost."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import pytest

from goclaw.common.auth.audit import Audit, AuditEntry, fact_of
from goclaw.common.auth.audit_chain import Blanking, Head
from goclaw.common.auth.audit_verify import verify_audit
from goclaw.common.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.common.auth.users import Users, add_user, open_users
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.state import SET_ASIDE
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.common.core.supervise import background
from goclaw.durable.store.blobs import open_blobs
from goclaw.durable.store.database import BoundStatement, ConstraintViolated
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.state_audits import blank_audits, copy_audits
from goclaw.durable.store.postgres.state_files import StateFiles, open_state_files
from goclaw.durable.store.postgres.state_folder import StateFolder
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles, stored_file
from goclaw.durable.store.settings import Settings
from tests.acceptance.waiting import clock, eventually
from tests.lanes import repeats

T = TypeVar("T")
USERS, TOKENS, NOTE, AUDIT = "users.json", "access-tokens.json", "notes/telegram-5/tea.md", "logs/audit.jsonl"
ANN = Actor("telegram:5", "telegram")
SECOND = 1.0
"""Seconds within which a change is to be in force elsewhere."""
BUSY = 10.0
"""Further seconds for a machine that does much else."""


class Gateway:
    """The files of one gateway that runs, and its users."""

    def __init__(self, folder: Path, database: PostgresDatabase, files: StateFiles, users: Users) -> None:
        self.folder = folder
        self.database = database
        self.files = files
        self.users = users

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.is_file() else ""

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    def aside(self) -> list[str]:
        return sorted(path.read_text() for path in (self.folder / SET_ASIDE).rglob("*") if path.is_file())


@asynccontextmanager
async def gateway(place: PostgresPlace, folder: Path, *, hears: bool = True) -> AsyncIterator[Gateway]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    async with (
        open_schema(place, clock) as database,
        open_state_files(database, folder, clock) as files,
        open_users(folder / USERS, clock) as users,
        background(database.notices.run(), "notices") if hears else nullcontext(),
    ):
        files.on_fetch(users.refresh)
        yield Gateway(folder, database, files, users)


@pytest.fixture
async def gateways(place: PostgresPlace, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        yield [await stack.enter_async_context(gateway(place, tmp_path / name)) for name in ("one", "two")]


async def soon(condition: Callable[[], bool]) -> None:
    began = clock.monotonic()
    await eventually(condition, SECOND + BUSY)
    assert clock.monotonic() - began < SECOND + BUSY


@pytest.mark.promise("P-users-live")
async def test_who_is_added_or_removed_by_one_gateway_is_in_the_other_within_a_second(gateways: list[Gateway]) -> None:
    one, two = gateways
    add_user(one.folder / USERS, "telegram:5", name="Ann")
    await soon(lambda: two.users.get("telegram:5") is not None)
    two.put(USERS, '{"users": {}}')
    await soon(lambda: one.users.get("telegram:5") is None)
    token = add_token(two.folder / TOKENS, "phone", "telegram:5", 0.0)
    await soon(lambda: "phone" in read_tokens(one.folder / TOKENS))
    assert token not in one.text(TOKENS)
    one.put(NOTE, "tea")
    await soon(lambda: two.text(NOTE) == "tea")
    (two.folder / NOTE).unlink()
    await soon(lambda: not (one.folder / NOTE).exists())


@pytest.mark.promise("P-store-files")
async def test_two_administrators_who_add_people_at_once_lose_nobody(gateways: list[Gateway]) -> None:
    one, two = gateways
    add_user(one.folder / USERS, "telegram:1")
    await soon(lambda: two.users.get("telegram:1") is not None)
    for number in range(10, 10 + repeats(6, 40), 2):
        for each, key in zip(gateways, (number, number + 1), strict=True):
            add_user(each.folder / USERS, f"telegram:{key}")
            add_token(each.folder / TOKENS, f"t{key}", f"telegram:{key}", 0.0)
        await asyncio.gather(*(each.files.send_changes() for each in gateways))
    expected = {"telegram:1", *(f"telegram:{key}" for key in range(10, 10 + repeats(6, 40)))}
    for each in gateways:
        await soon(lambda each=each: set(each.users.in_force) == expected)  # type: ignore[misc]  # its default
        await soon(lambda each=each: len(read_tokens(each.folder / TOKENS)) == len(expected) - 1)  # type: ignore[misc]  # its default
        assert each.aside() == []
    revoke_token(one.folder / TOKENS, "t10")
    add_token(two.folder / TOKENS, "last", "telegram:1", 0.0)
    await asyncio.gather(*(each.files.send_changes() for each in gateways))
    for each in gateways:
        await soon(lambda each=each: "last" in each.text(TOKENS) and '"t10"' not in each.text(TOKENS))  # type: ignore[misc]  # its default


@pytest.mark.promise("P-store-files")
async def test_of_two_changes_of_one_entry_or_text_the_first_counts_and_the_other_is_kept(
    gateways: list[Gateway], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = gateways
    one.put(NOTE, "tea")
    add_user(one.folder / USERS, "telegram:1", name="Ann")
    await soon(lambda: two.text(NOTE) == "tea" and two.text(USERS) == one.text(USERS))
    notes = ["black tea", "green tea"]
    people = [json.dumps({"users": {"telegram:1": {"name": name}}}) for name in ("Anna", "Anne")]
    async with one.files._one, two.files._one:
        for each, note, person in zip(gateways, notes, people, strict=True):
            each.put(NOTE, note)
            each.put(USERS, person)
    await asyncio.gather(*(each.files.send_changes() for each in gateways))
    await soon(lambda: one.text(NOTE) == two.text(NOTE) and one.text(USERS) == two.text(USERS))
    kept = [one.text(NOTE), one.text(USERS), *one.aside(), *two.aside()]
    assert sorted(kept) == sorted([*notes, *people]), "what does not count is kept where it was written"
    assert f"{NOTE} is another one in the database, which counts" in caplog.text


async def test_what_was_changed_while_nothing_was_heard_is_found_when_it_is_again(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(40), gateway(place, tmp_path / "one") as one:
        one.put(NOTE, "tea")
        await one.files.send_changes()
        async with open_schema(place, clock) as database:
            stored = StoredFiles(database)
            known = (await stored.all())[NOTE].sha256
            await stored.put(NOTE, known, stored_file(b"coffee", 0o600, 1e9), b"coffee")
            with pytest.raises(ConstraintViolated):
                await stored.put(NOTE, known, stored_file(b"water", 0o600, 1e9), b"water")
        assert one.text(NOTE) == "tea", "it was not told"
        one.files._miss()
        await soon(lambda: one.text(NOTE) == "coffee")


@pytest.mark.promise("P-forgotten")
async def test_a_picture_that_one_removes_leaves_the_folder_of_the_other_but_not_one_that_is_kept_anew(
    gateways: list[Gateway],
) -> None:
    one, two = gateways
    async with (
        open_blobs(one.folder / "blobs", clock, one.files) as ours,
        open_blobs(two.folder / "blobs", clock, two.files) as theirs,
    ):
        gone, kept = await ours.put(b"gone", "image/png"), await ours.put(b"kept", "image/png")
        assert (await theirs.get(gone), await theirs.get(kept)) == (b"gone", b"kept")
        until = clock.now()
        assert await theirs.put(b"kept", "image/png") == kept
        assert await ours.old_media(clock.now() + 1) == {gone, kept}
        await ours.remove_media({gone, kept}, until + 0.000001)
        await soon(lambda: not list((two.folder / "blobs/media").glob(f"{gone}*")))
        assert await ours.get(kept) == b"kept", "the other one has put it since"
        again = await ours.put(b"gone", "image/png")
        assert again == gone and await theirs.get(gone) == b"gone"


def audit_of(one: Gateway) -> Audit:
    (one.folder / "logs").mkdir(exist_ok=True)
    return Audit(one.folder / AUDIT, AuditSettings(), clock, lambda: one.files.chain)


async def audited(one: Gateway, audit: Audit, *details: str) -> None:
    for detail in details:
        audit.record(AuditEntry("tool.use", "read", ANN, where="telegram:5", detail=detail))
    await audit.flush()
    audit._grown.set()
    await audit.tell(Settings(one.database))
    await one.files.send_changes()


async def verified(place: PostgresPlace, one: Gateway, into: Path) -> list[int]:
    """The numbers of lines of all audit logs, each of which is whole and known to the database to its end."""
    own, others = await asyncio.to_thread(copy_audits, place, one.folder, into)
    counts = []
    for chain, path in {own: one.folder / AUDIT, **others}.items():
        fact = await Settings(one.database).fact(fact_of(chain))
        found = verify_audit(path, Head(fact["number"], fact["digest"]))
        assert (list(found.findings), found.newer) == ([], 0), chain
        counts.append(found.lines)
    return sorted(counts)


@pytest.mark.promise("P-audit")
async def test_each_gateway_has_an_audit_log_of_its_own_and_all_of_them_can_be_verified(
    gateways: list[Gateway], place: PostgresPlace, tmp_path: Path
) -> None:
    one, two = gateways
    logs = [audit_of(each) for each in gateways]
    for _ in range(3):
        await asyncio.gather(*(audited(each, log, "a", "b") for each, log in zip(gateways, logs, strict=True)))
    assert one.files.chain != two.files.chain
    assert await verified(place, one, tmp_path / "a") == await verified(place, two, tmp_path / "b") == [6, 6]
    before = one.text(AUDIT)
    assert before.count('"detail"') == 6 and two.text(AUDIT) != before
    (tmp_path / "c").mkdir()
    [path] = copy_audits(place, one.folder, tmp_path / "c")[1].values()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    found = verify_audit(path, Head(6, "x"))
    assert "the log was cut off here" in found.findings[0].text


@pytest.mark.promise("P-forgotten")
async def test_forgotten_words_leave_the_audit_logs_of_all_gateways_also_of_those_that_are_gone(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "gone") as gone:
            await audited(gone, audit_of(gone), "canary gone")
        async with gateway(place, tmp_path / "one") as one, gateway(place, tmp_path / "two") as two:
            ours, theirs = audit_of(one), audit_of(two)
            await audited(one, ours, "canary one")
            await audited(two, theirs, "canary two")
            wanted = Blanking(frozenset({"telegram:5"}))
            assert await ours.blank(wanted)
            await one.files.send_changes()
            # That of the one that is gone, and the other one's, which may have heard of it and be faster.
            assert await one.files.blank_audits(wanted) in (1, 2) and await one.files.blank_audits(wanted) == 0
            await soon(lambda: "canary" not in two.text(AUDIT))
            await audited(two, theirs, "afterwards")
            stored = StoredFiles(one.database)
            contents = [await stored.data(name, entry) for name, entry in (await stored.all()).items()]
            assert not any(b"canary" in content for content in contents)
            assert await verified(place, one, tmp_path / "copies") == [1, 1, 2]
        async with gateway(place, tmp_path / "gone") as gone:
            assert "canary" not in gone.text(AUDIT), "its folder comes back"


@pytest.mark.promise("P-audit")
async def test_a_line_that_comes_while_another_gateway_blanks_is_kept(gateways: list[Gateway]) -> None:
    one, two = gateways
    theirs = audit_of(two)
    await audited(two, theirs, "canary")
    async with two.files._one:
        assert await one.files.blank_audits(Blanking(frozenset({"telegram:5"}))) == 1
        theirs.record(AuditEntry("tool.use", "read", ANN, where="telegram:6", detail="later"))
        await theirs.flush()
    await two.files.send_changes()
    await soon(lambda: "canary" not in two.text(AUDIT) and "later" in two.text(AUDIT))
    assert verify_audit(two.folder / AUDIT, theirs._files.head).findings == []
    assert two.aside() == []


class Late(StoredFiles):
    """Files that another gateway changes right behind a look at them: the first one, or a later one."""

    def __init__(self, database: PostgresDatabase, change: Callable[[], Awaitable[object]], look: int = 1) -> None:
        super().__init__(database)
        self._change = change
        self._looks = look

    async def all(self) -> Mapping[str, StoredFile]:
        return await self._then_changed(await super().all())

    async def get(self, name: str) -> StoredFile | None:
        return await self._then_changed(await super().get(name))

    async def _then_changed(self, found: T) -> T:
        self._looks -= 1
        if not self._looks:
            await self._change()
        return found


@pytest.mark.promise("P-forgotten")
async def test_a_line_that_comes_between_two_looks_at_an_audit_log_is_no_damage(gateways: list[Gateway]) -> None:
    one, two = gateways
    theirs = audit_of(two)
    await audited(two, theirs, "canary")
    stored = Late(one.database, lambda: audited(two, theirs, "canary again"))
    assert await blank_audits(stored, one.files._folder.is_ours, Blanking(frozenset({"telegram:5"})), lambda _: []) == 1
    contents = [await stored.data(name, entry) for name, entry in (await stored.all()).items()]
    assert not any(b"canary" in content for content in contents)


@pytest.mark.promise("P-store-files")
async def test_a_file_that_another_gateway_replaces_while_it_is_fetched_is_no_damage(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    one, _ = gateways
    one.put(NOTE, "tea")
    await one.files.send_changes()
    (tmp_path / "new").mkdir(mode=0o700)

    async def change() -> None:
        one.put(NOTE, "green tea")
        await one.files.send_changes()

    files = StateFiles(one.database, tmp_path / "new", clock)
    files._stored = Late(one.database, change, look=2)
    await files.settle()
    assert (tmp_path / "new" / NOTE).read_text() == "green tea"


class Swept(StoredFiles):
    """Files of which another gateway removes some right behind a first try to store one that is there."""

    def __init__(self, database: PostgresDatabase, sweep: Callable[[], Awaitable[object]]) -> None:
        super().__init__(database)
        self._sweeps = [sweep]

    async def put(self, name: str, known: str | None, entry: StoredFile, data: bytes, *others: BoundStatement) -> int:
        try:
            return await super().put(name, known, entry, data, *others)
        except ConstraintViolated:
            while self._sweeps:
                await self._sweeps.pop()()
            raise


async def test_a_picture_that_is_swept_while_another_gateway_puts_it_anew_is_whole(gateways: list[Gateway]) -> None:
    one, two = gateways
    async with (
        open_blobs(one.folder / "blobs", clock, one.files) as ours,
        open_blobs(two.folder / "blobs", clock, two.files) as theirs,
    ):
        key = await ours.put(b"tea", "image/png")
        two.files._media._stored = Swept(two.database, lambda: ours.remove_media({key}, clock.now() + 100))
        assert await theirs.put(b"tea", "image/png") == key
        assert await ours.get(key) == b"tea" and await ours.mime(key) == "image/png"


class Slow(StoredFiles):
    """Files that come once the gate is open."""

    gate: asyncio.Event

    async def get(self, name: str) -> StoredFile | None:
        await self.gate.wait()
        return await super().get(name)


@pytest.mark.promise("P-users-live")
async def test_users_and_tokens_do_not_wait_for_pictures(gateways: list[Gateway], tmp_path: Path) -> None:
    one, _ = gateways
    async with open_blobs(one.folder / "blobs", clock, one.files) as blobs:
        key = await blobs.put(b"tea", "image/png")
    folder = tmp_path / "new"
    folder.mkdir(mode=0o700)
    files = StateFiles(one.database, folder, clock)
    await files.settle()
    files._media._stored = slow = Slow(one.database)
    slow.gate = asyncio.Event()
    files.listen()
    async with background(files.follow(), "files"):
        add_token(one.folder / TOKENS, "phone", "telegram:5", 0.0)
        await soon(lambda: "phone" in read_tokens(folder / TOKENS))
        revoke_token(one.folder / TOKENS, "phone")
        await soon(lambda: "phone" not in read_tokens(folder / TOKENS))
        slow.gate.set()
        await soon(lambda: (folder / "blobs/media" / key).exists())


async def test_two_versions_that_are_set_aside_in_one_second_are_both_kept(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, SteppedClock())
    for text in ("tea", "coffee", "water"):
        (tmp_path / USERS).write_text(text)
        assert folder.set_aside(USERS)
    kept = sorted(path.read_text() for path in (tmp_path / SET_ASIDE).rglob(USERS))
    assert kept == ["coffee", "tea", "water"]


async def test_a_picture_that_goes_while_it_is_fetched_is_missing_and_not_damaged(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    one, _ = gateways
    async with open_blobs(one.folder / "blobs", clock, one.files) as blobs:
        key = await blobs.put(b"tea", "image/png")
        files = StateFiles(one.database, tmp_path / "new", clock)
        files._media._stored = Late(one.database, lambda: blobs.remove_media({key}, clock.now() + 100))
        (tmp_path / "new").mkdir(mode=0o700)
        assert not await files.fetch(key)


async def test_a_copy_of_a_folder_goes_on_with_an_audit_log_of_its_own(
    place: PostgresPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "a")
        shutil.copytree(tmp_path / "one", tmp_path / "copied")
        async with gateway(place, tmp_path / "one") as one, gateway(place, tmp_path / "copied") as copied:
            async with copied.files._one:
                await audited(one, audit_of(one), "b")
                log = audit_of(copied)
                log.record(AuditEntry("tool.use", "read", ANN, where="telegram:5", detail="c"))
                await log.flush()
            await copied.files.send_changes()
            await soon(lambda: copied.files.chain != one.files.chain)
            assert "another gateway goes on with the audit log" in caplog.text
            assert one.text(AUDIT) != copied.text(AUDIT) and copied.aside() == one.aside() == []


async def test_audit_logs_of_gateways_that_do_not_come_back_are_removed_after_a_while(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one, gateway(place, tmp_path / "gone") as gone:
            await audited(one, audit_of(one), "a")
            await audited(gone, audit_of(gone), "a")
        async with gateway(place, tmp_path / "one") as one:
            assert await one.files.prune_audits(clock.now() - 100) == []
            assert await one.files.prune_audits(clock.now() + 100) == [gone.files.chain]
            left = [name for name in await StoredFiles(one.database).all() if name.startswith("logs/")]
            assert left == [f"logs/audit-{one.files.chain}.jsonl"]


@pytest.mark.promise("P-store-files")
async def test_one_file_that_cannot_be_written_holds_up_no_other(gateways: list[Gateway]) -> None:
    one, two = gateways
    one.put("notes/a/x", "a file")
    await soon(lambda: two.text("notes/a/x") == "a file")
    (one.folder / "notes/a/x").unlink()
    (two.folder / "notes/a/y").mkdir()
    (two.folder / "notes/a/y/link").symlink_to("nowhere")
    one.put("notes/a/x/z.md", "now a folder")
    one.put("notes/a/y", "in the way of a folder")
    add_user(one.folder / USERS, "telegram:5", name="Ann")
    await soon(lambda: two.users.get("telegram:5") is not None)
    await soon(lambda: (two.folder / "notes/a/x").is_dir() and two.text("notes/a/x/z.md") == "now a folder")
    (one.folder / "notes/a/x/z.md").unlink()
    (one.folder / "notes/a/x").rmdir()
    one.put("notes/a/x", "a file again")
    await soon(lambda: (two.folder / "notes/a/x").is_file() and two.text("notes/a/x") == "a file again")
    assert (two.folder / "notes/a/y").is_dir()
    (two.folder / "notes/a/y/link").unlink()
    await soon(lambda: two.text("notes/a/y") == "in the way of a folder")
