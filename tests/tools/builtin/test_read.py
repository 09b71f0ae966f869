"""`read`: numbered lines, parts that tell how to go on, and words for what is no text."""

import nbformat
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin import lines
from goclaw.tools.builtin.edit import edit
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.write import write
from goclaw.tools.toolkit.arguments import validate
from tests.picture_support import png
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import ANNA, Surroundings

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
    around.write("odd.txt", b"Caf\xe9 \x81\n")
    around.write("bom.txt", "\ufeffx")
    with around.write("hole", "").open("wb") as file:
        file.truncate(2 << 20)
    around.write("huge.ipynb", "x" * (2 << 20))
    around.write("wide.txt", ("x" * (1 << 20)).encode("utf-16"))

    assert await around.call(read, {"path": "empty"}) == "empty is empty"
    assert await around.call(read, {"path": "odd.txt"}) == "     1\tCaf\ufffd \ufffd"
    assert await around.call(read, {"path": "bom.txt"}) == "     1\tx"
    for path, words in (
        ("picture.png", r"^not a text file: picture\.png is binary \(image/png\)$"),
        ("hole", r"^not a text file: hole is binary \(unknown type\)$"),
        (
            "huge.ipynb",
            r"^file too large: huge\.ipynb has 2,097,152 bytes, read takes at most 1,048,576 of a notebook;",
        ),
        ("wide.txt", r"^file too large: wide\.txt has 2,097,154 bytes, .* of a text in UTF-16; .*exec$"),
        ("missing", r"^file not found: missing$"),
        ("../x", r"^path traversal detected: \.\./x$"),
        (".", r"^is a directory: \. \(in it: bom\.txt, empty, .*picture\.png, wide\.txt\)$"),
    ):
        with pytest.raises(ToolError, match=words):
            await around.call(read, {"path": path})


async def test_a_missing_file_is_refused_with_what_is_in_the_last_folder_of_its_path(around: Surroundings) -> None:
    for name in ("src/main.py", "src/dates.py", "other.txt"):
        around.write(name, "x\n")
    for path in ("src/functions/parse.go", "src/nothing-like-it.txt"):
        with pytest.raises(ToolError, match=rf"^file not found: {path} \(in src: dates\.py, main\.py\)$"):
            await around.call(read, {"path": path})


async def test_latin_1_is_read_and_named(around: Surroundings) -> None:
    around.write("old.txt", "plain\nK\xe4se \x80 5\n".encode("latin-1"))
    around.write("damaged.txt", "Käse".encode() + b" \xe4\n")
    around.write("cut.txt", "ä" * 40_000)

    assert await around.call(read, {"path": "old.txt"}) == (
        "[old.txt is Latin-1 (Windows-1252), not UTF-8]\n     1\tplain\n     2\tKäse € 5"
    )
    assert await around.call(read, {"path": "old.txt", "limit": 1}) == (
        "     1\tplain\n[lines 1-1 of 2; to go on, read with offset=1]"
    )
    assert await around.call(read, {"path": "damaged.txt"}) == "     1\tKäse \ufffd"
    assert "Latin" not in await around.call(read, {"path": "cut.txt", "max_bytes": 1001})


