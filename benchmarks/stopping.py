"""How soon `/stop` works in a real daemon, and how soon a turn begins: nothing waits in order to be merged.

The daemon, its processes and their ends are real; Telegram is the strict fake of the tests and the model a server that
holds its answer, both in this process, so that all moments are of one clock.
"""

import asyncio
import os
import select
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.figures import Figure, Options, percentile
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

ANN = 5
STOPS = 40
BEGINNINGS = 100
WARM_UP = 5
PATIENCE = 30.0
TREE = "touch begun; (setsid sleep 290 &) ; sleep 291 & sleep 292"
"""A command with a tree: one child detached, one in the background, one that is waited for."""


@dataclass(frozen=True)
class Stage:
    """A daemon and the world around it."""

    home: Installation
    telegram: FakeTelegram
    model: EchoModel

    def stopped(self) -> int:
        """How often /stop was answered."""
        return sum(sent.text.startswith("Stopp") for sent in self.telegram.sent(ANN))

    def sleepers(self) -> list[psutil.Process]:
        """The processes of the command."""
        assert self.home.process is not None
        children = psutil.Process(self.home.process.pid).children(recursive=True)
        return [process for process in children if _is_sleep(process)]


def _is_sleep(process: psutil.Process) -> bool:
    try:
        return process.name() == "sleep"
    except psutil.Error:
        return False


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Start everything."""
    with tempfile.TemporaryDirectory(prefix="goclaw-stop-", ignore_cleanup_errors=True) as name:
        async with FakeTelegram() as telegram, echo_model() as model:
            async with installation(Path(name), telegram, model.url) as home:
                home.write_users({"telegram:5": {"name": "Ann"}})
                await home.start(telegram)
                yield Stage(home, telegram, model)
                await home.stop()


async def measure_stop(options: Options) -> list[Figure]:
    """Of an answer that is being streamed, and of a command with a tree of processes."""
    answered, closed, dead = list[float](), list[float](), list[float]()
    async with open_stage() as stage:
        for number in range(WARM_UP + options.times(STOPS)):
            moments = await stop_a_stream(stage, f"s{number}")
            if number >= WARM_UP:
                answered.append(moments[0])
                closed.append(moments[1])
        for number in range(options.times(STOPS)):
            moments = await stop_a_command(stage, f"c{number}")
            answered.append(moments[0])
            dead.append(moments[1])
    return [
        *_figures("/stop to its answer", answered, 200),
        *_figures("/stop to the model's connection being closed", closed, 200),
        *_figures("/stop to the last process of a command being dead", dead, 500),
    ]


async def measure_beginning(options: Options) -> list[Figure]:
    """From a message entering Telegram to the model having the request."""
    times = list[float]()
    async with open_stage() as stage:
        for number in range(WARM_UP + options.times(BEGINNINGS)):
            gate = stage.model.gate(f"b{number} ", streamed=0)
            began = time.monotonic()
            await stage.telegram.world.say(f"b{number} plain", user=ANN)
            await gate.reached.wait()
            times.append(1000 * (time.monotonic() - began))
            gate.opened.set()
            await stage.telegram.wait_sent(ANN, number + 1)
    return _figures("a message to the model having the request", times[WARM_UP:], 10, 20)


async def stop_a_stream(stage: Stage, name: str) -> tuple[float, float]:
    """Milliseconds until the answer came, and until the connection was closed."""
    gate, before = stage.model.gate(f"{name} ", streamed=1), stage.stopped()
    await stage.telegram.world.say(f"{name} plain", user=ANN)
    await gate.reached.wait()
    began = time.monotonic()
    await stage.telegram.world.say("/stop", user=ANN)
    answering = asyncio.create_task(when(stage.telegram, lambda: stage.stopped() > before))
    async with asyncio.timeout(PATIENCE):
        await gate.left.wait()
        closed = time.monotonic()
        return 1000 * (await answering - began), 1000 * (closed - began)


async def stop_a_command(stage: Stage, name: str) -> tuple[float, float]:
    """Milliseconds until the answer came, and until all its processes were dead."""
    before = stage.stopped()
    await stage.telegram.world.say(f"{name} run {TREE}", user=ANN)
    async with asyncio.timeout(PATIENCE):
        await eventually(lambda: len(stage.sleepers()) >= 3, PATIENCE)
        handles = [os.pidfd_open(process.pid) for process in stage.sleepers()]
        dying = asyncio.create_task(asyncio.to_thread(_moment_of_death, handles))
        began = time.monotonic()
        await stage.telegram.world.say("/stop", user=ANN)
        answering = asyncio.create_task(when(stage.telegram, lambda: stage.stopped() > before))
        return 1000 * (await answering - began), 1000 * (await dying - began)


def _moment_of_death(handles: list[int]) -> float:
    """When the last of these processes had ended."""
    for handle in handles:
        select.select([handle], [], [], PATIENCE)
        os.close(handle)
    return time.monotonic()


async def when(telegram: FakeTelegram, happened: Callable[[], bool]) -> float:
    """The moment at which something has happened in Telegram."""
    await telegram.wait_for(lambda: happened() or None, PATIENCE)
    return time.monotonic()


def _figures(name: str, times: list[float], p50: float, p95: float | None = None) -> list[Figure]:
    detail = {"repetitions": len(times), "max": round(max(times), 2)}
    return [
        Figure(f"{name}, p50", "ms", percentile(times, 50), p50, detail=detail),
        Figure(f"{name}, p95", "ms", percentile(times, 95), p95 or p50),
    ]
