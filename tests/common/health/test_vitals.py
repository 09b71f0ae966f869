"""The vital signs together: what the manager hears of a life, and SIGUSR2."""

import asyncio
import os
import re
import signal
import socket
from pathlib import Path

from goclaw.common.core.clock import RealClock
from goclaw.common.health.vitals import open_vitals
from tests.common.health.records import Records

PATIENCE = 20.0


async def test_a_manager_hears_of_the_whole_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        loop, environ = asyncio.get_running_loop(), {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100"}
        heard: list[str] = []
        async with asyncio.timeout(PATIENCE), open_vitals(RealClock(), environ) as vitals:
            await vitals.ready()
            while not any(message.startswith("READY=1\nSTATUS=Running") for message in heard):
                heard.append((await loop.sock_recv(listening, 4096)).decode())
            await vitals.stopping()
            while not any(message.startswith("STOPPING=1\nSTATUS=Stopping") for message in heard):
                heard.append((await loop.sock_recv(listening, 4096)).decode())
            while not heard[-1].startswith("WATCHDOG=1\nSTATUS=Stopping"):
                heard.append((await loop.sock_recv(listening, 4096)).decode())


async def test_the_status_has_the_worst_delay() -> None:
    async with open_vitals(RealClock(), {}) as vitals:
        assert list(vitals.lines()) == ["Event loop"]
        assert "ms at worst" in vitals.lines()["Event loop"]


async def test_what_a_long_life_must_not_gather_is_counted() -> None:
    async with open_vitals(RealClock(), {}) as vitals:
        before = vitals.counts()
        gate = asyncio.Event()
        waiting = asyncio.create_task(gate.wait())
        descriptor = os.open(os.devnull, os.O_RDONLY)
        counted = vitals.counts()
        os.close(descriptor)
        gate.set()
        await waiting
    assert counted["tasks"] == before["tasks"] + 1
    assert counted["descriptors"] == before["descriptors"] + 1
    assert counted["threads"] >= 2 and counted["unhandled_errors"] == 0 and counted["event_loop_late_ms"] >= 0


async def test_sigusr2_writes_where_all_tasks_stand(records: Records) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    gate = asyncio.Event()
    async with open_vitals(RealClock(), {}):
        waiting = asyncio.create_task(gate.wait(), name="somebody who waits")
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGUSR2)
        record = await asyncio.to_thread(records.wait_for, "SIGUSR2")
        gate.set()
        await waiting
    assert "1 task: somebody who waits:\n" in record.__dict__["stack"]
    assert "heartbeat" in record.__dict__["stack"]
    assert re.match(r" *\d+ total\n(.*\n)* *\d+ builtins\.", record.__dict__["objects"])
    assert signal.getsignal(signal.SIGUSR2) == before
