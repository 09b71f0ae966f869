"""Audit logs of several gateways on one schema: what is forgotten at one does not come back from another."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from goclaw.common.auth.audit import Audit, AuditEntry, fact_of
from goclaw.common.auth.audit_chain import Blanking, ChainedFiles, Head
from goclaw.common.auth.audit_verify import verify_audit
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Actor
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.state_audits import FORGOTTEN, copy_audits
from goclaw.durable.store.postgres.state_files import StateFiles
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles
from goclaw.durable.store.settings import Settings
from goclaw.errors import DiskError, DiskFault
from tests.acceptance.waiting import clock
from tests.durable.store.postgres.gateways import AUDIT, Gateway, edit, gateway, soon
from tests.parts import sql

T = TypeVar("T")
ANN = Actor("telegram:5", "telegram")
SESSION = "telegram:5"
SMALL = 900
"""Bytes of an audit log's file that has a few lines."""


async def said(audit: Audit, *details: str, where: str = SESSION) -> None:
    """Write lines that no gateway has sent yet."""
    for detail in details:
        audit.record(AuditEntry("tool.use", "read", ANN, where=where, detail=detail))
    await audit.flush()


async def forget(one: Gateway, session: str = SESSION) -> None:
    """Do what `/forget` does to the audit logs."""
    wanted = Blanking(frozenset({session}))
    assert await audit_of(one).blank(wanted)
    await one.files.audits.send()
    await one.files.audits.blank(wanted)


def own(folder: Path) -> str:
    """All that the files of a folder's audit log have."""
    return "".join(path.read_text() for path in sorted((folder / "logs").glob("audit*.jsonl*")))


async def stored(one: Gateway) -> str:
    """All that the audit logs of the database have."""
    files = StoredFiles(one.database)
    return "".join([(await files.data(name, entry)).decode() for name, entry in (await files.all()).items()])


class Recorded(StoredFiles):
    """Files of which all is noted that is sent. The database can be away."""

    def __init__(self, files: StoredFiles) -> None:
        super().__init__(files._database)
        self.sent = b""
        self.is_away = False

    async def get(self, name: str) -> StoredFile | None:
        if self.is_away:
            raise DiskError("away", DiskFault.UNREACHABLE)
        return await super().get(name)

    async def put(self, name: str, known: str | None, entry: StoredFile, data: bytes, *others: BoundStatement) -> int:
        self.sent += data
        return await super().put(name, known, entry, data, *others)

    async def append(
        self, name: str, known: str, entry: StoredFile, number: int, tail: bytes, *others: BoundStatement
    ) -> None:
        self.sent += tail
        await super().append(name, known, entry, number, tail, *others)


@contextmanager
def recorded(one: Gateway) -> Iterator[Recorded]:
    files = one.files.audits._stored
    one.files.audits._stored = found = Recorded(files)
    yield found
    one.files.audits._stored = files


def small(audit: Audit) -> Audit:
    """Let an audit log begin a new file after a few lines."""
    audit._files = ChainedFiles(audit._path, SMALL, 5)
    return audit


def assert_whole(one: Gateway, lines: int) -> None:
    found = verify_audit(one.folder / AUDIT, None)
    assert (list(found.findings), found.lines) == ([], lines)


@pytest.mark.promise("P-forgotten")
@pytest.mark.parametrize("rotated", [False, True])
async def test_what_a_killed_gateway_had_not_sent_does_not_come_back_once_it_is_forgotten(
    place: PostgresPlace, tmp_path: Path, *, rotated: bool
) -> None:
    async with asyncio.timeout(60), gateway(place, tmp_path / "one") as one:
        async with gateway(place, tmp_path / "two") as two:
            await audited(two, audit_of(two), "canary sent")
        log = small(audit_of(two)) if rotated else audit_of(two)
        await said(log, *(f"canary {number}" for number in range(8)))
        await said(log, "of another", where="telegram:6")
        assert (tmp_path / "two" / f"{AUDIT}.1").exists() == rotated
        await forget(one)
        await clock.sleep(0.002)  # lines have their time in milliseconds
        await said(log, "said since")
        async with gateway(place, tmp_path / "two") as two:
            for text in (own(two.folder), await stored(one)):
                assert "canary" not in text and "of another" in text and "said since" in text
            assert_whole(two, 11)
            assert two.aside() == []


