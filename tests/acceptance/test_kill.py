"""kill -9 at every moment that matters, and at some that nobody chose (`tests.acceptance.fuzz` tries thousands)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psutil
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.acceptance.books import MARKS
from tests.acceptance.crash_points import POINTS
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.fuzz import FAULTS, fate, fuzz_side_by_side
from tests.acceptance.model import EFFECTS, UNKNOWN, EchoModel
from tests.acceptance.scenes import play_side_by_side
from tests.acceptance.waiting import eventually, never
from tests.fake_telegram.faults import too_many
from tests.fake_telegram.server import FakeTelegram, refusal
from tests.fake_telegram.world import BOT

pytestmark = [pytest.mark.slow]

ANN, GROUP = 5, -100
KILLS = 10
"""At random moments; the named points have their own test, and the long run is made by hand."""
QUIET_SECONDS = 0.7
"""How long nothing more may come when everything has come: past the pause before a delivery is tried again."""


class HeldTelegram(FakeTelegram):
    """Handles `sendMessage`, but keeps the answers to itself: accepted, and the bot does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    def add_routes(self, application: web.Application) -> None:
        @web.middleware
        async def hold(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = await handler(request)
            if request.path.lower().endswith("/sendmessage"):
                await self.released.wait()
            return response

        application.middlewares.append(hold)


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
    assert home.read("PRAGMA integrity_check") == [("ok",)]
    assert await home.stop() == 0


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN)]


@pytest.mark.timeout(400)
@pytest.mark.promise("P-answered-once")
@pytest.mark.promise("P-repeat-marked")
@pytest.mark.promise("P-tool-once")
async def test_a_kill_at_any_named_point_costs_what_the_table_says(folder: Path) -> None:
    assert await play_side_by_side(folder, list(POINTS), worlds=2) == []


@pytest.mark.timeout(300)
@pytest.mark.promise("P-answered-once")
async def test_kills_at_random_lose_nothing_and_repeat_nothing_unmarked(folder: Path) -> None:
    outcomes = await fuzz_side_by_side(folder, kills=KILLS, seed="20", worlds=2)
    assert [outcome.faults for outcome in outcomes] == [[], []]
    assert sum(outcome.kills for outcome in outcomes) == KILLS


def test_a_run_is_repeated_by_its_seed() -> None:
    lives = [fate("7", life, None) for life in range(200)]
    assert lives == [fate("7", life, None) for life in range(200)]
    assert lives != [fate("8", life, None) for life in range(200)]
    assert {life.kind for life in lives} >= {"start", "time"}
    assert {fault for life in lives for fault in life.faults} == set(FAULTS)
    assert {fate("7", life, "sent before").kind for life in range(9)} == {"sent before"}


async def test_a_first_start_that_was_killed_again_and_again_leaves_nothing_that_stops_the_next(
    home: Installation, telegram: FakeTelegram
) -> None:
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
async def test_a_message_is_not_acknowledged_to_telegram_before_it_is_on_disk(
    home: Installation, telegram: FakeTelegram
) -> None:
    """Somebody else holds the database, so the daemon has the message and cannot write it down."""
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


