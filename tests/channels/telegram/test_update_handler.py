"""Everything beside plain messages: edits, moved groups, chats that close, the Stop button, topics, our own name."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.telegram.update_handler import DOUBT_SECONDS
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.events import AcceptKind, Address, TextStreamed, TurnStarted
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.errors import DeliveryError, DiskError, DiskFault
from tests.channels.telegram.support import Stage, open_stage, passing
from tests.fake_telegram import methods
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT, Json, chat_of, person

OLD, NEW = -5, -1005


async def settled(stage: Stage) -> None:
    """Everything that happened is acknowledged."""
    await stage.telegram.wait_for(lambda: not stage.telegram.world.updates or None)


async def test_an_edit_is_a_new_version_of_the_same_message() -> None:
    async with open_stage() as stage:
        said = await stage.telegram.world.say("hello")
        await stage.telegram.world.edit(5, said["message"]["message_id"], "hello there")
        first, second = await stage.gateway.wait_accepted(2)
        assert (first.text, first.edited) == ("hello", False)
        assert (second.text, second.edited) == ("hello there", True)
        assert first.ref == second.ref == "telegram:5:1"
        assert first.id != second.id and first.address == second.address and first.session == second.session


async def test_an_edit_waits_for_the_message_that_it_changes() -> None:
    async with open_stage() as stage:
        gate = stage.gateway.gates["hello"] = asyncio.Event()
        said = await stage.telegram.world.say("hello")
        await stage.gateway.wait_begun(1)
        await stage.telegram.world.edit(5, said["message"]["message_id"], "hello there")
        await stage.telegram.world.say("me too", user=6)
        await stage.gateway.wait_accepted(1)
        assert stage.gateway.begun == ["hello", "me too"]
        gate.set()
        assert [inbound.text for inbound in await stage.gateway.wait_accepted(3)] == ["me too", "hello", "hello there"]


@pytest.mark.promise("P-order")
async def test_what_waits_for_a_message_that_cannot_be_kept_is_not_taken_before_it() -> None:
    async with open_stage(running=False) as stage:
        gate = stage.gateway.gates["m1"] = asyncio.Event()
        stage.gateway.late_errors["m1"] = DiskError("the disk is full", DiskFault.FULL)
        listening = run_with_restarts("telegram", partial(stage.channel.run, stage.gateway), RealClock())
        async with background(listening, "telegram"):
            for number in range(1, 4):
                await stage.telegram.world.say(f"m{number}")
            await stage.telegram.world.say("from Ben", user=6)
            await stage.gateway.wait_accepted(1)
            gate.set()
            await settled(stage)
    assert list(dict.fromkeys(each.text for each in stage.gateway.accepted)) == ["from Ben", "m1", "m2", "m3"]


@pytest.mark.promise("P-telegram-nobody")
async def test_edits_by_nobody_and_for_others_are_not_heard() -> None:
    async with open_stage() as stage:
        world = stage.telegram.world
        said = (await world.say("talk among people", chat=-100))["message"]
        await world.edit(-100, said["message_id"], "more talk")
        said = (await world.say("x", sender_chat=chat_of(-100), chat=-100))["message"]
        await world.edit(-100, said["message_id"], "@claw_bot do this")
        await settled(stage)
        assert stage.gateway.begun == []


async def test_a_group_that_moves_goes_on_with_its_conversation_also_after_a_restart(tmp_path: Path) -> None:
    async with FakeTelegram() as fake:
        async with open_stage(telegram=fake, state_dir=tmp_path, groups=[OLD]) as stage:
            await fake.world.say("@claw_bot before", chat=OLD)
            await fake.world.migrate(OLD, NEW)
            await fake.world.say("@claw_bot after", chat=NEW)
            before, after = await stage.gateway.wait_accepted(2)
            assert before.session == after.session == f"telegram:{OLD}"
            assert (before.address.chat, after.address.chat) == (str(OLD), str(NEW))
            assert (before.ref, after.ref.rpartition(":")[0]) == (f"telegram:{OLD}:1", f"telegram:{NEW}")
            await stage.deliver("the answer", chat=OLD)
            assert stage.texts(NEW) == ["the answer"]
        async with open_stage(telegram=fake, state_dir=tmp_path, groups=[OLD]) as stage:
            await fake.world.say("@claw_bot later", chat=NEW)
            assert (await stage.gateway.wait_accepted(1))[0].session == f"telegram:{OLD}"
            await stage.deliver("late", chat=OLD)
            assert stage.texts(NEW) == ["the answer", "late"]


@pytest.mark.parametrize(
    "move", [{"migrate_to_chat_id": 7}, {"migrate_to_chat_id": "x"}, {"migrate_from_chat_id": None}]
)
async def test_no_persons_chat_becomes_another(move: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fake_telegram.oracle.check_answer", lambda method, answer: None)
    async with open_stage() as stage:
        await stage.telegram.world.update("message", {"chat": chat_of(OLD), "message_id": 1, "date": 1} | move)
        await stage.telegram.world.say("@claw_bot hello", chat=OLD)
        assert (await stage.gateway.wait_accepted(1))[0].session == f"telegram:{OLD}"


async def test_a_person_who_blocks_the_bot_is_sent_nothing_until_they_let_it_back_in() -> None:
    async with open_stage() as stage:
        world = stage.telegram.world
        await world.place("kicked")
        await settled(stage)
        with pytest.raises(DeliveryError) as caught:
            await stage.deliver("hello?")
        assert caught.value.permanent
        assert stage.telegram.called("sendMessage") == []
        await world.place("member")
        await settled(stage)
        await stage.deliver("hello again", number="d2")
        assert stage.texts() == ["hello again"]


@pytest.mark.parametrize(
    ("status", "more", "reachable"),
    [
        ("left", {}, False),
        ("kicked", {}, False),
        ("member", {}, True),
        ("administrator", {}, True),
        ("restricted", {"is_member": False}, False),
        ("restricted", {"is_member": True}, True),
    ],
)
async def test_a_group_that_throws_the_bot_out_is_sent_nothing(
    status: str, more: Json, reachable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fake_telegram.oracle.check_answer", lambda method, answer: None)  # rights left out
    async with open_stage() as stage:
        await stage.telegram.world.place(status, chat=-100, **more)
        await settled(stage)
        stage.telegram.world.meet(-100)
        stage.telegram.world.blocked_by.clear()
        if reachable:
            await stage.deliver("hello", chat=-100)
        else:
            with pytest.raises(DeliveryError):
                await stage.deliver("hello", chat=-100)


async def test_the_stop_button_below_a_draft_is_stop_of_whoever_reads_it() -> None:
    async with open_stage() as stage:
        await stage.telegram.world.say("hello")
        (asked,) = await stage.gateway.wait_accepted(1)
        await stage.gateway.publish(TurnStarted(asked.id, "telegram:5", Address("telegram", "5")))
        await stage.gateway.publish(TextStreamed(asked.id, "telegram:5", "A long answer"))
        await stage.telegram.wait_called("sendMessageDraft")
        await stage.telegram.world.stop_draft(5)
        stop = (await stage.gateway.wait_accepted(2))[1]
        assert (stop.text, stop.actor.key, stop.session) == ("/stop", "telegram:5", "telegram:5")
        assert stop.address == Address("telegram", "5")


async def test_the_stop_button_of_an_answer_that_has_ended_stops_nothing_else() -> None:
    async with open_stage() as stage:
        await stage.telegram.world.stop_draft(5)
        await stage.telegram.world.update("stopped_message_generation", {"chat": chat_of(-100), "draft_id": 1})
        await settled(stage)
        assert stage.gateway.begun == []


@pytest.mark.parametrize(
    ("fields", "session", "thread"),
    [
        ({}, "telegram:-100", None),
        ({"is_topic_message": True, "message_thread_id": 77}, "telegram:-100:77", "77"),
        ({"is_topic_message": True, "message_thread_id": 1}, "telegram:-100", None),
        ({"message_thread_id": 12}, "telegram:-100", None),  # an answer's thread in a group without topics
    ],
)
async def test_the_general_topic_is_the_group_itself(fields: Json, session: str, thread: str | None) -> None:
    async with open_stage() as stage:
        await stage.telegram.world.say("@claw_bot hello", chat=-100, **fields)
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert (inbound.session, inbound.address.thread) == (session, thread)
        await stage.deliver("hi", chat=-100, thread=thread)
        await stage.deliver("in General", chat=-100, number="d2", thread="1")
        sent = [call.get("message_thread_id") for call in stage.telegram.called("sendMessage")]
        assert sent == [thread and int(thread), None]


@pytest.mark.parametrize("kind", ["channel_post", "edited_channel_post", "business_message", "guest_message", "poll"])
async def test_what_nobody_asked_for_is_acknowledged_and_nothing_else(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fake_telegram.oracle.check_answer", lambda method, answer: None)
    async with open_stage() as stage:
        content = {"message_id": 1, "date": 1, "chat": chat_of(5), "from": person(5, "Ann"), "text": "/status"}
        taking = stage.channel  # a webhook that somebody else set up may bring any kind
        await stage.telegram.world.update(kind, content)
        await stage.telegram.world.say("hello")
        assert [inbound.text for inbound in await stage.gateway.wait_accepted(1)] == ["hello"]
        assert taking.health().startswith("polling")


async def test_a_new_name_of_the_bot_is_learned_when_somebody_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.telegram.world.say("@claw_bot one", chat=-100)
        await stage.gateway.wait_accepted(1)
        monkeypatch.setattr(methods, "BOT", BOT | {"username": "talon_bot"})
        clock.advance(DOUBT_SECONDS)
        for text in ("@talon_bot two", "@claw_bot three", "@other_bot four", "/status@talon_bot"):
            await stage.telegram.world.say(text, chat=-100)
        await passing(clock, lambda: len(stage.gateway.accepted) == 3)
        assert [inbound.text for inbound in stage.gateway.accepted] == ["one", "two", "/status"]
        assert len(stage.telegram.called("getMe")) == 2, "doubted once a minute at most"


async def test_what_the_gateway_cannot_take_is_not_acknowledged_whatever_kind_it_is() -> None:
    async def trouble(happen: Any) -> None:
        async with open_stage(running=False) as stage:
            stage.gateway.errors = [OSError("disk full")] * 20
            await happen(stage.telegram.world)
            with pytest.raises(ExceptionGroup):
                async with asyncio.timeout(10):
                    await stage.channel.run(stage.gateway)
            assert stage.telegram.world.confirmed == []

    async def edited(world: Any) -> None:
        said = await world.say("talk", chat=-100)
        await world.edit(-100, said["message"]["message_id"], "@claw_bot talk")

    await trouble(lambda world: world.say("hello"))
    await trouble(edited)


async def test_a_message_that_is_taken_in_gets_its_reaction_once() -> None:
    async with open_stage(ack_reaction="👀") as stage:
        said = await stage.telegram.world.say("hello")
        await stage.telegram.wait_called("setMessageReaction")
        stage.gateway.taken_as = AcceptKind.REPLY
        await stage.telegram.world.say("/status")
        await stage.gateway.wait_accepted(2)
        await stage.deliver("later")
        assert stage.telegram.world.reactions == {(5, said["message"]["message_id"]): ("👀",)}
        assert len(stage.telegram.called("setMessageReaction")) == 1


async def test_a_reaction_that_telegram_refuses_costs_nothing() -> None:
    async with open_stage(ack_reaction="👍🏽") as stage:
        stage.telegram.fail("setMessageReaction", status=400, description="Bad Request: REACTION_INVALID")
        await stage.telegram.world.say("hello")
        await stage.telegram.wait_called("setMessageReaction")
        await stage.telegram.world.say("again")
        await stage.gateway.wait_accepted(2)
        assert stage.texts() == []


async def test_no_reaction_is_the_default() -> None:
    async with open_stage() as stage:
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_accepted(1)
        await stage.deliver("later")
        assert stage.telegram.called("setMessageReaction") == []
