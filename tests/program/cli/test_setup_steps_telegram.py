"""The bot, tried out, and the person who sends it the code."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.state import LOCK, open_state
from goclaw.errors import ChannelError
from goclaw.program.cli.setup_dialogue import AdminAnswer, BotChoice
from goclaw.program.cli.setup_steps import choose_bot, find_owner
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.program.cli.setup_support import Heard, dialogue, loaded, scene

pytestmark = pytest.mark.usefixtures("no_keys")

WRONG = "42:AAwrong-token-of-somebody-else-entirely"


def settings(telegram: FakeTelegram, *, token: bool = False) -> dict[str, Any]:
    known = {"telegram.token": telegram.token} if token else {}
    return {"telegram.base_url": telegram.base_url, "telegram.poll_seconds": 1, **known}


async def bot(folder: Path, heard: Heard, **overrides: Any) -> BotChoice | None:
    async with scene(heard, folder, **overrides) as set_up:
        return await choose_bot(set_up)


async def test_a_token_that_is_refused_is_asked_for_again(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue(WRONG, telegram.token) as heard:
            assert await bot(tmp_path, heard, **settings(telegram)) == BotChoice("@claw_bot", telegram.token)
    assert "✗ Telegram refuses this token" in heard.text and "✓ @claw_bot answers" in heard.text
    assert "AAwrong" not in heard.text and telegram.token not in heard.text


async def test_enter_goes_on_without_telegram(tmp_path: Path) -> None:
    with dialogue("") as heard:
        assert await bot(tmp_path, heard) is None


async def test_a_token_that_is_known_is_kept_with_enter_and_tried(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue("") as heard:
            assert await bot(tmp_path, heard, **settings(telegram, token=True)) == BotChoice("@claw_bot")
        telegram.token = "42:AAa-new-token-since-yesterday-00000000"
        with dialogue("") as heard:
            known = settings(telegram) | {"telegram.token": WRONG}
            assert await bot(tmp_path, heard, **known) is None
    assert "You already have a token (command line)." in heard.text and "refuses this token" in heard.text


async def test_a_token_of_the_command_line_is_tried_and_not_asked_for(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue(silent=True) as heard:
            async with scene(heard, tmp_path, **settings(telegram)) as set_up:
                assert await choose_bot(set_up, telegram.token) == BotChoice("@claw_bot", telegram.token)
                with pytest.raises(ChannelError, match="refuses this token"):
                    await choose_bot(set_up, WRONG)


@asynccontextmanager
async def waiting(
    folder: Path, telegram: FakeTelegram, heard: Heard, seconds: float = 20
) -> AsyncIterator[tuple[str, "asyncio.Task[AdminAnswer | None]"]]:
    """The third step, when it waits: the code, and what will come of it."""
    async with asyncio.timeout(30), scene(heard, folder, **settings(telegram)) as set_up:
        task = asyncio.create_task(find_owner(set_up, BotChoice("@claw_bot", telegram.token), seconds))
        shown = await eventually(lambda: re.search(r"\n {7}(\d{8})\n", heard.text))
        await telegram.wait_called("getUpdates")
        yield shown[1], task


@pytest.mark.promise("P-setup-owner")
async def test_whoever_sends_the_code_becomes_the_owner(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue() as heard:
            async with waiting(tmp_path, telegram, heard) as (code, owner):
                await telegram.world.say("hello", user=8, name="Bob")
                await telegram.world.say(code, user=9, name="Eve", chat=-100)
                await telegram.world.say(code, user=5, name="Ann")
                assert await owner == AdminAnswer("telegram:5", "Ann")
        assert [update["message"]["text"] for update in telegram.world.updates] == ["hello", code, code]
    assert "✓ Ann (telegram:5) sent it." in heard.text


async def test_every_code_is_another_one(tmp_path: Path) -> None:
    codes = set()
    for _ in range(3):
        async with FakeTelegram() as telegram:
            with dialogue() as heard:
                async with waiting(tmp_path, telegram, heard) as (code, owner):
                    heard.type("")
                    assert await owner is None
                    codes.add(code)
    assert len(codes) == 3


@pytest.mark.promise("P-setup-owner")
async def test_a_wrong_code_is_nobody_and_the_time_is_bounded(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue() as heard:
            async with waiting(tmp_path, telegram, heard, seconds=0.5) as (code, owner):
                await telegram.world.say(f"{int(code) ^ 1:08}", user=5)
                assert await owner is None
        assert len(telegram.world.updates) == 1 and telegram.sent() == []
    assert "Nobody sent" in heard.text


async def test_an_id_may_be_typed_instead(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        with dialogue() as heard:
            async with waiting(tmp_path, telegram, heard) as (_, owner):
                heard.type("@ann", "123456")
                assert await owner == AdminAnswer("telegram:123456")
    assert "should be the numeric user id" in heard.text


async def test_where_another_program_polls_the_id_can_be_typed(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        telegram.fail("getUpdates", status=409, description="Conflict: terminated by other getUpdates request")
        with dialogue() as heard:
            async with waiting(tmp_path, telegram, heard) as (_, owner):
                await eventually(lambda: "✗ another program" in heard.text)
                heard.type("5")
                assert await owner == AdminAnswer("telegram:5")
    assert "`goclaw stop`" in heard.text


async def test_a_daemon_that_reads_this_bot_is_not_disturbed(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        known = settings(telegram, token=True)
        with open_state(loaded(tmp_path, **known).config), dialogue("") as heard:
            async with scene(heard, tmp_path, **known) as set_up:
                assert await find_owner(set_up, BotChoice("@claw_bot")) is None
        assert telegram.called("getUpdates") == []
    assert f"GoClaw is running (pid {os.getpid()})" in heard.text and "`goclaw stop`" in heard.text
    assert (tmp_path / "state" / LOCK).exists()


async def test_an_admin_who_is_listed_is_not_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    entry = {"telegram:5": {"name": "Ann", "roles": ["admin"]}}
    (tmp_path / "state" / "users.json").write_text(json.dumps({"users": entry}))
    with dialogue() as heard:
        async with scene(heard, tmp_path) as set_up:
            assert await find_owner(set_up, BotChoice("@claw_bot")) is None
            assert await find_owner(set_up, None) is None
    assert "Ann (telegram:5) is admin already" in heard.text