async def test_more_bytes_than_are_ever_shown_name_the_most(around: Surroundings) -> None:
    limits(around, max_bytes=1000)
    around.write("notes.txt", "one\n")

    named = "[max_bytes is at most 1000]\n     1\tone"
    assert await around.call(read, {"path": "notes.txt", "max_bytes": 1001}) == named
    assert await around.call(read, {"path": "notes.txt", "max_bytes": 1000}) == "     1\tone"
    assert await around.call(read, {"path": "note.txt", "max_bytes": 1001}) == (
        "[note.txt does not exist; this is notes.txt, the nearest name]\n" + named
    )


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
        ({"path": "a", "limit": "five"}, 'field "limit": expected integer, got string'),
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"start_line": 2, "end_line": 3}, "     2\tb\n     3\tc\n[lines 2-3 of 4; to go on, read with offset=3]"),
        ({"start_line": 4}, "     4\td"),
        ({"end_line": 1}, "     1\ta\n[lines 1-1 of 4; to go on, read with offset=1]"),
        ({"max_lines": 1}, "     1\ta\n[lines 1-1 of 4; to go on, read with offset=1]"),
        ({"start_line": 1, "end_line": 4, "max_lines": 1}, "     1\ta\n[lines 1-1 of 4; to go on, read with offset=1]"),
        ({"max_bytes": 2}, "     1\ta\n     2\tb\n[lines 1-2 of 4; to go on, read with offset=2]"),
    ],
)
async def test_a_part_is_read_by_its_first_and_last_line(
    given: dict[str, int], expected: str, around: Surroundings
) -> None:
    around.write("a.txt", "a\nb\nc\nd\n")

    assert await around.call(read, {"path": "a.txt", **given}) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"offset": 0, "start_line": 1}, "give offset and limit"),
        ({"limit": 1, "end_line": 1}, "give offset and limit"),
        ({"start_line": 3, "end_line": 2}, 'field "end_line": expected at least start_line, 3, got 2'),
        ({"start_line": 0}, 'field "start_line": expected at least 1, got 0'),
        ({"file_path": "a.txt"}, 'field "file_path": unknown field'),
    ],
)
async def test_two_ways_to_say_one_thing_are_an_error(
    given: dict[str, object], words: str, around: Surroundings
) -> None:
    around.write("a.txt", "a\n")

    with pytest.raises(InvalidInput) as caught:
        await around.call(read, {"path": "a.txt", **given})
    assert str(caught.value).startswith(words)


async def test_the_other_name_of_the_path_is_understood_and_shown_nowhere(around: Surroundings) -> None:
    around.write("a.txt", "a\n")

    assert await around.call(read, {"file_path": "a.txt"}) == "     1\ta"
    for tool in (read, write, edit):
        assert "file_path" not in str(tool.spec.schema) and tool.spec.schema["required"][0] == "path"


async def test_a_misspelt_name_is_read_from_the_nearest_file_and_said_so(around: Surroundings) -> None:
    around.write("src/config.py", "x = 1\n")
    around.write("src/other.py", "y = 1\n")

    answer = await around.call(read, {"path": "src/confg.py"})

    assert answer == "[src/confg.py does not exist; this is src/config.py, the nearest name]\n     1\tx = 1"


async def test_of_two_names_that_are_near_none_is_read(around: Surroundings) -> None:
    around.write("a/test_one.py", "x\n")
    around.write("b/test_one.py", "y\n")

    with pytest.raises(ToolError, match=r"^file not found: c/test_one\.py \(did you mean [ab]/test_one\.py\?\)$"):
        await around.call(read, {"path": "c/test_one.py"})


async def test_the_notes_of_others_are_nobodys_nearest_file(around: Surroundings) -> None:
    around.write(f"memory/users/{BEN.key}/secret-plan.md", "x\n")
    around.the_workspace = around.the_workspace.seen_by(ANNA.key)

    with pytest.raises(ToolError, match=r"^file not found: secret-plam\.md$"):
        await around.call(read, {"path": "secret-plam.md"})


async def test_a_picture_goes_with_the_result(around: Surroundings) -> None:
    around.write("a.png", png())

    result = await read.call(around.context(), validate(read.arguments, {"path": "a.png"}))

    assert result.text() == f"a.png is a picture (image/png, {len(png())} bytes)"
    (picture,) = result.pictures()
    assert (picture.mime, await around.blobs.get(picture.blob)) == ("image/png", png())


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\nrest", png()[:-20], png(9_000, 1), b"GIF89a" + b"\0" * 90])
async def test_what_only_begins_like_a_picture_is_not_shown(data: bytes, around: Surroundings) -> None:
    around.write("a.png", data)

    with pytest.raises(ToolError, match=r"^a\.png begins like a picture \(image/(png|gif)\) and cannot be shown: it "):
        await around.call(read, {"path": "a.png"})


