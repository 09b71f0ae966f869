"""What the service manager is told, over a real datagram socket, as sd_notify(3) has it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.common.health.systemd import FULL_SECONDS, PATIENCE_SECONDS, Notifier

PATIENCE = 20.0


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and how NOTIFY_SOCKET names it."""
    name = f"@goclaw-test-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        listening.setblocking(False)
        yield listening, name


async def heard(listening: socket.socket) -> str:
    async with asyncio.timeout(PATIENCE):
        return (await asyncio.get_running_loop().sock_recv(listening, 4096)).decode()


async def test_the_manager_is_told_and_no_child_can_answer_in_our_place(manager: tuple[socket.socket, str]) -> None:
    listening, name = manager
    environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier = Notifier.of(environ, RealClock())
    assert environ == {"HOME": "/"}
    assert notifier.watchdog_seconds == 30
    await notifier.notify(READY=1, STATUS="Running")
    assert await heard(listening) == "READY=1\nSTATUS=Running"


async def test_the_watchdog_is_fed_at_half_its_time(manager: tuple[socket.socket, str], clock: SteppedClock) -> None:
    listening, name = manager
    notifier = Notifier(name, 60, clock)
    statuses = iter(["one", "two"])
    async with background(notifier.feed_watchdog(lambda: next(statuses)), "watchdog"):
        assert await heard(listening) == "WATCHDOG=1\nSTATUS=one"
        clock.advance(29.9)
        await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            listening.recv(4096)
        clock.advance(0.1)
        assert await heard(listening) == "WATCHDOG=1\nSTATUS=two"


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "1000000"}, 0),
        ({"NOTIFY_SOCKET": "@x"}, 0),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "never"}, 0),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, 0),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000000"}, 1),
        ({"NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": "1000000"}, 0),
    ],
)
async def test_a_watchdog_that_is_not_ours_is_not_fed(environ: dict[str, str], seconds: float) -> None:
    assert Notifier.of(environ, RealClock()).watchdog_seconds == seconds


async def test_without_a_manager_nothing_is_sent_and_nothing_goes_on() -> None:
    notifier = Notifier.of({}, RealClock())
    await notifier.notify(READY=1)
    async with asyncio.timeout(PATIENCE):
        await notifier.feed_watchdog(lambda: "")


async def test_a_manager_that_is_gone_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await Notifier(str(tmp_path / "gone"), 0, RealClock()).notify(READY=1, STATUS="x")
    assert "could not be told READY, STATUS" in caplog.text


async def test_a_full_queue_is_tried_again_without_holding_the_loop_up(
    tmp_path: Path, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        notifier = Notifier(str(tmp_path / "notify"), 0, clock)
        sent = 0
        telling = asyncio.create_task(notifier.notify(COUNT=sent))
        await asyncio.sleep(0)
        while telling.done():  # until the kernel's queue is full
            sent += 1
            telling = asyncio.create_task(notifier.notify(COUNT=sent))
            for _ in range(3):
                await asyncio.sleep(0)
        listening.recv(100)
        clock.advance(FULL_SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await telling
    assert caplog.text == ""
