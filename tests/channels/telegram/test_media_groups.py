"""An album is one message: every part in it, none lost, none twice, and nobody else waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.telegram.media_groups import QUIET_SECONDS, MediaGroups
from goclaw.common.core.clock import SteppedClock
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.errors import DiskError, DiskFault, StateError
from tests.channels.support import open_state
from tests.channels.telegram.support import Stage, open_stage, passing
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json, World

PICTURES = (b"one!" * 100, b"two!" * 200, b"three!!!" * 300)


async def settled(stage: Stage) -> None:
    """Everything that people wrote is acknowledged."""
    await stage.telegram.wait_for(lambda: not stage.telegram.world.updates or None)


async def end_album(stage: Stage, clock: SteppedClock) -> None:
    """Let the time pass after which an album is whole, once all its parts are on the disk."""
    await settled(stage)
    clock.advance(QUIET_SECONDS)


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[asyncio.Task[None]]:
    """Run the channel once."""
    async with asyncio.timeout(10):
        task = asyncio.create_task(stage.channel.run(stage.gateway))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_part_is_acknowledged_when_it_is_on_disk_and_a_kill_then_loses_nothing(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        # No time passes, so the album is gathered for ever.
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=SteppedClock()) as gathering:
            await telegram.world.album(*PICTURES, text="look")
            await settled(gathering)
            assert gathering.gateway.begun == []
        clock = SteppedClock()
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as after:
            clock.advance(QUIET_SECONDS)
            (inbound,) = await after.gateway.wait_accepted(1)
    assert (inbound.text, len(inbound.attachments)) == ("look", 3)


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_album_that_cannot_be_taken_in_is_tried_again_and_holds_nobody_up() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.gateway.errors = [StateError("the disk is full")]
        await stage.telegram.world.album(*PICTURES, text="look")
        await end_album(stage, clock)
        await stage.gateway.wait_begun(1)
        await stage.telegram.world.say("me", user=6)
        await stage.gateway.wait_accepted(1)
        await passing(clock, lambda: len(stage.gateway.accepted) == 2)
        assert [inbound.text for inbound in stage.gateway.accepted] == ["me", "look"]


@pytest.mark.promise("P-telegram-no-loss")
async def test_others_are_heard_while_an_album_is_open() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.telegram.world.album(*PICTURES)
        await stage.telegram.world.say("me first", user=6)
        assert (await stage.gateway.wait_accepted(1))[0].text == "me first"
        await end_album(stage, clock)
        assert len(await stage.gateway.wait_accepted(2)) == 2


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_kill_while_the_album_is_handed_over_neither_loses_nor_doubles_it(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with FakeTelegram() as telegram:
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as killed:
            killed.gateway.gates["look"] = asyncio.Event()  # never set
            first, *_ = await telegram.world.album(*PICTURES, text="look")
            await end_album(killed, clock)
            await killed.gateway.wait_begun(1)
        late = {"media_group_id": first["message"]["media_group_id"]}
        await telegram.world.say("late", photo=PICTURES[0], **late)
        async with open_stage(telegram=telegram, state_dir=tmp_path) as after:
            accepted = await after.gateway.wait_accepted(2)
            await settled(after)
            assert sorted((inbound.text, len(inbound.attachments)) for inbound in accepted) == [
                ("late", 1),
                ("look", 3),
            ]
        async with open_stage(telegram=telegram, state_dir=tmp_path) as later:
            await telegram.world.say("and?")
            assert [inbound.text for inbound in await later.gateway.wait_accepted(1)] == ["and?"]


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_part_that_comes_late_is_a_message_of_its_own_also_after_a_restart(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with FakeTelegram() as telegram:
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as stage:
            (first, _) = await telegram.world.album(*PICTURES[:2])
            await end_album(stage, clock)
            album = (await stage.gateway.wait_accepted(1))[0]
            late = {"media_group_id": first["message"]["media_group_id"]}
            third = await telegram.world.say(photo=PICTURES[2], **late)
            alone = (await stage.gateway.wait_accepted(2))[1]
            await settled(stage)
        async with open_stage(telegram=telegram, state_dir=tmp_path) as stage:
            fourth = await telegram.world.say(photo=PICTURES[2], **late)
            last = (await stage.gateway.wait_accepted(1))[-1]
    assert len(album.attachments) == 2
    assert [alone.id, last.id] == [f"telegram:{update['update_id']}" for update in (third, fourth)]


@pytest.mark.promise("P-telegram-no-loss")
async def test_in_a_group_one_caption_that_addresses_the_bot_is_enough() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.telegram.world.album(*PICTURES, chat=-100, text="not for the bot")
        await end_album(stage, clock)
        await stage.telegram.world.album(*PICTURES, chat=-100, text="@claw_bot which?")
        await end_album(stage, clock)
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert (inbound.text, len(inbound.attachments), inbound.session) == ("which?", 3, "telegram:-100")


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_caption_that_is_edited_at_once_is_taken_as_it_is_then() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        updates = await stage.telegram.world.album(*PICTURES, text="lok")
        await stage.telegram.world.edit(5, updates[0]["message"]["message_id"], "look")
        await stage.telegram.world.say("and?")
        accepted = await stage.gateway.wait_accepted(2)
        assert [(inbound.text, inbound.edited) for inbound in accepted] == [("look", False), ("and?", False)]


@pytest.mark.promise("P-telegram-no-loss")
@pytest.mark.parametrize("group", [None, 7, "", "x" * 65, "ü", ["1"], {}])
async def test_an_odd_album_id_makes_a_plain_message(group: Any) -> None:
    async with open_stage(clock=SteppedClock(), running=False) as stage:
        telegram = stage.telegram
        update: Json = await telegram.world.say("look", photo=PICTURES[0])
        update["message"]["media_group_id"] = group
        polling = asyncio.create_task(stage.channel.run(stage.gateway))
        monkey = pytest.MonkeyPatch()
        with monkey.context() as patch:
            patch.setattr("tests.fake_telegram.oracle.check_answer", lambda method, answer: None)
            (inbound,) = await stage.gateway.wait_accepted(1)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        assert inbound.id == f"telegram:{update['update_id']}"


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_part_that_the_disk_refuses_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> tuple[str, int]:
        raise DiskError("the disk is full", DiskFault.FULL)

    clock = SteppedClock()
    async with open_stage(running=False, clock=clock) as stage:
        with monkeypatch.context() as patch:
            patch.setattr(ChannelRows, "gather", refuse)
            async with running(stage) as outcome:
                await stage.telegram.world.album(*PICTURES, text="look")
                with pytest.raises(ExceptionGroup):
                    await outcome
        assert stage.telegram.world.confirmed == [] and stage.gateway.begun == []
        async with running(stage):
            await end_album(stage, clock)
            (inbound,) = await stage.gateway.wait_accepted(1)
            assert len(inbound.attachments) == 3


@pytest.mark.promise("P-telegram-no-loss")
async def test_the_parts_of_an_album_wait_for_the_disk_together_and_the_next_message_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gather, together = ChannelRows.gather, asyncio.Barrier(len(PICTURES))

    async def slow(*given: Any) -> tuple[str, int]:
        async with asyncio.timeout(10):
            await together.wait()
        return await gather(*given)

    monkeypatch.setattr(ChannelRows, "gather", slow)
    async with open_stage(running=False, clock=SteppedClock()) as stage:  # no time passes
        await stage.telegram.world.album(*PICTURES, text="look")
        await stage.telegram.world.say("and?")
        async with running(stage):
            accepted = await stage.gateway.wait_accepted(2)
        assert [(inbound.text, len(inbound.attachments)) for inbound in accepted] == [("look", 3), ("and?", 0)]


@pytest.mark.promise("P-telegram-no-loss")
async def test_parts_that_come_one_by_one_lengthen_the_wait() -> None:
    clock, pause = SteppedClock(), QUIET_SECONDS - 0.1
    async with open_state() as state:
        albums = MediaGroups(state, clock, is_alone=True)
        first, *rest = await World().album(*PICTURES)
        await albums.gather("a", 5, 5, first["message"])
        waiting = asyncio.ensure_future(albums.wait_until_whole("a", 5))
        for update in rest:
            await asyncio.sleep(0)
            clock.advance(pause)
            await albums.gather("a", 5, 5, update["message"])
        for step, over in ((pause, False), (0.1, True)):
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance(step)
            for _ in range(5):
                await asyncio.sleep(0)
            assert waiting.done() is over


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_part_that_comes_late_does_not_let_the_next_message_pass_an_album_that_cannot_be_taken_in() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.gateway.errors = [StateError("the disk is full")]
        first, *_ = await stage.telegram.world.album(*PICTURES[:2], text="look")
        await end_album(stage, clock)
        await stage.gateway.wait_begun(1)
        late = {"media_group_id": first["message"]["media_group_id"]}
        await stage.telegram.world.say("late", photo=PICTURES[2], **late)
        await stage.telegram.world.say("and?")
        accepted = await stage.gateway.wait_accepted(3)
        assert [inbound.text for inbound in accepted] == ["look", "late", "and?"]


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_album_comes_behind_what_was_said_ahead_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gather, kept = ChannelRows.gather, list[str]()

    async def counted(*given: Any) -> tuple[str, int]:
        outcome = await gather(*given)
        kept.append(outcome[0])
        return outcome

    monkeypatch.setattr(ChannelRows, "gather", counted)
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        gate = stage.gateway.gates["one"] = asyncio.Event()
        for text in ("one", "two"):
            await stage.telegram.world.say(text)
        await stage.gateway.wait_begun(1)
        await stage.telegram.world.album(*PICTURES, text="look")
        await passing(clock, lambda: len(kept) == len(PICTURES))
        gate.set()
        await passing(clock, lambda: len(stage.gateway.accepted) == 3)
        assert [inbound.text for inbound in stage.gateway.accepted] == ["one", "two", "look"]


async def test_a_plain_message_asks_the_store_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(*_: object) -> None:
        raise AssertionError("there is no group in this chat")

    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.telegram.world.album(*PICTURES, text="look")
        await end_album(stage, clock)
        await stage.gateway.wait_accepted(1)
        await settled(stage)
        for name in ("around", "end_group", "messages"):
            monkeypatch.setattr(ChannelRows, name, asked)
        said = await stage.telegram.world.say("and?")
        await stage.gateway.wait_accepted(2)
        await stage.telegram.world.edit(5, said["message"]["message_id"], "and then?")
        await stage.gateway.wait_accepted(3)
