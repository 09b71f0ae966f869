"""`todo_write` replaces the session's list."""

from pathlib import Path

import pytest

from goclaw.common.core.events import Todo
from goclaw.errors import GoclawError
from goclaw.tools.builtin.planning import MAX_TODOS, todo_write
from tests.tools.builtin.memory_support import surroundings


async def test_the_list_is_replaced_in_full(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        given = [{"content": "Look", "status": "completed"}, {"content": "Write"}]
        assert await around.call(todo_write, {"todos": given}) == "1 of 2 done"
        assert around.todos == [Todo("Look", "completed"), Todo("Write", "pending")]
        assert await around.call(todo_write, {"todos": []}) == "the list is empty"
        assert around.todos == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"todos": "Look"},
        {"todos": [{"status": "pending"}]},
        {"todos": [{"content": "Look", "status": "done"}]},
        {"todos": [{"content": "x"}] * (MAX_TODOS + 1)},
    ],
)
async def test_a_bad_list_changes_nothing(tmp_path: Path, given: dict[str, object]) -> None:
    async with surroundings(tmp_path) as around:
        around.todos = [Todo("kept")]
        with pytest.raises(GoclawError):
            await around.call(todo_write, given)
        assert around.todos == [Todo("kept")]
