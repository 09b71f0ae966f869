"""Audit logs of several gateways on one schema: what is forgotten at one does not come back from another."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from goclaw.common.auth.audit import Audit, AuditEntry
from goclaw.common.auth.audit_chain import Blanking, ChainedFiles
from goclaw.common.auth.audit_verify import verify_audit
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.postgres.state_audits import FORGOTTEN
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles
from goclaw.durable.store.settings import Settings
from goclaw.errors import DiskError, DiskFault
from tests.acceptance.waiting import clock
from tests.durable.store.postgres.test_state_files_shared import ANN, AUDIT, Gateway, audit_of, audited, gateway, soon

SESSION = "telegram:5"
SMALL = 900
"""Bytes of an audit log's file that has a few lines."""


@pytest.fixture
async def gateways(place: PostgresPlace, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        yield [await stack.enter_async_context(gateway(place, tmp_path / name)) for name in ("one", "two")]


async def said(audit: Audit, *details: str, where: str = SESSION) -> None:
    """Write lines that no gateway has sent yet."""
    for detail in details:
        audit.record(AuditEntry("tool.use", "read", ANN, where=where, detail=detail))
    await audit.flush()


async def forget(one: Gateway, session: str = SESSION) -> None:
    """Do what `/forget` does to the audit logs."""
    wanted = Blanking(frozenset({session}))
    assert await audit_of(one).blank(wanted)
    await one.files.send_changes()
    await one.files.blank_audits(wanted)


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
    files = one.files._stored
    one.files._stored = found = Recorded(files)
    yield found
    one.files._stored = files


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
                await two.files.send_changes()
            await forget(one)
            files.is_away = False
            await two.files.send_changes()
            assert b"canary" not in files.sent
        assert "canary" not in own(two.folder) + await stored(one)
        assert_whole(two, 2)


@pytest.mark.promise("P-forgotten")
async def test_lines_that_another_gateway_is_about_to_send_are_blanked_too(gateways: list[Gateway]) -> None:
    one, two = gateways
    await audited(two, audit_of(two), "canary sent")
    async with two.files._one:
        await said(audit_of(two), "canary unsent")
        await forget(one)
    await soon(lambda: "canary" not in own(two.folder))
    await two.files.send_changes()
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
    chain, first = two.files.chain, (two.folder / AUDIT).read_bytes()
    async with two.files._one:
        assert await one.files.blank_audits(wanted_words()[which]) > 1
        number = 8
        while not (two.folder / f"{AUDIT}.1").read_bytes().startswith(first):
            await said(log, f"later {number}", where="telegram:6")
            number += 1
    await two.files.send_changes()
    assert two.files.chain == chain and "another gateway goes on" not in caplog.text
    await soon(lambda: "canary" not in own(two.folder))
    await two.files.send_changes()
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
            async with copied.files._one:
                for number in range(8):
                    await audited(one, log, f"b{number}")
                await said(small(audit_of(copied)), *(f"c{number}" for number in range(8)))
            await copied.files.send_changes()
            assert copied.files.chain != one.files.chain
            await copied.files.send_changes()
            assert not list((copied.folder / "logs").glob("audit-*"))
            await one.files.send_changes()
            assert_whole(one, 16)
            assert_whole(copied, 16)


@pytest.mark.promise("P-forgotten")
async def test_what_was_forgotten_is_known_as_long_as_a_gateway_may_come_back(gateways: list[Gateway]) -> None:
    one, _ = gateways
    before = clock.now()
    await forget(one)
    settings = Settings(one.database)
    assert list(await settings.facts(FORGOTTEN)) == [SESSION]
    await one.files.prune_audits(before)
    assert list(await settings.facts(FORGOTTEN)) == [SESSION]
    await one.files.prune_audits(clock.now() + 1)
    assert await settings.facts(FORGOTTEN) == {}


@pytest.mark.promise("P-forgotten")
async def test_words_that_came_into_the_database_beside_a_deletion_leave_it_within_a_day(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with asyncio.timeout(60), gateway(place, tmp_path / "one") as one:
        async with gateway(place, tmp_path / "two", hears=False) as two:
            await said(audit_of(two), "canary")
            await Settings(one.database).learn(f"{FORGOTTEN}:{SESSION}", clock.now())
            await two.files.send_changes()
        assert "canary" in await stored(one)
        await one.files.prune_audits(0.0)
        assert "canary" not in await stored(one)


@pytest.mark.promise("P-audit")
async def test_a_log_goes_on_in_a_database_that_was_restored_with_the_beginning_of_it(
    place: PostgresPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(60):
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "a")
            name = f"logs/audit-{one.files.chain}.jsonl"
            files = StoredFiles(one.database)
            older = (await files.all())[name]
            data = await files.data(name, older)
        async with gateway(place, tmp_path / "one") as one:
            await audited(one, audit_of(one), "b", "c")
        async with gateway(place, tmp_path / "other") as other:
            files = StoredFiles(other.database)
            await files.put(name, (await files.all())[name].sha256, older, data)
        async with gateway(place, tmp_path / "one") as one:
            assert f"logs/audit-{one.files.chain}.jsonl" == name and "another gateway goes on" not in caplog.text
            assert_whole(one, 3)
            assert await stored(one) == own(one.folder)
