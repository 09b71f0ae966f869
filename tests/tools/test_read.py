"""`read`: numbered lines, parts that tell how to go on, and words for what is no text."""

import pytest

from goclaw.config.schema import Config
from goclaw.errors import InvalidInput, ToolError
from goclaw.events import Actor
from goclaw.tools.read import read
from tests.tools.file_support import around
from tests.tools.memory_support import ANNA, Surroundings

__all__ = ["around"]

BEN = Actor(key="telegram:6", entry="telegram")


def limits(around: Surroundings, **settings: int) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"read": settings}})


async def test_lines_carry_their_numbers(around: Surroundings) -> None:
    around.write("a.txt", "one\ntwo\r\n\nlast")

    assert await around.call(read, {"path": "a.txt"}) == "     1\tone\n     2\ttwo\n     3\t\n     4\tlast"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"offset": 1}, "     2\tb\n     3\tc\n     4\td"),
        ({"limit": 2}, "     1\ta\n     2\tb\n[lines 1-2 of 4; to go on, read with offset=2]"),
        ({"offset": 2, "limit": 1}, "     3\tc\n[lines 3-3 of 4; to go on, read with offset=3]"),
        ({"offset": 3, "limit": 9}, "     4\td"),
        ({"offset": 4}, "a.txt has 4 lines: there is nothing from offset 4 on"),
        ({"limit": None}, "     1\ta\n     2\tb\n     3\tc\n     4\td"),
    ],
)
async def test_a_part_is_read_by_offset_and_limit(given: dict[str, int], expected: str, around: Surroundings) -> None:
    around.write("a.txt", "a\nb\nc\nd\n")

    assert await around.call(read, {"path": "a.txt", **given}) == expected


async def test_the_parts_of_a_long_file_make_the_whole(around: Surroundings) -> None:
    limits(around, max_lines=7, max_bytes=1000)
    lines = [f"line {number} " + "x" * (number % 300) for number in range(100)]
    around.write("a.txt", "\n".join(lines) + "\n")
    seen: list[str] = []

    while len(seen) < 100:
        answer = await around.call(read, {"path": "a.txt", "offset": len(seen)})
        part = [line.split("\t", 1)[1] for line in answer.splitlines() if "\t" in line]
        assert 0 < len(part) <= 7
        seen += part

    assert seen == lines


async def test_what_is_no_text_is_told_in_words(around: Surroundings) -> None:
    limits(around, max_file_mb=1)
    around.write("empty", "")
    around.write("picture.png", b"\x89PNG\0\0")
    around.write("latin.txt", "Caf\xe9\n".encode("latin-1"))
    around.write("bom.txt", "\ufeffx")
    with around.write("huge", "").open("wb") as file:
        file.truncate(2 << 20)

    assert await around.call(read, {"path": "empty"}) == "empty is empty"
    assert await around.call(read, {"path": "latin.txt"}) == "     1\tCaf\ufffd"
    assert await around.call(read, {"path": "bom.txt"}) == "     1\tx"
    for path, words in (
        ("picture.png", r"^not a text file: picture\.png is binary \(image/png\)$"),
        ("huge", r"^file too large: huge has 2,097,152 bytes, .*exec$"),
        ("missing", r"^file not found: missing$"),
        ("../x", r"^path traversal detected: \.\./x$"),
        (".", r"^is a directory: \.$"),
    ):
        with pytest.raises(ToolError, match=words):
            await around.call(read, {"path": path})


async def test_an_endless_line_is_cut(around: Surroundings) -> None:
    around.write("min.js", "x" * 3_000_000 + "\nnext\n")

    answer = await around.call(read, {"path": "min.js", "offset": 1})

    assert answer == "     2\tnext"
    assert len(await around.call(read, {"path": "min.js"})) < 51_000


async def test_a_kept_output_is_for_its_owner(around: Surroundings) -> None:
    async with around.blobs.open_spill(ANNA.key) as spill:
        await spill.write(b"first\nsecond\n")

    assert await around.call(read, {"path": spill.name}) == "     1\tfirst\n     2\tsecond"
    with pytest.raises(ToolError, match=r"^no such output"):
        await around.call(read, {"path": spill.name}, actor=BEN)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'field "path": expected string, got nothing'),
        ({"path": 5}, 'field "path": expected string, got number'),
        ({"path": "a", "offset": -1}, 'field "offset": expected at least 0, got -1'),
        ({"path": "a", "limit": "5"}, 'field "limit": expected integer, got string'),
    ],
)
async def test_wrong_arguments_are_named_in_one_line(
    given: dict[str, object], words: str, around: Surroundings
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await around.call(read, given)
    assert str(caught.value) == words


async def test_the_mark_that_a_person_puts_before_a_path_is_understood(around: Surroundings) -> None:
    around.write("my notes.md", "hello")

    assert await around.call(read, {"path": '@"my notes.md"'}) == "     1\thello"
    with pytest.raises(ToolError, match="file not found: @nothing"):
        await around.call(read, {"path": "@nothing"})