async def test_a_picture_that_no_model_takes_is_refused(around: Surroundings) -> None:
    with around.write("a.png", b"\x89PNG\r\n\x1a\n").open("r+b") as file:
        file.truncate((5 << 20) + 1)

    with pytest.raises(ToolError, match=r"^picture too large: a\.png has 5,242,881 bytes, at most 5,242,880$"):
        await around.call(read, {"path": "a.png"})


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_utf_16_with_its_mark_is_text(encoding: str, around: Surroundings) -> None:
    around.write("a.txt", "\ufeffKäse\r\nzwei".encode(encoding))

    assert await around.call(read, {"path": "a.txt"}) == "     1\tKäse\n     2\tzwei"


async def test_a_notebook_is_read_by_its_cells(around: Surroundings) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1\nx", id="first")])
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text="y" * 3000)]
    around.write("a.ipynb", nbformat.writes(notebook))
    around.write("b.ipynb", "no notebook\n")

    lines = (await around.call(read, {"path": "a.ipynb"})).splitlines()

    assert lines[:3] == ["     1\t[cell 0, code, id first]", "     2\tx = 1", "     3\tx"]
    assert lines[-1] == "     6\t[output cut: 1,000 more characters]"
    broken = await around.call(read, {"path": "b.ipynb"})
    assert broken == "[b.ipynb: not a notebook (NotJSONError); this is its text]\n     1\tno notebook"


async def test_a_text_is_read_in_parts_whatever_its_size(around: Surroundings) -> None:
    limits(around, max_file_mb=1)
    around.write("big.txt", "".join(f"line {number}\n" for number in range(400_000)) + "last")

    assert (await around.call(read, {"path": "big.txt", "limit": 1})).splitlines() == [
        "     1\tline 0",
        "[lines 1-1 of 400001; to go on, read with offset=1]",
    ]
    for offset in (1, 26_213, 26_214, 26_215, 200_000, 399_998):
        answer = await around.call(read, {"path": "big.txt", "offset": offset, "limit": 2})
        assert answer.splitlines()[:2] == [f"{offset + n + 1:6}\tline {offset + n}" for n in range(2)]
    assert await around.call(read, {"path": "big.txt", "offset": 400_000}) == "400001\tlast"
    assert await around.call(read, {"path": "big.txt", "offset": 400_001}) == (
        "big.txt has 400001 lines: there is nothing from offset 400001 on"
    )


async def test_of_a_very_long_file_the_lines_behind_are_counted_up_to_a_bound(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_COUNTED", 1 << 20)
    around.write("big.txt", b"x\n" * (3 << 20))

    answer = await around.call(read, {"path": "big.txt", "limit": 1})
    assert answer.splitlines()[1] == "[lines 1-1 of more than 524,289; to go on, read with offset=1]"
    end = (3 << 20) - 2
    assert (await around.call(read, {"path": "big.txt", "offset": end, "limit": 1})).splitlines()[1] == (
        f"[lines {end + 1}-{end + 1} of {end + 2}; to go on, read with offset={end + 1}]"
    )
    exact = await around.call(read, {"path": "big.txt", "offset": end + 2 - (1 << 19), "limit": 1 << 19})
    assert "more than" not in exact


async def test_a_line_that_is_too_far_away_is_refused_in_words(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_PATIENCE_SECONDS", -1.0)
    around.write("big.txt", b"x\n" * (1 << 20))
    with pytest.raises(
        ToolError, match=r"^big\.txt: line 1,000,001 was not reached in -1 s \(131,072 lines are before it"
    ):
        await around.call(read, {"path": "big.txt", "offset": 1_000_000})