@pytest.mark.promise("P-answered-once")
async def test_a_message_taken_in_before_the_model_was_asked_is_answered_by_the_next_daemon(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    # The first poll of a daemon waits for nothing: the second brings the message, the third would acknowledge it.
    await telegram.wait_called("getUpdates", 2)
    confirmation = telegram.fail("getUpdates", gate=asyncio.Event(), times=1)
    gate = model.gate("m1", streamed=0)
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(gate.reached.is_set)
    await telegram.wait_called("getUpdates", 3)
    assert telegram.world.confirmed == [], "Telegram will send it again: the next daemon must know it"
    gate.opened.set()
    assert confirmation.gate is not None
    async with restarted(home, telegram):
        await eventually(lambda: texts(telegram))
        await eventually(lambda: telegram.world.confirmed)
        await never(lambda: texts(telegram)[1:], QUIET_SECONDS)
    assert texts(telegram) == ["answer m1 (end)"]


async def test_an_answer_cut_in_mid_stream_is_written_anew_and_sent_once(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    gate = model.gate("m1", streamed=2)
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: telegram.world.drafts.get(ANN))
    gate.opened.set()
    async with restarted(home, telegram):
        await eventually(lambda: texts(telegram))
        await never(lambda: texts(telegram)[1:], QUIET_SECONDS)
    assert texts(telegram) == ["answer m1 (end)"]
    assert len(model.requests) == 2


@pytest.mark.promise("P-tool-once")
async def test_a_command_that_was_running_is_not_run_again_and_the_model_is_told(
    home: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    await home.start(telegram)
    await telegram.world.say(f"m1 run echo m1 >> {EFFECTS}; sleep 60; echo late >> {EFFECTS}", user=ANN)
    effects = home.workspace / EFFECTS
    await eventually(lambda: effects.exists() and effects.read_text())
    async with restarted(home, telegram):
        await eventually(lambda: texts(telegram))
        await never(lambda: effects.read_text() != "m1\n", QUIET_SECONDS)
    assert len(texts(telegram)) == 1
    assert UNKNOWN in texts(telegram)[0]


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
    def running() -> list[int]:
        return [process.pid for process in psutil.process_iter() if "98765.25" in command_line(process)]

    await home.start(telegram)
    await telegram.world.say("m1 run sleep 98765.25", user=ANN)
    await eventually(running)
    await home.kill()
    await eventually(lambda: not running())


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []  # it has just ended


@pytest.mark.promise("P-answered-once")
async def test_a_finished_answer_that_was_not_sent_yet_is_sent_once_and_unmarked(
    home: Installation, telegram: FakeTelegram
) -> None:
    """It waits behind another one, whose request has left the daemon and never arrived."""
    await home.start(telegram)
    telegram.fail("sendMessage", gate=asyncio.Event(), times=1)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.world.say("m2 plain", user=ANN)
    states = "SELECT state FROM deliveries ORDER BY seq"
    await eventually(lambda: home.read(states) == [("sending",), ("pending",)])
    async with restarted(home, telegram):
        await eventually(lambda: texts(telegram)[1:])
        await never(lambda: texts(telegram)[2:], QUIET_SECONDS)
    assert texts(telegram) == [f"{MARKS[0]}\n\nanswer m1 (end)", "answer m2 (end)"]


@pytest.mark.promise("P-repeat-marked")
async def test_an_answer_that_telegram_took_without_the_daemon_knowing_comes_again_marked(
    folder: Path, model: EchoModel
) -> None:
    async with HeldTelegram() as telegram, installation(folder, telegram, model.url) as home:
        home.write_users({"telegram:5": {}})
        await home.start(telegram)
        await telegram.world.say("m1 plain", user=ANN)
        await eventually(lambda: texts(telegram))
        await home.kill()
        telegram.released.set()
        await home.start(telegram)
        await eventually(lambda: texts(telegram)[1:])
        await never(lambda: texts(telegram)[2:], QUIET_SECONDS)
        assert texts(telegram) == ["answer m1 (end)", f"{MARKS[0]}\n\nanswer m1 (end)"]
        assert await home.stop() == 0


async def test_a_long_answer_of_which_a_part_arrived_goes_on_behind_it(folder: Path, model: EchoModel) -> None:
    async with FloodedTelegram() as telegram, installation(folder, telegram, model.url) as home:
        home.write_users({"telegram:5": {}})
        await home.start(telegram)
        await telegram.world.say("m1 long", user=ANN)
        await telegram.flooded.wait()
        await eventually(lambda: "trying again" in home.output)
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
    grown = home.state / "telegram-grown.json"
    await eventually(lambda: grown.exists() and f":{begun.message_id}}}" in grown.read_text())
    gate.opened.set()
    async with restarted(home, telegram):
        await eventually(lambda: telegram.sent(GROUP)[-1].text == "answer m1 (end)")
        await never(lambda: telegram.sent(GROUP)[1:], QUIET_SECONDS)
    assert telegram.sent(GROUP)[0].message_id == begun.message_id
