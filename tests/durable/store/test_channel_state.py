"""What channels keep: groups of messages that end once, and what is deleted in time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.durable.store.channel_state import KEPT_SECONDS, MAX_PREVIEWS, PREVIEW_SECONDS, ChannelRows
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from tests.parts import sql


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "a.db") as opened:
        yield opened


@pytest.fixture
def state(database: Database) -> ChannelRows:
    return ChannelRows(database)


async def gather(state: ChannelRows, *parts: int, name: str = "a") -> list[str]:
    """Have parts come at the same time; what became of each."""
    done = await asyncio.gather(*(state.gather(name, 5, 6, part, b'{"part": %d}' % part) for part in parts))
    return [outcome for outcome, _ in done]


async def test_the_members_of_a_group_are_decided_once(state: ChannelRows) -> None:
    assert await gather(state, 2, 1, 2) == ["gathered"] * 3
    assert 0 < await state.end_group("a", 60.0, 3) <= 60.0
    assert await state.messages("a") == [], "it has not ended"
    assert await state.end_group("a", 60.0, 2) == 0.0
    assert await gather(state, 1, 3) == ["gathered", "apart"]
    assert await state.end_group("a", 60.0, 9) == await state.end_group("b", 60.0, 9) == 0.0
    assert await state.messages("a") == [{"part": 1}, {"part": 2}]
    await state.hand_over("a", keep=True)
    assert await gather(state, 1, 3) == ["known", "apart"]
    assert await state.messages("a") == [], "the inbox has it"
    assert await state.messages("a", handed_over=True) == [{"part": 1}, {"part": 2}]


async def test_a_part_that_comes_while_its_group_ends_is_a_member_or_apart(state: ChannelRows) -> None:
    await gather(state, 1)
    outcome, _ = await asyncio.gather(gather(state, 2), state.end_group("a", 0.0, 0))
    kept = [message["part"] for message in await state.messages("a")]
    assert kept == ([1, 2] if outcome == ["gathered"] else [1])


async def test_groups_are_found_by_their_chat_and_their_messages(state: ChannelRows) -> None:
    await gather(state, 1, 2, name="old")
    await state.end_group("old", 0.0, 0)
    await state.hand_over("old", keep=False)
    await gather(state, 3, name="new")
    assert [(each["name"], bool(each["has_part"])) for each in await state.around(5, 4)] == [("new", False)]
    around = {each["name"]: each for each in await state.around(5, 2)}
    assert (bool(around["old"]["has_part"]), around["old"]["first"]) == (True, None)
    assert (around["new"]["sender"], around["new"]["first"]) == (6, '{"part": 3}')
    assert await state.around(7, 2) == []
    assert await state.list_idle(0.0) in ([("new", 5)], []) and await state.list_idle(60.0) == []


async def test_what_is_too_old_is_deleted_and_what_was_not_handed_over_stays(
    state: ChannelRows, database: Database
) -> None:
    for name in ("open", "old", "young"):
        await gather(state, 1, name=name)
        if name != "open":
            await state.end_group(name, 0.0, 0)
            await state.hand_over(name, keep=True)
    for key in ("old", "young"):
        await state.note_preview("telegram", "s", key, 1)
    moment = "changed_at - {0}" if database.is_default else "changed_at - make_interval(secs => {0})"
    for table, column, name, seconds in (
        ("media_groups", "changed_at", "name", KEPT_SECONDS),
        ("previews", "noted_at", "key", PREVIEW_SECONDS),
    ):
        then = moment.replace("changed_at", column).format(seconds + 1)
        await database.write(sql(f"UPDATE {table} SET {column} = {then} WHERE {name} IN ('old', 'open')"))  # noqa: S608  # ours
    await state.prune()
    assert {name for name, *_ in await state.recent()} == {"open", "young"}
    assert [row[0] for row in await database.read(sql("SELECT name FROM media_parts ORDER BY name"))] == [
        "open",
        "young",
    ]
    assert await state.previews("telegram", "s") == {"young": 1}


async def test_previews_are_read_by_session_and_the_latest_of_all(state: ChannelRows) -> None:
    await state.note_preview("telegram", "a", "t1", 1)
    await state.note_preview("telegram", "b", "t2", 2)
    await state.note_preview("telegram", "a", "t1:interim", 1, instead_of="t1")
    assert await state.previews("telegram", "a") == {"t1:interim": 1}
    assert await state.previews("telegram", None) == {"t1:interim": 1, "t2": 2}
    await state.add_previews("telegram", {f"k{number}": 9 for number in range(MAX_PREVIEWS)} | {"t2": 9})
    assert (await state.previews("telegram", "b"), len(await state.previews("telegram", None))) == (
        {"t2": 2},
        MAX_PREVIEWS,
    )
