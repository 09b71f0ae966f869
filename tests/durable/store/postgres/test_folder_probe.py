"""Whether gateways see the same folders, asked by a file."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path, PosixPath

import psycopg
import pytest

from goclaw.common.config.policies import ReplicaSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.postgres import folder_probe
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.folder_probe import ASKED, MAX_FOLDERS, FolderProbe, open_probe, unseen_folders
from tests.acceptance.waiting import clock, eventually
from tests.postgres import Server


@asynccontextmanager
async def gateway(
    place: PostgresPlace, name: str, folders: Mapping[str, Path], *, answers: bool = True
) -> AsyncIterator[FolderProbe]:
    """A running gateway with these folders."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_schema(place, clock))
        await database.join(ReplicaSettings.model_validate({"name": name, "stall_seconds": 60}))
        probe = open_probe(database, lambda: folders, clock)
        await stack.enter_async_context(
            background(run_with_restarts("notices", database.notices.run, clock), "notices")
        )
        if answers:
            await stack.enter_async_context(background(run_with_restarts("probe", probe.run, clock), "probe"))
        # Another one must not ask before this one listens.
        await eventually(probe._listens.is_set)
        yield probe


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_probe, "ANSWER_SECONDS", 20.0)


@pytest.fixture
def work(tmp_path: Path) -> dict[str, Path]:
    """The workspace, and a person's own."""
    folders = {"": tmp_path / "work", "telegram:5": tmp_path / "people" / "telegram.5"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    return folders


@pytest.mark.promise("P-replicas-workspace")
async def test_folders_that_all_gateways_see_are_found_the_same_by_a_gateway_and_by_the_doctor(
    place: PostgresPlace, work: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "mounted").symlink_to(work[""])
    async with (
        gateway(place, "one", work) as one,
        gateway(place, "two", {**work, "": tmp_path / "mounted"}),
    ):
        assert await one.unseen() == []
        assert await unseen_folders(place, lambda: work, clock) == []
        missing = {**work, "telegram:6": tmp_path / "never made"}
        assert await unseen_folders(place, lambda: missing, clock) == []
    assert list(work[""].iterdir()) == [], "the file is removed"


@pytest.mark.promise("P-replicas-workspace")
async def test_a_gateway_with_another_folder_is_named_with_the_folder(
    place: PostgresPlace, work: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    async with (
        gateway(place, "one", work) as one,
        gateway(place, "two", {**work, "": tmp_path / "elsewhere"}),
        gateway(place, "three", {"": work[""]}),
    ):
        said = await one.unseen()
        assert said == [
            f"the gateway two does not see the same folder as {work['']} here",
            f"the gateway three does not see the same folder as {work['telegram:5']} here",
        ]
        assert await unseen_folders(place, lambda: work, clock) == said
    assert list(work[""].iterdir()) == []


async def test_a_gateway_that_does_not_answer_is_named(
    place: PostgresPlace, work: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_probe, "ANSWER_SECONDS", 1.0)
    async with gateway(place, "one", work) as one, gateway(place, "two", work, answers=False):
        [said] = await one.unseen()
        assert said == "the gateway two did not say within 1 s whether it sees the same folders"


def connected(server: Server) -> Sequence[object]:
    """Connections of gateways that Postgres has."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'goclaw %'"
        return connection.execute(query).fetchall()


async def test_a_gateway_that_was_killed_a_moment_ago_is_not_asked(
    place: PostgresPlace, server: Server, work: dict[str, Path]
) -> None:
    async with gateway(place, "one", work):
        pass  # its row says that it was seen a moment ago, as after a crash that is followed by a start
    await eventually(lambda: not connected(server))
    async with gateway(place, "one", work) as again:
        assert await again.unseen() == []
        assert await unseen_folders(place, lambda: work, clock) == []


async def test_without_gateways_there_is_nothing_to_ask(place: PostgresPlace, work: dict[str, Path]) -> None:
    assert await unseen_folders(place, lambda: work, clock) == []
    async with gateway(place, "one", work) as one:
        assert await one.unseen() == []


async def test_a_question_for_a_file_outside_is_not_answered(place: PostgresPlace, work: dict[str, Path]) -> None:
    async with gateway(place, "one", work) as one, open_schema(place, clock) as other:
        for token in ("../../etc/passwd", "0123456789abcdeg"):
            question = f'{{"token": "{token}", "folders": [""]}}'
            await other.write(other.notices.notice_for(ASKED, question))
        await eventually(lambda: one._questions.empty())
        assert await unseen_folders(place, lambda: work, clock) == []


class SlowFolder(PosixPath):
    """A folder whose file system takes its time."""

    gate = threading.Event()

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        if not self.gate.wait(10):
            raise OSError(errno.EIO, "everything else has waited, too")
        super().touch(mode, exist_ok)


async def test_a_file_system_that_is_slow_holds_up_nothing_else(place: PostgresPlace, tmp_path: Path) -> None:
    work = {"": SlowFolder(tmp_path)}
    SlowFolder.gate.clear()
    async with gateway(place, "one", work) as one, gateway(place, "two", {"": tmp_path / "elsewhere"}):
        asyncio.get_running_loop().call_later(0.2, SlowFolder.gate.set)
        assert await one.unseen() == [f"the gateway two does not see the same folder as {tmp_path} here"]
        assert list(work[""].iterdir()) == []


async def test_as_many_folders_are_asked_about_as_fit_into_a_question(place: PostgresPlace, tmp_path: Path) -> None:
    work = {f"matrix:{'x' * 270}-{number}": tmp_path / str(number) for number in range(MAX_FOLDERS)}
    for folder in work.values():
        folder.mkdir()
    async with gateway(place, "one", work) as one, gateway(place, "two", {}):
        said = await one.unseen()
        assert 10 < len(said) < MAX_FOLDERS
        assert said[0] == f"the gateway two does not see the same folder as {tmp_path / '0'} here"
