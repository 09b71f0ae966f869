"""`edit`: one replacement that has exactly one place, and a preview of it."""

import pytest

from goclaw.common.config.schema import Config
from goclaw.errors import ToolError
from goclaw.tools.builtin.edit import edit
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]


async def change(around: Surroundings, old: str, new: str) -> str:
    return await around.call(edit, {"path": "a.txt", "old_string": old, "new_string": new})


async def test_the_change_is_made_and_shown(around: Surroundings) -> None:
    path = around.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n")

    preview = await change(around, "three\nfour", "3\n3.5\n4")

    assert path.read_text() == "one\ntwo\n3\n3.5\n4\nfive\nsix\n"
    assert preview.splitlines() == [
        "edited a.txt",
        "     1\tone",
        "     2\ttwo",
        "-    3\tthree",
        "-    4\tfour",
        "+    3\t3",
        "+    4\t3.5",
        "+    5\t4",
        "     6\tfive",
        "     7\tsix",
    ]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"a\r\nb\nc\n", "b\nc", "x", b"a\r\nx\n"),
        (b"delete me", "delete me", "", b""),
        (b"no end", "end", "end\n", b"no end\n"),
        ("Käse".encode(), "ä", "ae", b"Kaese"),
    ],
)
async def test_line_ends_and_marks_are_kept(
    before: bytes, old: str, new: str, after: bytes, around: Surroundings
) -> None:
    path = around.write("a.txt", before)
    path.chmod(0o640)

    await change(around, old, new)

    assert path.read_bytes() == after
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("port = 8080", r"^old_string not found in a\.txt \(call again with line 2 as it is: port=8080\)$"),
        (" port =8080\n", r"^old_string not found in a\.txt \(call again with line 2 as it is: port=8080\)$"),
        ("port = 80", r"^old_string not found in a\.txt \(call again with line 2 as it is: port=8080\)$"),
        ("a = 1", r"^old_string not found in a\.txt$"),
        ("p", r"^old_string is not unique"),
    ],
)
async def test_a_text_that_differs_in_blanks_only_is_told_the_line_that_it_means(
    old: str, words: str, around: Surroundings
) -> None:
    around.write("a.txt", "[server]\nport=8080\na=1\na=1\nname=p\n")
    with pytest.raises(ToolError, match=words):
        await change(around, old, "port=9090")


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("", r"^old_string cannot be empty \(call exec now: `echo TEXT >> FILE` adds a line, .* `rm` deletes\)$"),
        ("nine", r"^old_string not found in a\.txt$"),
        ("  two  ", r"^old_string not found in a\.txt \(line 2 has it with other whitespace around\)$"),
        ("o", r"^old_string is not unique: 3 matches in a\.txt \(lines 1, 2, 4\)$"),
        ("aa", r"^old_string is not unique: 2 matches in a\.txt \(lines 5, 5\)$"),
        ("same", r"^old_string and new_string are the same"),
    ],
)
async def test_a_text_without_exactly_one_place_is_refused(old: str, words: str, around: Surroundings) -> None:
    path = around.write("a.txt", "one\ntwo\nthree\nfour\naaa\n")

    with pytest.raises(ToolError, match=words):
        await change(around, old, "same")

    assert path.read_text() == "one\ntwo\nthree\nfour\naaa\n"


async def test_what_is_no_text_is_not_edited(around: Surroundings) -> None:
    around.write("a.txt", b"a\0b")

    with pytest.raises(ToolError, match=r"^not a text file: a.txt is binary$"):
        await change(around, "a", "b")
    with pytest.raises(ToolError, match=r"^file not found: missing$"):
        await around.call(edit, {"path": "missing", "old_string": "a", "new_string": "b"})


async def test_a_large_change_is_shown_in_part(around: Surroundings) -> None:
    around.write("a.txt", "x\n" * 5 + "old")

    preview = await change(around, "old", "\n".join("y" * 1000 for _ in range(100)))

    assert len(preview) < 8000
    assert "(80 more lines)" in preview


async def test_the_mark_that_a_person_puts_before_a_path_is_understood(around: Surroundings) -> None:
    around.write("a.md", "one")

    await around.call(edit, {"path": "@a.md", "old_string": "one", "new_string": "two"})

    assert (around.the_workspace.root / "a.md").read_text() == "two"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\ufeffKäse\r\nzwei\r\n".encode("utf-16-le"), "\ufeffBrot\r\nzwei\r\n".encode("utf-16-le")),
        ("\ufeffKäse".encode("utf-16-be"), "\ufeffBrot".encode("utf-16-be")),
        (b"\xef\xbb\xbfK\xc3\xa4se", b"\xef\xbb\xbfBrot"),
    ],
)
async def test_the_encoding_is_kept(before: bytes, after: bytes, around: Surroundings) -> None:
    path = around.write("a.txt", before)

    await change(around, "Käse", "Brot")

    assert path.read_bytes() == after


