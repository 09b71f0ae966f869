"""Remembered values: per person unless shared, whole or not at all, within their limits."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.core.events import Actor
from goclaw.errors import GoclawError, ToolError
from goclaw.memory.user_memory import MAX_VALUE, MAX_VALUES, MAX_VALUES_BYTES
from goclaw.tools.builtin.memory_files import memory_list
from goclaw.tools.builtin.memory_values import memory_delete, memory_read, memory_write
from tests.tools.builtin.memory_support import ANNA, Surroundings, surroundings

BERT = Actor(key="telegram:6", entry="telegram")


async def test_a_value_is_kept_replaced_and_deleted(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        assert await around.call(memory_write, {"key": "tea", "value": "Assam"}) == "kept 'tea'"
        assert await around.call(memory_write, {"key": "tea", "value": "Darjeeling"}) == "replaced 'tea'"
        assert await around.call(memory_read, {"key": "tea"}) == "Darjeeling"
        assert await around.call(memory_delete, {"key": "tea"}) == "deleted 'tea'"
        assert await around.call(memory_delete, {"key": "tea"}) == "nothing is kept under 'tea'"
        assert (
            await around.call(memory_read, {"key": "tea"}) == "nothing is kept under 'tea' (memory_list lists the keys)"
        )


async def test_one_persons_values_are_nobody_elses(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memory_write, {"key": "pin", "value": "Anna's"})
        assert "nothing" in await around.call(memory_read, {"key": "pin"}, actor=BERT)
        assert "pin" not in await around.call(memory_list, {}, actor=BERT)
        await around.call(memory_write, {"key": "pin", "value": "Bert's"}, actor=BERT)
        assert await around.call(memory_read, {"key": "pin"}) == "Anna's"


async def test_a_shared_value_is_everybodys(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memory_write, {"key": "wifi", "value": "guests", "shared": True})
        assert await around.call(memory_read, {"key": "wifi", "shared": True}, actor=BERT) == "guests"
        assert await around.call(memory_read, {"key": "wifi"}, actor=BERT) == (
            "nothing of the person's own is kept under 'wifi', a shared value is: read it with shared: true"
        )
        around.write("memory/values.json", "damaged")
        assert (await around.call(memory_read, {"key": "wifi"}, actor=BERT)).startswith("nothing is kept under 'wifi'")


async def test_a_misspelt_key_is_told_the_nearest(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memory_write, {"key": "favourite tea", "value": "Assam"})
        assert "did you mean 'favourite tea'?" in await around.call(memory_read, {"key": "favorite tea"})


async def test_the_list_names_keys_behind_the_files_and_tells_no_value(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("MEMORY.md", "note\n")
        await around.call(memory_write, {"key": "tea", "value": "Assam"})
        await around.call(memory_write, {"key": "wifi", "value": "guests", "shared": True})
        lines = (await around.call(memory_list, {})).splitlines()
    assert lines[0] == "1 memory file"
    assert lines[2:] == ["", "2 values (memory_read reads them)", "tea  5 characters", "wifi  6 characters  shared"]


async def test_values_are_written_side_by_side_without_losing_one(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        for number in range(3):
            await asyncio.gather(
                around.call(memory_write, {"key": f"a{number}", "value": "x"}),
                around.call(memory_write, {"key": f"b{number}", "value": "x"}),
            )
        kept = orjson.loads(values_file(around).read_bytes())
    assert set(kept) == {"a0", "a1", "a2", "b0", "b1", "b2"}


async def test_too_many_or_too_large_values_leave_what_is_there(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        path = values_file(around)
        path.parent.mkdir(parents=True)
        path.write_bytes(orjson.dumps({f"k{n}": "" for n in range(MAX_VALUES)}))
        with pytest.raises(ToolError, match="delete some"):
            await around.call(memory_write, {"key": "one more", "value": ""})
        await around.call(memory_write, {"key": "k1", "value": "still"})
        path.write_bytes(orjson.dumps({"much": "x" * (MAX_VALUES_BYTES - MAX_VALUE)}))
        before = path.read_bytes()
        with pytest.raises(ToolError, match="are the limit"):
            await around.call(memory_write, {"key": "more", "value": "x" * MAX_VALUE})
        assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', '"text"'])
async def test_a_damaged_file_is_named_and_not_overwritten(tmp_path: Path, content: str) -> None:
    async with surroundings(tmp_path) as around:
        path = values_file(around)
        path.parent.mkdir(parents=True)
        path.write_text(content)
        with pytest.raises(ToolError, match=r"memory/users/telegram:5/values\.json is damaged"):
            await around.call(memory_write, {"key": "a", "value": "b"})
        assert path.read_text() == content
        assert await around.call(memory_list, {})


async def test_a_link_to_somebody_elses_values_is_followed_by_nobody(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memory_write, {"key": "pin", "value": "Anna's"})
        folder = around.the_workspace.on_disk("memory/users/telegram:6")
        folder.mkdir()
        (folder / "values.json").symlink_to("../telegram:5/values.json")
        assert "nothing" in await around.call(memory_read, {"key": "pin"}, actor=BERT)
        with pytest.raises(ToolError, match="link"):
            await around.call(memory_write, {"key": "pin", "value": "mine"}, actor=BERT)
        (around.the_workspace.root / "memory/values.json").symlink_to("users/telegram:6/../telegram:5/values.json")
        assert "nothing" in await around.call(memory_read, {"key": "pin", "shared": True})
        assert await around.call(memory_read, {"key": "pin"}) == "Anna's"


async def test_memory_that_is_off_keeps_nothing(tmp_path: Path) -> None:
    async with surroundings(tmp_path, enabled=False) as around:
        with pytest.raises(ToolError, match=r"set memory\.enabled"):
            await around.call(memory_write, {"key": "a", "value": "b"})
        assert not values_file(around).exists()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"value": "b"},
        {"key": "a"},
        {"key": 1, "value": "b"},
        {"key": "a", "value": 1},
        {"key": "", "value": "b"},
        {"key": "x" * 101, "value": "b"},
        {"key": "a", "value": "x" * (MAX_VALUE + 1)},
        {"key": "two\nlines", "value": "b"},
        {"key": " a", "value": "b"},
        {"key": "\x00", "value": "b"},
        {"key": "\ud800", "value": "b"},
        {"key": "a", "value": "\ud800"},
        {"key": "a", "value": "b", "shared": "yes"},
        {"key": "a", "value": "b", "user": "telegram:6"},
    ],
)
async def test_bad_input_keeps_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(memory_write, given)
        assert not values_file(around).exists()


@pytest.mark.parametrize("given", [{}, {"key": None}, {"key": ""}, {"key": "x" * 101}, {"key": "../../etc/passwd\n"}])
async def test_bad_keys_are_refused_by_those_that_read_and_delete(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        for each in (memory_read, memory_delete):
            with pytest.raises(GoclawError):
                await around.call(each, given)


@pytest.mark.parametrize("key", ["..", "a/b", "."])
async def test_somebody_whose_key_is_no_folders_name_keeps_nothing_of_their_own(tmp_path: Path, key: str) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(ToolError, match="use shared"):
            await around.call(memory_write, {"key": "a", "value": "b"}, actor=Actor(key, "cli"))


def values_file(around: Surroundings) -> Path:
    return around.the_workspace.on_disk(f"memory/users/{ANNA.key}/values.json")
