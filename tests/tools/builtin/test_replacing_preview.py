"""`preview`: each line that changed as it was and as it is, once, and around it only what did not change."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.workspace import FileStamp
from goclaw.errors import ToolError
from goclaw.tools.builtin.replacing import Replacement, replace_text
from goclaw.tools.builtin.text import Text
from tests.tables import table

TEXT = Text("", b"", FileStamp((0, 0), 0, 0))


def made(body: str, old: str, new: str) -> tuple[str, list[str]]:
    """What becomes of a text, and the lines that are shown of it."""
    done = replace_text("a.txt", TEXT, body, Replacement(old, new, every=True), fuzzy=False)
    return done.body, done.preview.split("\n")


@table(
    "body, old, new, lines",
    [
        (
            "a cnt cnt\nb\nc cnt\n",
            "cnt",
            "n",
            ["-    1\ta cnt cnt", "+    1\ta n n", "     2\tb", "-    3\tc cnt", "+    3\tc n"],
        ),
        ("x\nx\nx\n", "x", "y", ["-    1\tx", "-    2\tx", "-    3\tx", "+    1\ty", "+    2\ty", "+    3\ty"]),
        ("x\nx\nx\nx\nb\n", "x", "y", ["-    1\tx", "-    2\tx", "-    3\tx", "+    1\ty", "+    2\ty", "+    3\ty",
                                        "     …\t(1 more places)"]),
        ("a\nb\n", "b\n", "c\n", ["     1\ta", "-    2\tb", "+    2\tc"]),
        ("a\nb\nc\n", "b\n", "", ["     1\ta", "-    2\tb", "     2\tc"]),
        ("a\n", "a\n", "", ["-    1\ta"]),
        ("a\nb\nc\n", "b\n", "x", ["     1\ta", "-    2\tb", "-    3\tc", "+    2\txc"]),
        ("a\n\nb\n", "a\n", "a\n\n", ["-    1\ta", "+    1\ta", "+    2\t", "     3\t", "     4\tb"]),
        ("no end", "end", "end\n", ["-    1\tno end", "+    1\tno end"]),
        ("x 1\n2\n3\n4\n5\n6\nx 7\n", "x", "y\nz", [
            "-    1\tx 1", "+    1\ty", "+    2\tz 1", "     3\t2", "     4\t3",
            "     6\t5", "     7\t6", "-    7\tx 7", "+    8\ty", "+    9\tz 7",
        ]),
    ],
)  # fmt: skip
def test_old_and_new_lines_are_never_mixed(body: str, old: str, new: str, lines: list[str]) -> None:
    assert made(body, old, new)[1] == lines


@given(st.text("ab\n", max_size=40), st.text("ab\n", min_size=1, max_size=3), st.text("abc\n", max_size=4))
def test_every_line_shown_stands_where_its_number_says(body: str, old: str, new: str) -> None:
    if old not in body or old == new:
        return
    after, lines = made(body, old, new)

    texts = {"-": body.split("\n"), "+": after.split("\n"), " ": after.split("\n")}
    numbered = [(line[0], int(line[1:6]), line.split("\t")[1]) for line in lines if "…" not in line]
    assert [texts[sign][number - 1] for sign, number, _ in numbered] == [text for _, _, text in numbered]
    assert len({each for each in numbered if each[0] == "-"}) == sum(each[0] == "-" for each in numbered)
    now = [number for sign, number, _ in numbered if sign != "-"]
    assert now == sorted(set(now)), "each line of the new text once, in order"


def test_many_places_of_one_long_line_take_no_time() -> None:
    body = ("a" + "x" * 99) * 100_000
    begun = time.process_time()
    _, lines = made(body, "a", "b")
    assert [line[:8] for line in lines] == ["-    1\ta", "+    1\tb"]
    assert time.process_time() - begun < 4, "the end of the line is looked for once, and not for each place"


@table(
    "body, old, new, after",
    [
        ("a\nb", "b\n", "c\n", "a\nc"),
        ("a\nb", "b\n", "c", "a\nc"),
        ("a\nb", "b\n", "", "a"),
        ("a\nb", "a\nb\n", "x\ny\n", "x\ny"),
        ("x\nx", "x\n", "y\n", "y\ny"),
        ("b\r\nb", "b\r\n", "c\r\n", "c\r\nc"),
        ("b", "b\n", "c\nd\n", "c\nd"),
    ],
)
def test_a_line_with_its_end_is_found_where_a_file_ends_without_one(body: str, old: str, new: str, after: str) -> None:
    found, lines = made(body, old, new)
    assert found == after
    assert not any(line.endswith("\t") for line in lines), "no line that is none"


@table("body, old, new", [("a\nb", "\n\n", "x"), ("a\nb", "b\n", "b"), ("a\nb", "a\n\n", "x"), ("a\nb\n", "b\n\n", "")])
def test_a_line_end_that_is_not_there_is_nothing_to_replace(body: str, old: str, new: str) -> None:
    with pytest.raises(ToolError, match=r"^old_string not found in a\.txt"):
        made(body, old, new)


def test_one_place_counts_where_another_is_there_only_with_a_line_end_that_is_missing() -> None:
    done = replace_text("a.txt", TEXT, "b\nb", Replacement("b\n", "c\n"), fuzzy=True)
    assert (done.body, len(done.match.spans)) == ("c\nb", 1)