async def test_what_is_not_utf_8_is_kept_byte_by_byte(around: Surroundings) -> None:
    path = around.write("a.txt", b"K\xe4se \x81 = 1\n")

    await change(around, "= 1", "= 2")
    with pytest.raises(ToolError, match=r"^a\.txt is not UTF-8: only ASCII can be put into it"):
        await change(around, "= 2", "= Brötchen")

    assert path.read_bytes() == b"K\xe4se \x81 = 2\n"


async def test_latin_1_is_edited_as_it_was_read_and_stays_latin_1(around: Surroundings) -> None:
    path = around.write("a.txt", "Käse = 1\n".encode("latin-1"))

    await change(around, "Käse = 1", "Brötchen = 2 €")
    with pytest.raises(ToolError, match=r"^a\.txt is Latin-1 \(Windows-1252\), which has no '世': leave it out, or"):
        await change(around, "Brötchen", "世界")

    assert path.read_bytes() == "Brötchen = 2 €\n".encode("cp1252")


async def test_a_match_that_is_not_exact_is_reported(around: Surroundings) -> None:
    path = around.write("a.txt", "if x:\n\tcall(one)  \n\tcall(two)\n")

    trailing = await change(around, "call(one)\n\tcall(two)", "call(three)\n\tcall(four)")
    fuzzy = await change(around, "  call(three)\n  call(four)\n", "  call(five)\n    deeper\n")

    assert trailing.startswith("edited a.txt (matched but for white space at the ends of lines)\n")
    assert fuzzy.startswith("edited a.txt (fuzzy match, 100 % alike, indented as the file is)\n")
    assert path.read_text() == "if x:\n\tcall(five)\n\t\tdeeper\n"


async def test_fuzz_can_be_forbidden(around: Surroundings) -> None:
    around.write("a.txt", "call(one)  \ncall(two)\n")
    settings = {"state_dir": around.config.state_dir, "tools": {"edit": {"allow_fuzz_on_edits": False}}}
    around.config = Config.model_validate(settings)

    with pytest.raises(ToolError, match=r"^old_string not found in a\.txt"):
        await change(around, "call(one)\ncall(two)", "x")


async def test_every_place_is_replaced_when_asked_for(around: Surroundings) -> None:
    path = around.write("a.txt", "cnt\n" * 5)

    given = {"path": "a.txt", "old_string": "cnt", "new_string": "count", "replace_all": True}
    answer = await around.call(edit, given)

    assert path.read_text() == "count\n" * 5
    assert answer.startswith("edited a.txt (5 places)\n") and answer.endswith("(2 more places)")


async def test_the_last_line_of_a_file_is_found_with_the_end_that_it_has_not(around: Surroundings) -> None:
    path = around.write("a.txt", b"one\r\ntwo")

    assert (await change(around, "two\n", "three\n")).splitlines() == [
        "edited a.txt",
        "     1\tone",
        "-    2\ttwo",
        "+    2\tthree",
    ]
    assert path.read_bytes() == b"one\r\nthree"


async def test_a_misspelt_name_is_offered_and_never_edited(around: Surroundings) -> None:
    path = around.write("config.py", "a\n")

    with pytest.raises(ToolError, match=r"^file not found: confg\.py \(did you mean config\.py\?\)$"):
        await around.call(edit, {"path": "confg.py", "old_string": "a", "new_string": "b"})
    assert path.read_text() == "a\n"


def changing(around: Surroundings, content: str) -> None:
    """Write the file once, as another process, in the moment between an edit's look and its write."""
    real = around.the_workspace.write_bytes
    left = [content]

    async def changed_meanwhile(path: str, data: bytes, **more: object) -> object:
        if left:
            around.write(path, left.pop())
        return await real(path, data, **more)  # type: ignore[arg-type]  # passed through

    around.the_workspace.write_bytes = changed_meanwhile  # type: ignore[method-assign,assignment]  # the moment between


@pytest.mark.promise("P-edits-kept")
async def test_an_edit_of_a_file_that_changes_meanwhile_is_made_in_what_it_became(around: Surroundings) -> None:
    path = around.write("a.txt", "one\ntwo\n")
    changing(around, "one\ntwo\nthree\n")
    await around.call(edit, {"path": "a.txt", "old_string": "one", "new_string": "1"})
    assert path.read_text() == "1\ntwo\nthree\n"


async def test_an_edit_that_somebody_approved_is_not_made_in_another_content(around: Surroundings) -> None:
    path = around.write("a.txt", "one\n")
    changing(around, "one more\n")
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"write": {"review": True}}})
    with pytest.raises(ToolError, match=r"^the file changed since it was read: a\.txt$"):
        await around.call(edit, {"path": "a.txt", "old_string": "one", "new_string": "1"})
    assert path.read_text() == "one more\n"
