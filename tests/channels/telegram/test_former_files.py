"""The files of a former version are put into the store once."""

from pathlib import Path

import orjson
import pytest

from goclaw.channels.telegram.former_files import (
    MEDIA_GROUPS_FILE,
    MESSAGE_IDS_FILE,
    MIGRATIONS_FILE,
    import_files,
)
from goclaw.channels.telegram.media_groups import LONG_TEXT, QUIET_SECONDS
from goclaw.common.core.clock import SteppedClock
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.errors import DiskError, DiskFault
from tests.channels.support import open_state
from tests.channels.telegram.support import open_stage, passing, previews_in
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json

PICTURES = (b"one!" * 100, b"two!" * 200, b"three!!!" * 300)
NAMES = (MEDIA_GROUPS_FILE, MESSAGE_IDS_FILE, MIGRATIONS_FILE)


def write(folder: Path, groups: Json, *, moves: Json | None = None, ids: Json | None = None) -> None:
    """Write the files as the former version did."""
    for name, content in zip(NAMES, (groups, ids or {}, moves or {}), strict=True):
        (folder / name).write_bytes(orjson.dumps(content))


@pytest.mark.promise("P-telegram-no-loss")
async def test_what_was_gathered_is_handed_over_and_what_was_handed_over_is_known(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with FakeTelegram() as telegram:
        world = telegram.world
        messages = [update["message"] for update in await world.album(*PICTURES, text="look")]
        said = (await world.say("x" * LONG_TEXT))["message"]
        world.updates.clear()  # the former version had acknowledged them
        album, text = f"telegram:album:5:{messages[0]['media_group_id']}", f"telegram:text:5:{said['message_id']}"
        write(tmp_path, {"open": {album: messages}, "ended": {text: [said["message_id"]], "odd": [1]}})
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as stage:
            clock.advance(QUIET_SECONDS)
            (inbound,) = await stage.gateway.wait_accepted(1)
            assert (inbound.id, inbound.text, len(inbound.attachments)) == (album, "look", 3)
            await world.update("message", said)  # Telegram repeats it
            await world.say("and?")
            await passing(clock, lambda: len(stage.gateway.accepted) == 2)
            assert stage.gateway.accepted[1].text == "and?"
    assert not any((tmp_path / name).exists() for name in NAMES)


async def test_groups_that_moved_and_previews_are_known(tmp_path: Path) -> None:
    write(tmp_path, {}, moves={"-5": -1005, "-1005": -1006}, ids={"t1": 77, "t2": -5})
    async with FakeTelegram() as telegram, open_stage(telegram=telegram, state_dir=tmp_path) as stage:
        await telegram.world.say("@claw_bot hello", chat=-1006)
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert inbound.session == "telegram:-5"
    assert await previews_in(tmp_path) == {"t1": 77, "t2": -5}


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_kill_before_the_files_are_deleted_doubles_nothing(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with FakeTelegram() as telegram:
        messages = [update["message"] for update in await telegram.world.album(*PICTURES, text="look")]
        telegram.world.updates.clear()
        album = f"telegram:album:5:{messages[0]['media_group_id']}"
        parts = [message["message_id"] for message in messages]
        files = {"open": {album: messages}, "ended": {"telegram:album:6:a": [1, 2]}}
        write(tmp_path, files, ids={"t1": 77})
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as stage:
            clock.advance(QUIET_SECONDS)
            await stage.gateway.wait_accepted(1)
            await telegram.world.say("and?")
            await passing(clock, lambda: len(stage.gateway.accepted) == 2 and not telegram.world.updates)
        async with open_state(tmp_path) as state:
            await state.note_preview("telegram", "", "t1", 78)
        write(tmp_path, files, ids={"t1": 77})
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as after:
            clock.advance(QUIET_SECONDS)
            await telegram.world.say("still there?")
            await passing(clock, lambda: after.gateway.accepted)
            clock.advance(QUIET_SECONDS)
            assert [inbound.text for inbound in after.gateway.accepted] == ["still there?"]
    async with open_state(tmp_path) as state:
        known = {name: (is_handed_over, sorted(ids)) for name, _, is_handed_over, ids in await state.recent()}
        assert known == {album: (True, parts), "telegram:album:6:a": (True, [1, 2])}
    assert await previews_in(tmp_path) == {"t1": 78}


async def test_files_stay_while_the_store_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise DiskError("the disk is full", DiskFault.FULL)

    write(tmp_path, {}, moves={"-5": -1005})
    async with open_state(tmp_path) as state:
        with monkeypatch.context() as patch:
            patch.setattr(ChannelRows, "learn", refuse)
            await import_files(tmp_path, state)
        assert all((tmp_path / name).exists() for name in NAMES)
        await import_files(tmp_path, state)
        assert await state.facts("telegram moved from") == {"-1005": -5}


@pytest.mark.parametrize("content", [b"[1]", b'{"-1": "soon"', b'{"open": {"telegram:album:5:a": [{}]}}', b""])
async def test_files_that_make_no_sense_lead_nowhere(tmp_path: Path, content: bytes) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(content)
    async with open_state(tmp_path) as state:
        await import_files(tmp_path, state)
        assert await state.recent() == [] and await state.previews("telegram", None) == {}
