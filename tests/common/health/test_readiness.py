"""Whether messages are taken: found out by writing, not too often, and told without names."""

import asyncio
from collections.abc import Mapping

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.health import readiness
from goclaw.common.health.readiness import KEEP_SECONDS, Probe, Readiness
from goclaw.errors import StateError


class Disk:
    """Takes writes, or does what `trouble` says."""

    def __init__(self) -> None:
        self.writes = 0
        self.trouble: StateError | None = None
        self.held = asyncio.Event()
        self.held.set()

    async def write(self) -> None:
        self.writes += 1
        await self.held.wait()
        if self.trouble:
            raise self.trouble


def probe(disk: Disk, clock: SteppedClock, channels: Mapping[str, str] | None = None) -> Probe:
    return Probe(disk.write, lambda: channels or {}, clock)


async def test_a_daemon_that_can_write_is_ready() -> None:
    assert (await probe(Disk(), SteppedClock()).look()).ready


async def test_a_full_disk_is_a_reason_and_so_is_its_end() -> None:
    disk, clock = Disk(), SteppedClock()
    looking = probe(disk, clock)
    disk.trouble = StateError("/home/ann/.goclaw/goclaw.db: disk full")
    (problem,) = (await looking.look()).problems
    assert "cannot be written" in problem and "/home" not in problem
    disk.trouble = None
    clock.advance(KEEP_SECONDS)
    assert (await looking.look()).ready


async def test_who_asks_all_the_time_makes_the_disk_work_once_in_a_while() -> None:
    disk, clock = Disk(), SteppedClock()
    looking = probe(disk, clock)
    await asyncio.gather(*(looking.look() for _ in range(50)))
    assert disk.writes == 1


async def test_a_write_that_hangs_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE", 0.01)
    disk = Disk()
    disk.held.clear()
    async with asyncio.timeout(10):
        (problem,) = (await probe(disk, SteppedClock()).look()).problems
    assert "did not accept a write" in problem


async def test_a_channel_that_is_away_makes_nobody_less_ready() -> None:
    found = await probe(Disk(), SteppedClock(), {"telegram": "no connection: bot.example"}).look()
    assert found.ready and found.channels == {"telegram": "no connection: bot.example"}


def test_strangers_hear_no_details() -> None:
    line = "another program polls, or it has a webhook (409): telegram:5"
    assert Readiness((), {"telegram": line}).public()["channels"] == {"telegram": "another program polls"}
