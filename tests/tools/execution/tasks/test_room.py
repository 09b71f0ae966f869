"""Background tasks: whose they are, how they end, what is kept of them, what a restart makes of them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from goclaw.common.config.tools import TasksSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks import room as room_module
from goclaw.tools.execution.tasks.base import Owner, TaskState, UnknownTask
from tests.parts import NoSandbox
from tests.tools.execution.sandbox.conftest import sandbox
from tests.tools.execution.tasks.rooms import ANNA, BOB, CHAT, House, house

__all__ = ["sandbox"]

pytestmark = pytest.mark.sandbox


@pytest.fixture
async def home(tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[House]:
    async with house(tmp_path, sandbox) as made:
        yield made


def mark() -> str:
    """Seconds to sleep that nobody else sleeps."""
    return f"{os.getpid() % 10_000 + 50_000}.{time.monotonic_ns() % 10**9}"


def sleeping(seconds: str) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if seconds in " ".join(one.info["cmdline"] or [])]


@pytest.mark.parametrize(
    ("script", "state", "end"),
    [
        ("echo hello", TaskState.COMPLETED, "completed (exit code 0)"),
        ("echo hello; exit 3", TaskState.FAILED, "failed (exit code 3)"),
        ("echo hello; kill -9 $$", TaskState.FAILED, "failed (exit code 137)"),
    ],
)
async def test_a_task_runs_beside_and_ends_by_itself(script: str, state: TaskState, end: str, home: House) -> None:
    async with asyncio.timeout(10):
        started = await home.start(script)
        ended = await home.room.wait(started.id, ANNA, 10)

        assert (started.state, ended.state, ended.end) == (TaskState.RUNNING, state, end)
        assert await home.room.tail(started.id, ANNA, 1000) == "hello\n"
        assert await home.blobs.use_spill(ended.output, ANNA.person, lambda file: file.read()) == b"hello\n"
        assert home.room.count() == 0


@pytest.mark.promise("P-exec-timeout")
async def test_a_task_that_takes_too_long_fails_with_its_tree(home: House) -> None:
    seconds = mark()
    async with asyncio.timeout(10):
        started = await home.start(f"echo early; (setsid sleep {seconds} &); sleep {seconds}", seconds=2)
        ended = await home.room.wait(started.id, ANNA, 10)

    assert ended.end == "failed (it exceeded its limit of 2 s)"
    assert await home.room.tail(started.id, ANNA, 1000) == "early\n"
    assert sleeping(seconds) == []


@pytest.mark.promise("P-tasks")
async def test_stopping_ends_the_whole_tree_and_nobody_is_told(home: House) -> None:
    seconds = mark()
    async with asyncio.timeout(10):
        started = await home.start(f"trap '' TERM; (setsid sleep {seconds} &); sleep {seconds}")
        stopped = await home.room.stop(started.id, ANNA)
        again = await home.room.stop(started.id, ANNA)

    assert (stopped.state, again.state) == (TaskState.STOPPED, TaskState.STOPPED)
    assert sleeping(seconds) == []
    assert home.told == []


async def test_a_wait_is_bounded_and_ends_nothing(home: House) -> None:
    async with asyncio.timeout(10):
        started = await home.start("read x", keeps_input=True)
        assert (await home.room.wait(started.id, ANNA, 0)).running
        await home.room.write(started.id, ANNA, b"now\n", end=False)
        assert (await home.room.wait(started.id, ANNA, 10)).state is TaskState.COMPLETED


async def test_who_waits_is_answered_and_nobody_else_is_told(home: House) -> None:
    async with asyncio.timeout(10):
        waited_for = await home.start("read x", keeps_input=True)
        waiting = asyncio.create_task(home.room.wait(waited_for.id, ANNA, 10))
        await asyncio.sleep(0)
        await home.room.write(waited_for.id, ANNA, b"", end=True)
        await waiting
        assert home.told == []
        assert await home.room.news(ANNA) == []


@pytest.mark.promise("P-tasks")
async def test_an_end_that_nobody_waits_for_is_told_once_to_people_and_once_to_the_model(home: House) -> None:
    heard = asyncio.Event()

    async def told(*_: object) -> None:
        heard.set()

    home.room.on_end(told)  # behind the one of the home
    async with asyncio.timeout(10):
        started = await home.start("exit 4")
        await heard.wait()

        assert [(info.id, info.end, work.address) for info, work in home.told] == [
            (started.id, "failed (exit code 4)", CHAT)
        ]
        assert [info.id for info in await home.room.news(ANNA)] == [started.id]
        assert await home.room.news(ANNA) == []


@pytest.mark.promise("P-tasks")
@pytest.mark.parametrize("other", [BOB, Owner(ANNA.session, BOB.person), Owner(BOB.session, ANNA.person)])
async def test_a_task_of_somebody_else_or_of_another_session_does_not_exist(other: Owner, home: House) -> None:
    room = home.room
    async with asyncio.timeout(10):
        theirs = (await home.start("read x", keeps_input=True)).id
        for attempt in (
            room.wait(theirs, other, 0),
            room.tail(theirs, other, 100),
            room.stop(theirs, other),
            room.write(theirs, other, b"x", end=True),
        ):
            with pytest.raises(UnknownTask, match=f"^unknown task: {theirs}; "):
                await attempt
        assert await room.of(other) == []
        with pytest.raises(UnknownTask, match=r"^unknown task: task-none; "):
            await room.wait("task-none", ANNA, 0)
        assert (await room.stop(theirs, ANNA)).state is TaskState.STOPPED


@pytest.mark.promise("P-tasks")
async def test_tasks_are_bounded_per_conversation_and_in_all(tmp_path: Path, sandbox: Sandbox) -> None:
    async with asyncio.timeout(20), house(tmp_path, sandbox, per_session=1, total=2) as home:
        first = await home.start("read x", keeps_input=True)
        with pytest.raises(ToolError, match=rf"which is the limit.*{first.id} runs `read x`"):
            await home.start("true")
        await home.start("read x", BOB, keeps_input=True)
        with pytest.raises(ToolError, match="too many background tasks run on this machine"):
            await home.start("true", Owner("tui", "local"))
        await home.room.stop(first.id, ANNA)
        assert (await home.start("true")).running


@pytest.mark.promise("P-tasks")
async def test_a_flood_costs_a_bounded_file_and_keeps_head_and_tail(tmp_path: Path, sandbox: Sandbox) -> None:
    async with asyncio.timeout(30), house(tmp_path, sandbox, output_mb=1) as home:
        started = await home.start("echo head; head -c 5M /dev/zero | tr '\\0' x; echo tail")
        ended = await home.room.wait(started.id, ANNA, 30)
        kept = await home.blobs.use_spill(ended.output, ANNA.person, lambda file: file.read())

        assert (len(kept), kept[:5]) == (1 << 20, b"head\n")
        assert (await home.room.tail(started.id, ANNA, 10)) == "xxxxxtail\n"


async def test_input_reaches_the_task_until_it_is_closed(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(10):
        reads = await home.start("cat", keeps_input=True)
        await home.room.write(reads.id, ANNA, b"one\n", end=False)
        await home.room.write(reads.id, ANNA, b"x" * 100_000, end=True)
        await home.room.wait(reads.id, ANNA, 10)
        assert await home.room.tail(reads.id, ANNA, 200_000) == "one\n" + "x" * 100_000
        with pytest.raises(ToolError, match=f"{reads.id} is completed: it no longer reads input"):
            await home.room.write(reads.id, ANNA, b"x", end=False)

        deaf = await home.start("sleep 60", keeps_input=True)
        monkeypatch.setattr(room_module, "WRITE_SECONDS", 0.2)
        with pytest.raises(ToolError, match=r"does not read: 65,536 of 100,000 bytes were written in 0\.2 s"):
            await home.room.write(deaf.id, ANNA, b"x" * 100_000, end=False)

        without = await home.start("sleep 60")
        with pytest.raises(ToolError, match="has no open standard input: 0 of 1 bytes"):
            await home.room.write(without.id, ANNA, b"x", end=False)


async def test_what_cannot_be_contained_is_refused_and_leaves_nothing(home: House) -> None:
    with pytest.raises(SandboxUnavailable):
        await home.room.start(home.work("true"), NoSandbox())

    assert await home.room.of(ANNA) == []
    assert home.room.count() == 0
    assert list((home.folder.parent / "blobs" / "spills").iterdir()) == []


@pytest.mark.promise("P-tasks")
async def test_who_is_cut_while_starting_leaves_nothing_running(home: House) -> None:
    seconds = mark()
    async with asyncio.timeout(10):
        starting = asyncio.create_task(home.start(f"sleep {seconds}"))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await home.room.close()

    assert sleeping(seconds) == []
    assert await home.room.of(ANNA) == []


@pytest.mark.promise("P-tasks")
async def test_the_end_of_the_daemon_ends_tasks_and_a_restart_reports_them_as_lost(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    seconds = mark()
    async with asyncio.timeout(20):
        async with house(tmp_path, sandbox) as home:
            async with asyncio.timeout(10):
                done = await home.start("true")
                await home.room.wait(done.id, ANNA, 10)
                cut = await home.start(
                    f"echo said; read x; (setsid sleep {seconds} &); sleep {seconds}", keeps_input=True
                )
                await home.until_said(cut, "said\n")
        assert sleeping(seconds) == []

        async with house(tmp_path, sandbox) as home:
            states = {info.id: info.state for info in await home.room.of(ANNA)}
            assert states == {done.id: TaskState.COMPLETED, cut.id: TaskState.LOST}
            assert [info.id for info in await home.room.news(ANNA)] == [cut.id]
            assert await home.room.tail(cut.id, ANNA, 100) == "said\n"
            with pytest.raises(ToolError, match="is lost: it no longer reads input"):
                await home.room.write(cut.id, ANNA, b"x", end=False)
            assert (await home.room.stop(cut.id, ANNA)).state is TaskState.LOST
            assert home.told == []


async def test_old_ends_are_forgotten_in_memory_and_read_from_their_files(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "MAX_ENDED", 1)
    async with asyncio.timeout(20):
        tasks = [await home.start(f"echo {number}") for number in range(3)]
        for task in tasks:
            await home.room.wait(task.id, ANNA, 10)

        assert [await home.room.tail(task.id, ANNA, 100) for task in tasks] == ["0\n", "1\n", "2\n"]
        assert len(await home.room.of(ANNA)) == 3
        await home.rows.prune(float("inf"))
        assert len(await home.room.of(ANNA)) == 1


async def test_all_of_a_person_can_be_stopped_and_those_of_others_go_on(home: House) -> None:
    async with asyncio.timeout(10):
        for owner in (ANNA, ANNA, BOB):
            await home.start("read x", owner, keeps_input=True)

        assert home.room.running(ANNA) == 2
        assert await home.room.stop_all(ANNA) == 2
        assert (home.room.running(ANNA), home.room.running(BOB), await home.room.stop_all(ANNA)) == (0, 1, 0)


async def test_where_nothing_may_go_on_it_is_refused_in_words(home: House) -> None:
    async with room_module.open_tasks(home.blobs, SteppedClock(), TasksSettings(), refusal="not here") as room:
        with pytest.raises(ToolError, match=r"^not here$"):
            await room.start(home.work("true"), home.sandbox)


async def test_a_session_that_is_forgotten_has_no_tasks(home: House) -> None:
    seconds = mark()
    async with asyncio.timeout(10):
        await home.start(f"sleep {seconds}")
        kept = await home.start("read x", BOB, keeps_input=True)
        await home.room.forget(ANNA.session)

        assert await home.room.news(ANNA) == []
        assert home.room.count() == 1
        assert [info.id for info in await home.room.of(BOB)] == [kept.id]
    assert sleeping(seconds) == []


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.tools.execution.sandbox.conftest import TIERS
from tests.tools.execution.tasks.rooms import house

async def main(folder, tier, seconds):
    async with TIERS[tier]() as sandbox, house(Path(folder), sandbox) as home:
        task = await home.start(f"(setsid sleep {seconds} &); echo up; sleep {seconds}")
        while "up" not in await home.room.tail(task.id, task.owner, 100):
            await asyncio.sleep(0.01)
        print(task.id, flush=True)
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.promise("P-tasks")
async def test_kill_9_of_the_daemon_leaves_no_process_and_the_task_is_lost(tmp_path: Path, sandbox: Sandbox) -> None:
    seconds = mark()
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(tmp_path), sandbox.tier, seconds,
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    try:
        async with asyncio.timeout(20):
            assert daemon.stdout
            task_id = (await daemon.stdout.readline()).decode().strip()
            left = [one for one in sleeping(seconds) if one.pid != daemon.pid]
            assert len(left) >= 2
    finally:
        daemon.send_signal(signal.SIGKILL)
        await daemon.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, left, 20)

    assert alive == []
    async with asyncio.timeout(10), house(tmp_path, sandbox) as home:
        assert [(info.id, info.state) for info in await home.room.of(ANNA)] == [(task_id, TaskState.LOST)]