@pytest.mark.promise("P-forgotten")
async def test_a_gateway_that_lost_the_database_sends_nothing_that_was_forgotten_meanwhile(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with (
        asyncio.timeout(60),
        gateway(place, tmp_path / "one") as one,
        gateway(place, tmp_path / "two", hears=False) as two,
    ):
        await audited(two, audit_of(two), "canary sent")
        with recorded(two) as files:
            files.is_away = True
            await said(audit_of(two), "canary unsent")
            with pytest.raises(DiskError):
                await two.files.audits.send()
            await forget(one)
            files.is_away = False
            await two.files.audits.send()
            assert b"canary" not in files.sent
        assert "canary" not in own(two.folder) + await stored(one)
        assert_whole(two, 2)


@pytest.mark.promise("P-forgotten")
async def test_lines_that_another_gateway_is_about_to_send_are_blanked_too(gateways: list[Gateway]) -> None:
    one, two = gateways
    await audited(two, audit_of(two), "canary sent")
    async with two.files.audits._one:
        await said(audit_of(two), "canary unsent")
        await forget(one)
    await soon(lambda: "canary" not in own(two.folder))
    await two.files.audits.send()
    assert "canary" not in await stored(one)
    assert_whole(two, 2)


def wanted_words() -> Sequence[Blanking]:
    return Blanking(frozenset({SESSION})), Blanking(before=clock.now() + 100)


@pytest.mark.promise("P-forgotten")
@pytest.mark.promise("P-audit")
@pytest.mark.parametrize("which", [0, 1])
async def test_a_log_that_is_rotated_while_another_gateway_blanks_it_stays_one_chain_without_the_words(
    gateways: list[Gateway], caplog: pytest.LogCaptureFixture, which: int
) -> None:
    one, two = gateways
    log = small(audit_of(two))
    for number in range(8):
        await audited(two, log, f"canary {number}")
    assert (two.folder / f"{AUDIT}.1").exists()
    chain, first = two.files.audits.chain, (two.folder / AUDIT).read_bytes()
    async with two.files.audits._one:
        assert await one.files.audits.blank(wanted_words()[which]) > 1
        number = 8
        while not (two.folder / f"{AUDIT}.1").read_bytes().startswith(first):
            await said(log, f"later {number}", where="telegram:6")
            number += 1
    await two.files.audits.send()
    assert two.files.audits.chain == chain and "another gateway goes on" not in caplog.text
    await soon(lambda: "canary" not in own(two.folder))
    await two.files.audits.send()
    text = await stored(one)
    assert "canary" not in text and "later" in text
    assert_whole(two, number)
    assert own(two.folder) == text and two.aside() == []


async def test_a_copy_that_goes_on_with_another_log_leaves_no_files_of_the_first_one(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one:
            log = small(audit_of(one))
            await audited(one, log, *"abcdefgh")
        shutil.copytree(tmp_path / "one", tmp_path / "copied")
        async with gateway(place, tmp_path / "one") as one, gateway(place, tmp_path / "copied") as copied:
            async with copied.files.audits._one:
                for number in range(8):
                    await audited(one, log, f"b{number}")
                await said(small(audit_of(copied)), *(f"c{number}" for number in range(8)))
            await copied.files.audits.send()
            assert copied.files.audits.chain != one.files.audits.chain
            await copied.files.audits.send()
            assert not list((copied.folder / "logs").glob("audit-*"))
            await one.files.audits.send()
            assert_whole(one, 16)
            assert_whole(copied, 16)


@pytest.mark.promise("P-forgotten")
async def test_what_was_forgotten_is_known_as_long_as_a_gateway_may_come_back(gateways: list[Gateway]) -> None:
    one, _ = gateways
    before = clock.now()
    await forget(one)
    settings = Settings(one.database)
    assert list(await settings.facts(FORGOTTEN)) == [SESSION]
    await one.files.audits.prune(before)
    assert list(await settings.facts(FORGOTTEN)) == [SESSION]
    await one.files.audits.prune(clock.now() + 1)
    assert await settings.facts(FORGOTTEN) == {}


@pytest.mark.promise("P-forgotten")
async def test_words_that_came_into_the_database_beside_a_deletion_leave_it_within_a_day(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(60), gateway(place, tmp_path / "one") as one:
        async with gateway(place, tmp_path / "two", hears=False) as two:
            await said(audit_of(two), "canary")
            await Settings(one.database).learn(f"{FORGOTTEN}:{SESSION}", clock.now())
            await two.files.audits.send()
        assert "canary" in await stored(one)
        await one.files.audits.prune(0.0)
        assert "canary" not in await stored(one)


@pytest.mark.promise("P-audit")
async def test_a_log_goes_on_in_a_database_that_was_restored_with_the_beginning_of_it(
    place: PostgresPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "a")
            name = f"logs/audit-{one.files.audits.chain}.jsonl"
            files = StoredFiles(one.database)
            older = (await files.all())[name]
            data = await files.data(name, older)
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "b", "c")
        async with gateway(place, tmp_path / "other") as other:
            files = StoredFiles(other.database)
            await files.put(name, (await files.all())[name].sha256, older, data)
        async with gateway(place, tmp_path / "one") as one:
            assert f"logs/audit-{one.files.audits.chain}.jsonl" == name and "another gateway goes on" not in caplog.text
            assert_whole(one, 3)
            assert await stored(one) == own(one.folder)


def audit_of(one: Gateway) -> Audit:
    (one.folder / "logs").mkdir(exist_ok=True)
    return Audit(one.folder / AUDIT, AuditSettings(), clock, lambda: one.files.audits.chain)


async def audited(one: Gateway, audit: Audit, *details: str) -> None:
    for detail in details:
        audit.record(AuditEntry("tool.use", "read", ANN, where="telegram:5", detail=detail))
    await audit.flush()
    audit._grown.set()
    await audit.publish(Settings(one.database))
    await one.files.audits.send()


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
    assert one.files.audits.chain != two.files.audits.chain
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
            await one.files.audits.send()
            # That of the one that is gone, and the other one's, which may have heard of it and be faster.
            assert await one.files.audits.blank(wanted) in (1, 2) and await one.files.audits.blank(wanted) == 0
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
    async with two.files.audits._one:
        assert await one.files.audits.blank(Blanking(frozenset({"telegram:5"}))) == 1
        theirs.record(AuditEntry("tool.use", "read", ANN, where="telegram:6", detail="later"))
        await theirs.flush()
    await two.files.audits.send()
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
    one.files.audits._stored = stored
    assert await one.files.audits.blank(Blanking(frozenset({"telegram:5"}))) == 1
    contents = [await stored.data(name, entry) for name, entry in (await stored.all()).items()]
    assert not any(b"canary" in content for content in contents)


async def test_a_copy_of_a_folder_goes_on_with_an_audit_log_of_its_own(
    place: PostgresPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "a")
        shutil.copytree(tmp_path / "one", tmp_path / "copied")
        async with gateway(place, tmp_path / "one") as one, gateway(place, tmp_path / "copied") as copied:
            async with copied.files.audits._one:
                await audited(one, audit_of(one), "b")
                log = audit_of(copied)
                log.record(AuditEntry("tool.use", "read", ANN, where="telegram:5", detail="c"))
                await log.flush()
            await copied.files.audits.send()
            await soon(lambda: copied.files.audits.chain != one.files.audits.chain)
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
            assert await one.files.audits.prune(clock.now() - 100) == []
            assert await one.files.audits.prune(clock.now() + 100) == [gone.files.audits.chain]
            left = [name for name in await StoredFiles(one.database).all() if name.startswith("logs/")]
            assert left == [f"logs/audit-{one.files.audits.chain}.jsonl"]


@pytest.mark.promise("P-audit")
async def test_what_is_added_to_a_file_is_sent_alone_and_a_file_that_was_rewritten_as_a_whole(
    place: PostgresPlace, tmp_path: Path
) -> None:
    path = tmp_path / AUDIT
    edit(tmp_path, AUDIT, '{"n":1}\n')
    async with open_database(place) as database:
        files = StateFiles(database, tmp_path, clock)
        await files.begin()
        for number in range(2, 6):
            with path.open("a") as file:
                file.write(f"{number}\n")
            await files.audits.send()
        assert await pieces(database) == 5
        path.rename(path.with_name("audit.jsonl.1"))
        edit(tmp_path, AUDIT, "6\n")
        await files.audits.send()
        edit(tmp_path, f"{AUDIT}.1", "blanked\n")
        await files.audits.send()
        assert await pieces(database) == 2
    async with open_database(place) as database:
        stored = StoredFiles(database)
        found = {name: await stored.data(name, entry) for name, entry in (await stored.all()).items()}
        newest = f"logs/audit-{files.audits.chain}.jsonl"
        assert found == {newest: b"6\n", f"{newest}.1": b"blanked\n"}


async def pieces(database: Database) -> int:
    [(count,)] = await database.read(sql("SELECT count(*) FROM state_file_pieces"))
    return int(count)
