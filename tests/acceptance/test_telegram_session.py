"""An afternoon in Telegram: pictures, previews, groups, long answers, changes of mind, trouble with the token."""

import base64

import pytest

from tests.acceptance.daemon import Installation
from tests.acceptance.model import LONG_LINES, EchoModel, texts_of
from tests.acceptance.waiting import clock, eventually, never
from tests.fake_telegram.rules import MAX_TEXT, utf16_length
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

ANN, GROUP = 5, -100
PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 8
AT_ONCE = 3.0
"""Seconds in which /stop is answered, on a busy machine."""


@pytest.fixture
async def daemon(home: Installation, telegram: FakeTelegram) -> Installation:
    """The daemon, running."""
    await home.start(telegram)
    return home


def texts(telegram: FakeTelegram, chat: int = ANN) -> list[str]:
    return [sent.text for sent in telegram.sent(chat)]


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-media")
async def test_a_photo_reaches_a_model_that_sees(telegram: FakeTelegram, model: EchoModel) -> None:
    await telegram.world.say("m1 plain", user=ANN, photo=PICTURE)
    await telegram.wait_sent(ANN)
    parts = model.requests[0]["messages"][-1]["content"]
    pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert pictures == [f"data:image/jpeg;base64,{base64.b64encode(PICTURE).decode()}"]


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-telegram-live")
async def test_an_answer_can_be_read_while_it_is_written(telegram: FakeTelegram, model: EchoModel) -> None:
    gate = model.gate("m1", streamed=2)
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: "answer m1" in telegram.world.drafts.get(ANN, {}).get("text", ""))
    assert telegram.sent(ANN) == []
    assert telegram.called("sendChatAction")
    gate.opened.set()
    await telegram.wait_sent(ANN)
    assert texts(telegram) == ["answer m1 (end)"]
    assert ANN not in telegram.world.drafts


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-telegram-groups")
async def test_in_a_group_a_mention_is_answered_in_one_message_that_grows(
    telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m2", streamed=2)
    await telegram.world.say("m1 plain, you all", user=ANN, chat=GROUP)
    asked = await telegram.world.say("@claw_bot m2 plain", user=ANN, chat=GROUP)
    begun = (await telegram.wait_sent(GROUP))[0]
    assert begun.text == "answer m2" and begun.reply_to == asked["message"]["message_id"]
    gate.opened.set()
    await eventually(lambda: texts(telegram, GROUP) == ["answer m2 (end)"])
    assert telegram.sent(GROUP)[0].message_id == begun.message_id
    assert len(model.requests) == 1


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-telegram-text")
async def test_a_long_answer_arrives_whole_in_several_messages(telegram: FakeTelegram) -> None:
    await telegram.world.say("m1 long", user=ANN)
    await eventually(lambda: texts(telegram) and texts(telegram)[-1].endswith("(end)"))
    assert len(texts(telegram)) > 1 and all(utf16_length(text) <= MAX_TEXT for text in texts(telegram))
    lines = [line for text in texts(telegram) for line in text.splitlines() if "line" in line]
    assert lines == [f"m1 line {number} of a long answer." for number in range(LONG_LINES - 1)] + [
        f"m1 line {LONG_LINES - 1} of a long answer. (end)"
    ]


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-stop")
async def test_stop_in_mid_stream_is_answered_at_once_and_the_model_stops(
    telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1", streamed=2)
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: telegram.world.drafts.get(ANN))
    began = clock.monotonic()
    await telegram.world.say("/stop", user=ANN)
    await telegram.wait_sent(ANN)
    assert clock.monotonic() - began < AT_ONCE
    assert texts(telegram) == ["Stopped."]
    await eventually(gate.left.is_set)
    await telegram.world.say("m2 plain", user=ANN)
    assert [sent.text for sent in await telegram.wait_sent(ANN, 2)] == ["Stopped.", "answer m2 (end)"]


async def test_stop_ends_a_command_that_runs(daemon: Installation, telegram: FakeTelegram) -> None:
    await telegram.world.say("m1 run touch begun; sleep 100; touch ended", user=ANN)
    await eventually((daemon.workspace / "begun").exists)
    began = clock.monotonic()
    await telegram.world.say("/stop", user=ANN)
    assert (await telegram.wait_sent(ANN))[0].text == "Stopped."
    assert clock.monotonic() - began < AT_ONCE


@pytest.mark.usefixtures("daemon")
async def test_clear_during_a_turn_lets_it_end_and_then_begins_afresh(telegram: FakeTelegram, model: EchoModel) -> None:
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.wait_sent(ANN)
    gate = model.gate("m2", streamed=2)
    await telegram.world.say("m2 plain", user=ANN)
    await gate.reached.wait()
    await telegram.world.say("/clear", user=ANN)
    assert "cleared" in (await telegram.wait_sent(ANN, 2))[-1].text
    gate.opened.set()
    assert (await telegram.wait_sent(ANN, 3))[-1].text == "answer m2 (end)"
    await telegram.world.say("m3 plain", user=ANN)
    await telegram.wait_sent(ANN, 4)
    assert [text for text in texts_of(model.requests[-1]) if "m1" in text] == []


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-order")
async def test_messages_of_one_chat_wait_for_each_other_and_other_chats_do_not(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    daemon.write_users({"telegram:5": {}, "telegram:6": {}})
    gate = model.gate("m1", streamed=2)
    for number in (1, 2, 3):
        await telegram.world.say(f"m{number} plain", user=ANN)
    await gate.reached.wait()

    async def bob_is_heard() -> None:
        while not telegram.sent(6):
            await telegram.world.say("m9 plain", user=6)
            await eventually(lambda: not telegram.world.updates)

    await bob_is_heard()
    assert texts(telegram) == []
    gate.opened.set()
    await telegram.wait_sent(ANN, 3)
    assert texts(telegram) == ["answer m1 (end)", "answer m2 (end)", "answer m3 (end)"]


@pytest.mark.promise("P-telegram-stays")
async def test_a_wrong_token_silences_telegram_and_nothing_else(home: Installation, telegram: FakeTelegram) -> None:
    home.config["telegram"]["token"] = "42:AAwrong-token-of-somebody-else-entirely"
    home.write_config()
    await home.start()
    await eventually(lambda: "the bot token is refused" in home.output)
    told = await home.run("send", "m1 plain")
    assert told.code == 0 and told.out == "answer m1 (end)\n"
    assert "the bot token is refused" in (await home.run("status")).out
    assert "AAwrong" not in home.output + (home.state / "logs" / "goclaw.log").read_text()
    assert await home.stop() == 0


@pytest.mark.promise("P-telegram-stays")
async def test_another_poller_is_waited_for(home: Installation, telegram: FakeTelegram) -> None:
    telegram.fail("getUpdates", status=409, description="Conflict: terminated by other getUpdates request", times=2)
    await home.start(telegram)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.wait_sent(ANN)
    assert texts(telegram) == ["answer m1 (end)"]
    assert "another program uses this bot's token" in home.output
    assert "Traceback" not in home.output


async def test_telegram_being_away_for_a_while_costs_nothing(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    """The answer is refused twice with a wish to wait, then taken: once, and without a mark."""
    telegram.fail("sendMessage", status=429, description="Too Many Requests: retry after 1", retry_after=1, times=2)
    await telegram.world.say("m1 plain", user=ANN)
    await telegram.wait_sent(ANN)
    await never(lambda: texts(telegram)[1:], 0.5)
    assert texts(telegram) == ["answer m1 (end)"]


@pytest.mark.usefixtures("daemon")
@pytest.mark.promise("P-media")
async def test_an_album_is_answered_once_with_all_its_pictures(telegram: FakeTelegram, model: EchoModel) -> None:
    await telegram.world.album(PICTURE, PICTURE + b"2", PICTURE + b"3", text="m1 plain", user=ANN)
    await telegram.wait_sent(ANN)
    await telegram.wait_for(lambda: not telegram.world.updates or None)
    parts = model.requests[0]["messages"][-1]["content"]
    assert len([part for part in parts if part["type"] == "image_url"]) == 3
    assert (texts(telegram), len(model.requests)) == (["answer m1 (end)"], 1)


@pytest.mark.usefixtures("daemon")
async def test_a_message_that_is_edited_while_it_waits_is_answered_as_it_is_then(
    telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1", streamed=2)
    first = await telegram.world.say("m1 plain", user=ANN)
    await gate.reached.wait()
    second = await telegram.world.say("m2 plain", user=ANN)
    await telegram.world.edit(ANN, first["message"]["message_id"], "m8 plain")  # too late: it is being answered
    await telegram.world.edit(ANN, second["message"]["message_id"], "m3 plain")
    await telegram.wait_for(lambda: not telegram.world.updates or None)
    gate.opened.set()
    await telegram.wait_sent(ANN, 2)
    assert texts(telegram) == ["answer m1 (end)", "answer m3 (end)"]


async def test_a_group_that_becomes_a_supergroup_goes_on_where_it_was(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    old, new = -5, -1005
    await telegram.world.say("@claw_bot m1 plain", user=ANN, chat=old)
    await telegram.wait_sent(old)
    await telegram.world.migrate(old, new)
    await telegram.wait_for(lambda: not telegram.world.updates or None)
    assert await daemon.stop() == 0
    await daemon.start(telegram)
    await telegram.world.say("@claw_bot m2 plain", user=ANN, chat=new)
    await telegram.wait_sent(new)
    assert [text for text in texts_of(model.requests[-1]) if "m1 plain" in text], "it remembers"
