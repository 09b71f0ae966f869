"""The memory of messages that grow in groups: of one process and its next start, and of several."""

from pathlib import Path

import pytest

from goclaw.channels.telegram.live_message_ids import MAX_TURNS
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.errors import DiskError, DiskFault, OwnershipLost
from tests.channels.telegram.processes import process


@pytest.mark.promise("P-telegram-live")
async def test_the_next_process_knows_which_message_grew_for_which_turn(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with process(store, tmp_path) as one:
        await one.take("t1")
        await one.remember("t1", 77)
    async with process(store, tmp_path) as after:
        await after.take("t1")
        assert (after.ids.message_of("t1"), after.ids.message_of("t2")) == (77, None)
        # An interim text takes the message over; the turn goes on in another one.
        assert await after.ids.hand_over("t1", "t1:interim") == 77
    async with process(store, tmp_path) as third:
        await third.take("t1")
        assert (third.ids.message_of("t1"), await third.ids.hand_over("t1", "t1:interim")) == (None, 77)


async def test_a_message_that_was_about_to_be_sent_may_stand_there(store: PostgresPlace | None, tmp_path: Path) -> None:
    async with process(store, tmp_path) as one:
        await one.take("t1")
        await one.intend("t1")
    async with process(store, tmp_path) as after:
        await after.take("t1")
        assert after.ids.is_lost("t1") and after.ids.message_of("t1") is None
        assert not after.ids.is_lost("t2")
        await after.intend("t1", "said")
        await after.intend("t1")
        assert after.ids.is_lost("t1") and after.ids.message_of("t1") is None
        assert after.ids.may_match("t1", "said") and not after.ids.may_match("t1", "more")
        await after.remember("t1", 7)
        assert not after.ids.is_lost("t1")


async def test_a_store_that_takes_nothing_costs_nothing_now(
    store: PostgresPlace | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise DiskError("away", DiskFault.UNREACHABLE)

    async with process(store, tmp_path) as one:
        await one.take("t1")
        with monkeypatch.context() as patch:
            patch.setattr(ChannelRows, "note_preview", refuse)
            await one.remember("t1", 1)
            assert one.ids.message_of("t1") == 1 and not await one.ids.store("t1")
        assert await one.ids.store("t1")
    async with process(store, tmp_path) as after:
        await after.take("t1")
        assert after.ids.message_of("t1") == 1


async def test_only_the_latest_turns_are_remembered(tmp_path: Path) -> None:
    async with process(None, tmp_path) as one:
        for number in range(MAX_TURNS + 1):
            await one.remember(f"t{number}", number + 1)
        assert one.ids.message_of("t0") is None
        assert one.ids.message_of(f"t{MAX_TURNS}") == MAX_TURNS + 1
    async with process(None, tmp_path) as after:
        assert after.ids.message_of(f"t{MAX_TURNS}") == MAX_TURNS + 1


async def test_a_process_knows_nothing_of_the_previews_of_another_one_before_it_takes_their_session(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1", "t2")
        await one.intend("t1", "half of it")
        await two.take("t1")
        assert two.ids.is_lost("t1") and two.ids.may_match("t1", "half of it")
        await one.take("t1")
        await one.remember("t1", 77)
        await one.remember("t2", 78)
        assert two.ids.message_of("t1") is None, "it is another's yet"
        await two.take("t1")
        assert (two.ids.message_of("t1"), two.ids.message_of("t2")) == (77, None)


async def test_a_preview_that_another_process_handed_over_meanwhile_grows_no_further(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1")
        await one.remember("t1", 77)
        await two.take("t1")
        assert await two.ids.hand_over("t1", "t1:interim") == 77
        await one.take("t1")
        assert one.ids.message_of("t1") is None, "the next text would be edited into the interim one"
        assert one.ids.message_of("t1:interim") == 77


@pytest.mark.promise("P-repeat-marked")
async def test_a_process_that_was_paused_does_not_replace_what_the_next_owner_knows_of_a_preview(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1")
        await two.take("t1")
        assert await two.intend("t1", "half of it")
        await two.remember("t1", 78)
        # It goes on where it was paused: in the middle of the same turn.
        assert not await one.intend("t1", "what it was about to say")
        await one.remember("t1", 77)
        assert not await one.ids.store("t1")
        with pytest.raises(OwnershipLost):
            await one.ids.hand_over("t1", "t1:interim")
    async with process(place, tmp_path / "three") as three:
        await three.take("t1")
        assert three.ids.message_of("t1") == 78
