"""`multi_edit`: several replacements, all of them or none."""

import pytest

from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.edit import multi_edit
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]


def edit(old: str, new: str, **more: object) -> dict[str, object]:
    return {"old_string": old, "new_string": new, **more}


async def test_each_edit_sees_what_those_before_it_made(around: Surroundings) -> None:
    path = around.write("a.txt", "one\ntwo\n")

    answer = await around.call(multi_edit, {"path": "a.txt", "edits": [edit("one", "1"), edit("1\ntwo", "12")]})

    assert path.read_text() == "12\n"
    assert answer.splitlines()[0] == "made 2 edits in a.txt"


async def test_several_files_are_changed_together(around: Surroundings) -> None:
    first, second = around.write("a.txt", "one\n"), around.write("b/c.txt", "two\r\ntwo\r\n")
    edits = [edit("one", "1", path="a.txt"), edit("two", "2", file_path="b/c.txt", replace_all=True)]

    answer = await around.call(multi_edit, {"edits": edits})

    assert (first.read_bytes(), second.read_bytes()) == (b"1\n", b"2\r\n2\r\n")
    assert "b/c.txt (2 places)" in answer


async def test_two_names_of_a_file_are_one_file(around: Surroundings) -> None:
    path = around.write("a.txt", "one\n")
    edits = [edit("one", "1", path="a.txt"), edit("1", "2", path="./a.txt"), edit("2", "3", path="@a.txt")]

    await around.call(multi_edit, {"edits": edits})

    assert path.read_text() == "3\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"edits": []}, 'field "edits": expected at least 1 item'),
        ({"edits": "x"}, 'field "edits": expected array, got string'),
        ({}, 'field "edits": expected array, got nothing'),
        ({"edits": [edit("a", "b")] * 101}, 'field "edits": expected at most 100 items'),
        ({"edits": [{"old_string": "a"}]}, 'field "edits.0.new_string": expected string, got nothing'),
        ({"edits": [edit("a", "b", why="x")]}, 'field "edits.0.why": unknown field'),
        ({"edits": [edit("a", "b")]}, 'field "edits.0.path": expected string, got nothing'),
        ({"edits": [edit("a", "\ud83d", path="a.txt")]}, 'edit 1 of 1: field "new_string": expected Unicode text'),
        ({"path": "a.txt", "edits": [edit("one", "1"), edit("", "b")]}, "edit 2 of 2: old_string cannot be empty ("),
        (
            {"path": "a.txt", "edits": [edit("one", "1"), edit("nine", "b")]},
            "edit 2 of 2: old_string not found in a.txt",
        ),
        (
            {"edits": [edit("one", "1", path="a.txt"), edit("a", "b", path="b.txt")]},
            "edit 2 of 2: file not found: b.txt",
        ),
        ({"edits": [edit("one", "1", path="a.txt"), edit("a", "b", path="../b")]}, "path traversal detected: ../b"),
    ],
)
async def test_what_cannot_be_done_is_named_and_nothing_is_changed(
    given: dict[str, object], words: str, around: Surroundings
) -> None:
    path = around.write("a.txt", "one\n")

    with pytest.raises((ToolError, InvalidInput)) as caught:
        await around.call(multi_edit, given)

    assert words in str(caught.value)
    assert path.read_text() == "one\n"


async def test_files_that_were_written_are_put_back_when_a_later_one_cannot_be(around: Surroundings) -> None:
    first, second = around.write("a.txt", "one\n"), around.write("b.txt", "two\n")
    real = around.the_workspace.write_bytes

    async def changed_meanwhile(path: str, data: bytes, **more: object) -> object:
        if path == "b.txt":
            around.write("b.txt", "somebody else's\n")
        return await real(path, data, **more)  # type: ignore[arg-type]  # passed through

    around.the_workspace.write_bytes = changed_meanwhile  # type: ignore[method-assign,assignment]  # the moment between
    with pytest.raises(ToolError, match=r"^nothing was changed: edit 2 of 2: old_string not found in b\.txt"):
        await around.call(multi_edit, {"edits": [edit("one", "1", path="a.txt"), edit("two", "2", path="b.txt")]})

    assert (first.read_text(), second.read_text()) == ("one\n", "somebody else's\n")
