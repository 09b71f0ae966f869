"""kill -9 at every moment that matters, and at random ones (`tests.acceptance.fuzz` tries thousands)."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psutil
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.acceptance import hasty
from tests.acceptance.crash_points import POINTS
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.fuzz import FAULTS, fate, fuzz_side_by_side
from tests.acceptance.model import EFFECTS, UNKNOWN, EchoModel
from tests.acceptance.scenes import play_side_by_side
from tests.acceptance.waiting import eventually, never
from tests.fake_telegram.faults import too_many
from tests.fake_telegram.server import FakeTelegram, refusal
from tests.fake_telegram.world import BOT
from tests.lanes import repeats

pytestmark = [pytest.mark.slow]

ANN, GROUP = 5, -100
KILLS, SEED = repeats(4, 40), "44"
"""At random moments; the named points have their own test, and the long run is made by hand."""
CHOSEN_POINTS = (
    *("inbox before", "inbox after", "model accepted", "step model:1 after", "end after"),
    *("exec after", "send before", "send accepted", "draft accepted"),
)
"""What the short lane plays: what was said is not on disk; it is, and Telegram does not know; an answer is cut, is
recorded before its tool runs, is promised; a tool has run unrecorded; an answer is about to leave, has arrived; a part
of it is shown."""
QUIET_SECONDS = 0.7
"""How long nothing more may come when everything has come: past the pause before a delivery is tried again."""


class FloodedTelegram(FakeTelegram):
    """Wants to be left alone for an hour after the first message."""

    def __init__(self) -> None:
        super().__init__()
        self.flooded = asyncio.Event()

    def add_routes(self, application: web.Application) -> None:
        @web.middleware
        async def flood(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path.lower().endswith("/sendmessage") and len(self.sent()) == 1:
                self.flooded.set()
                return refusal(too_many(3600))
            return await handler(request)

        application.middlewares.append(flood)


@asynccontextmanager
async def restarted(home: Installation, telegram: FakeTelegram) -> AsyncIterator[None]:
    """Kill the daemon and start the next one, which ends properly when the block ends."""
    await home.kill()
    await home.start(telegram)
    yield
    await eventually(lambda: not home.read("SELECT id FROM inbox WHERE state != 'done'"))
    await eventually(lambda: not home.read("SELECT id FROM deliveries WHERE state != 'sent'"))
    assert home.integrity() == "ok"
    assert await home.stop() == 0


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN)]


@pytest.mark.deep
@pytest.mark.timeout(400)
@pytest.mark.promise("P-answered-once")
@pytest.mark.promise("P-repeat-marked")
@pytest.mark.promise("P-tool-once")
@pytest.mark.sqlite("`crashing` wraps `sqlite3`")
async def test_a_kill_at_any_named_point_costs_what_the_table_says(folder: Path) -> None:
    assert set(CHOSEN_POINTS) <= set(POINTS)
    assert await play_side_by_side(folder, repeats(CHOSEN_POINTS, tuple(POINTS)), worlds=2) == []


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.promise("P-answered-once")
@pytest.mark.sqlite("its books read the file")
async def test_kills_at_random_lose_nothing_and_repeat_nothing_unmarked(folder: Path) -> None:
    outcomes = await fuzz_side_by_side(folder, kills=KILLS, seed=SEED, worlds=2, forks=True)
    assert [outcome.faults for outcome in outcomes] == [[], []]
    assert sum(outcome.kills for outcome in outcomes) == KILLS


def test_a_run_is_repeated_by_its_seed() -> None:
    lives = [fate("7", life, None) for life in range(200)]
    assert lives == [fate("7", life, None) for life in range(200)]
    assert lives != [fate("8", life, None) for life in range(200)]
    assert {life.kind for life in lives} >= {"start", "time"}
    assert {fault for life in lives for fault in life.faults} == set(FAULTS)
    assert {fate("7", life, "sent before").kind for life in range(9)} == {"sent before"}


@pytest.mark.sqlite("kills when the file appears")
async def test_a_first_start_that_was_killed_again_and_again_leaves_nothing_that_stops_the_next(
    home: Installation, telegram: FakeTelegram
) -> None:
    home.module = hasty.__name__
    for name in ("goclaw.lock", "goclaw.db", "memory.db", "goclaw.sock"):
        await home.spawn()
        await eventually((home.state / name).exists)
        await home.kill()
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.wait_sent(ANN)
    assert texts(telegram) == ["answer m1 (end)"]
    assert await home.stop() == 0


@pytest.mark.promise("P-telegram-no-loss")
@pytest.mark.sqlite("locks the file")
async def test_a_message_is_not_acknowledged_to_telegram_before_it_is_on_disk(
    home: Installation, telegram: FakeTelegram
) -> None:
    """Another process holds the database, so the daemon has the message and cannot write it down."""
    await home.start(telegram)
    with closing(sqlite3.connect(home.state / "goclaw.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await telegram.world.say("m1 plain", user=ANN)
        await never(lambda: telegram.world.confirmed, QUIET_SECONDS)
        await home.kill()
    await home.start(telegram)
    await telegram.wait_sent(ANN)
    assert texts(telegram) == ["answer m1 (end)"]
    assert await home.stop() == 0


@pytest.mark.promise("P-tool-once")
async def test_of_two_commands_the_one_that_had_ended_keeps_its_result(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    await telegram.world.say("m1 pair", user=ANN)
    effects = home.workspace / EFFECTS
    await eventually(lambda: effects.exists() and len(effects.read_text().split()) == 2)
    tools = "SELECT state FROM steps WHERE name LIKE 'tool:%' ORDER BY name"
    await eventually(lambda: home.read(tools) == [("done",), ("intent",)])
    async with restarted(home, telegram):
        await eventually(lambda: texts(telegram))
    assert sorted(effects.read_text().split()) == ["m1", "m1-slow"]
    results = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert "exit code: 0" in results[0]
    assert UNKNOWN in results[1]


async def test_a_command_dies_with_the_daemon(home: Installation, telegram: FakeTelegram) -> None:
    seconds = f"98765.{os.getpid()}"  # another run of the tests on this machine has a command of its own

    def running() -> list[int]:
        return [process.pid for process in psutil.process_iter() if seconds in command_line(process)]

    await home.start(telegram)
    await telegram.world.say(f"m1 run sleep {seconds}", user=ANN)
    await eventually(running)
    await home.kill()
    await eventually(lambda: not running())


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []  # it has just ended


async def test_a_long_answer_of_which_a_part_arrived_goes_on_behind_it(folder: Path, model: EchoModel) -> None:
    async with FloodedTelegram() as telegram, installation(folder, telegram, model.url, forks=True) as home:
        home.write_users({"telegram:5": {}})
        await home.start(telegram)
        await telegram.world.say("m1 long", user=ANN)
        await telegram.flooded.wait()
        await eventually(lambda: "trying again" in home.output)
        # What was refused has not arrived: until that is recorded, the part may be there.
        await eventually(lambda: home.read("SELECT state FROM deliveries") == [("pending",)])
        await home.kill()
        (first,) = texts(telegram)
        telegram.world.meet(7)
        telegram.world.messages[7, 0] = telegram.world.new_message(7, BOT) | {"text": "no longer only one"}
        await home.start(telegram)
        await eventually(lambda: texts(telegram)[-1].endswith("(end)"))
        lines = [line for line in "\n".join(texts(telegram)).splitlines() if line]
        assert texts(telegram)[0] == first and len(texts(telegram)) > 2
        said = [line for line in dict.fromkeys(lines) if line.startswith(("m1 line", "answer m1"))]
        assert lines == said, "no mark, and nothing twice"
        assert await home.stop() == 0


@pytest.mark.promise("P-answered-once")
async def test_an_answer_that_began_to_grow_in_a_group_is_finished_in_the_same_message(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    gate = model.gate("m1", streamed=2)
    await telegram.world.say("@claw_bot m1 plain", user=ANN, chat=GROUP)
    (begun,) = await telegram.wait_sent(GROUP)
    await eventually(lambda: home.read("SELECT message FROM previews") == [(begun.message_id,)])
    gate.opened.set()
    async with restarted(home, telegram):
        await eventually(lambda: telegram.sent(GROUP)[-1].text == "answer m1 (end)")
        await never(lambda: telegram.sent(GROUP)[1:], QUIET_SECONDS)
    assert telegram.sent(GROUP)[0].message_id == begun.message_id
