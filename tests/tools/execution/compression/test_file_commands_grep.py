"""`grep`: by file."""

import pytest

from goclaw.tools.execution.compression.file_commands import GREP
from tests.tools.execution.compression.texts import compressed


def test_lines_of_a_file_stand_under_its_name() -> None:
    text = "src/a.py:1:one\nsrc/a.py:20:  two: three\nb.py:3:alone\n"

    assert compressed(GREP, text, "grep -rn o .") == "src/a.py\n 1:one\n 20:  two: three\nb.py:3:alone\n"


def test_lines_around_are_told_from_what_was_found() -> None:
    text = "my-1-file.py-1-before\nmy-1-file.py:2:found\n--\nmy-1-file.py:9:again\n--\nother.py:1:x\n"

    assert compressed(GREP, text, "grep -rn -B1 o .") == (
        "my-1-file.py\n 1-before\n 2:found\n --\n 9:again\n--\nother.py:1:x\n"
    )


def test_without_numbers_only_a_search_through_folders_is_grouped() -> None:
    text = "key: 1\nkey: 2\n"

    assert compressed(GREP, text, "grep key file") == text
    assert compressed(GREP, text, "rg key file") == text
    assert compressed(GREP, text, "grep -r key") == "key\n  1\n  2\n"
    assert compressed(GREP, text, "rg -t py key") == "key\n  1\n  2\n"


def test_long_lines_are_cut_unless_their_end_speaks_of_an_error() -> None:
    long = "x" * 500

    assert compressed(GREP, f"a.py:1:{long}\n", "grep -rn x") == f"a.py:1:{'x' * 200} … (+300)\n"
    assert compressed(GREP, f"a.py:1:{long}fatal\n", "grep -rn x") == f"a.py:1:{long}fatal\n"
    assert compressed(GREP, f"7:{long}\n", "grep -n x a.py") == f"7:{'x' * 200} … (+300)\n"


@pytest.mark.parametrize("line", ["grep: x: Permission denied", "error: no such host", "Binary file a.o matches"])
def test_what_grep_says_itself_stays(line: str) -> None:
    text = f"{line}\n{line}\n"

    assert compressed(GREP, text, "grep -r x") == text


def test_files_named_for_errors_are_grouped_too() -> None:
    assert compressed(GREP, "errors.py:1:a\nerrors.py:2:b\n", "grep -rn x") == "errors.py\n 1:a\n 2:b\n"
    assert GREP.essence("errors.py:1:an error") == "error"


@pytest.mark.parametrize("option", ["--json", "-Z", "--heading", "--color=always"])
def test_other_forms_stay(option: str) -> None:
    text = "a.py:1:one\na.py:2:two\n"

    assert compressed(GREP, text, f"grep -rn {option} o") == text
