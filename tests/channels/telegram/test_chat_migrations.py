"""The memory of groups that became supergroups: of one process and its next start, and of several."""

from pathlib import Path

import pytest

from goclaw.channels.telegram.chat_migrations import moves_of
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.errors import DiskError, DiskFault
from tests.channels.telegram.processes import process


async def test_the_next_process_knows_where_a_group_went_and_what_it_was(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with process(store, tmp_path) as one:
        await one.moved.remember(-5, -1005)
    async with process(store, tmp_path) as after:
        moved = after.moved
        assert (moved.current(-5), moved.current(-1005), moved.current(-6)) == (-1005, -1005, -6)
        assert (moved.origin(-1005), moved.origin(-5), moved.origin(-6)) == (-5, -5, -6)


async def test_a_group_may_move_again_and_hears_of_it_twice(store: PostgresPlace | None, tmp_path: Path) -> None:
    async with process(store, tmp_path) as one:
        for old, new in [(-1, -2), (-2, -3), (-1, -2), (-3, -1), (-2, -2)]:
            await one.moved.remember(old, new)
        assert (one.moved.current(-1), one.moved.origin(-3)) == (-3, -1)


async def test_a_migration_that_cannot_be_kept_is_heard_of_again(
    store: PostgresPlace | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: ChannelRows, facts: object) -> None:
        raise DiskError("away", DiskFault.UNREACHABLE)

    async with process(store, tmp_path) as one:
        with monkeypatch.context() as patch:
            patch.setattr(ChannelRows, "learn", refuse)
            with pytest.raises(DiskError):
                await one.moved.remember(-5, -1005)
        assert one.moved.current(-5) == -5
        await one.moved.remember(-5, -1005)
    async with process(store, tmp_path) as after:
        assert after.moved.origin(-1005) == -5


@pytest.mark.parametrize(
    ("found", "moves"),
    [
        ({"-2": "soon", "then": -1, "-3": None}, {}),
        ({"-2": -1, "-1": -2}, {-2: -1}),
        ({"-1": -1}, {}),
        ({"-2": -1, "-3": -1}, {-2: -1}),
        ({"-2": -1, "-3": -2}, {-2: -1, -3: -2}),
    ],
)
def test_moves_that_make_no_sense_lead_nowhere(found: dict[str, object], moves: dict[int, int]) -> None:
    assert moves_of(found) == moves


async def test_a_migration_is_known_to_the_process_that_hears_of_the_new_chat_first(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await two.moved.refresh(-5)
        await one.moved.remember(-5, -1005)
        await one.moved.remember(-1005, -1006)
        await two.moved.refresh(-1006)
        assert (two.moved.origin(-1006), two.moved.current(-5)) == (-5, -1006)


async def test_a_chat_that_was_heard_of_before_its_migration_is_known_after_it(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await two.moved.refresh(-1005, is_message=False)
        await one.moved.remember(-5, -1005)
        await two.moved.refresh(-1005)
        assert two.moved.origin(-1005) == -5


async def test_a_process_that_is_alone_asks_for_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(self: ChannelRows, name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(ChannelRows, "fact", asked)
    async with process(None, tmp_path) as one:
        await one.moved.refresh(-1005)
