"""`cat`, `head` and `tail`: repetitions once."""

import pytest

from goclaw.tools.execution.compression.file_commands import CAT
from tests.tools.execution.compression.texts import compressed, joined

REPEATED = joined(["first", *["the same line over and over"] * 10, "last"])


@pytest.mark.parametrize("command", ["cat log", "head log", "head -n 50 log", "head -50 log", "tail -n +1 log"])
def test_repetitions_are_counted_and_lines_numbered_where_numbers_are_known(command: str) -> None:
    assert compressed(CAT, REPEATED, command) == (
        "1\tfirst\n2\tthe same line over and over\n[the same 9 more times]\n12\tlast\n"
    )


def test_numbers_begin_where_the_output_does() -> None:
    assert compressed(CAT, REPEATED, "tail -n+100 log").startswith("100\tfirst\n101\t")


@pytest.mark.parametrize("command", ["tail log", "cat a b", "cat -n log", "cat", "head a b"])
def test_lines_are_not_numbered_where_numbers_would_lie(command: str) -> None:
    assert compressed(CAT, REPEATED, command).startswith("first\nthe same")


def test_numbers_are_left_away_where_they_cost_more_than_is_saved() -> None:
    text = joined([*map(str, range(100)), *["x"] * 30])

    assert compressed(CAT, text, "cat log") == joined([*map(str, range(100)), "x", "[the same 29 more times]"])


def test_what_does_not_repeat_stays_whole() -> None:
    text = joined(["a" * 1_000, "", "", "", "b"])

    assert compressed(CAT, text, "cat file") == text
