"""The event loop's heartbeat: delays are remembered, and a loop that is stuck is found out while it is."""

import asyncio
import logging

import pytest

from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.common.health import heartbeat as room
from goclaw.common.health.heartbeat import (
    BEAT_SECONDS,
    RECENT_SECONDS,
    STUCK_LOOKS,
    Heartbeat,
    HeartbeatMonitor,
    listening,
)
from tests.common.health.records import Records


async def turn_over() -> None:
    """Let every task that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_worst_recent_delay_is_remembered_and_forgotten_in_time(clock: SteppedClock) -> None:
    heart = Heartbeat(clock)
    async with background(heart.beat(), "heartbeat"):
        for seconds in (BEAT_SECONDS, BEAT_SECONDS + 2, BEAT_SECONDS + 1):
            await turn_over()
            clock.advance(seconds)
            await turn_over()
        assert heart.beats == 3
        assert heart.worst() == pytest.approx(2)
        clock.advance(RECENT_SECONDS - 1 - BEAT_SECONDS)
        assert heart.worst() == pytest.approx(2)
        clock.advance(1)
        assert heart.worst() == pytest.approx(1), "the smaller delay after it is still recent"
        clock.advance(RECENT_SECONDS)
        assert heart.worst() == 0


async def test_a_stuck_loop_is_reported_once_with_the_place_while_it_is_stuck(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(room, "BEAT_SECONDS", 0.001)
    heart = Heartbeat(RealClock())

    async def hold_everything_up() -> None:
        # A blocking wait on purpose: it ends because the other thread saw it.
        records.wait_for("has been stuck")

    with listening(heart):
        async with background(heart.beat(), "heartbeat"):
            await asyncio.create_task(hold_everything_up(), name="turn of somebody")
            goes_on = await asyncio.to_thread(records.wait_for, "goes on after")
    (stuck,) = records.found("has been stuck")
    assert stuck.levelno == logging.ERROR and "in turn of somebody" in stuck.getMessage()
    stack = stuck.__dict__["stack"]
    assert "hold_everything_up" in stack and "thread MainThread" in stack
    assert goes_on.levelno == logging.WARNING
    assert heart.worst() > 0


async def test_a_loop_that_is_slow_but_alive_is_no_incident(records: Records, clock: SteppedClock) -> None:
    """So is a machine that was asleep: no look was missed, however much time has passed."""
    heart = Heartbeat(clock)
    listener = HeartbeatMonitor(heart, asyncio.get_running_loop())
    async with background(heart.beat(), "heartbeat"):
        for _ in range(5 * STUCK_LOOKS):
            listener.check()
            listener.check()
            await turn_over()
            clock.advance(3600)
            await turn_over()
    assert records.records == []
