"""`ls`: names, and what was asked for."""

import pytest

from goclaw.tools.execution.compression.file_commands import LS
from tests.tools.execution.compression.texts import compressed

LONG = """total 24
drwxr-xr-x  3 anna staff  4096 Nov 21 20:22 .
drwxr-xr-x 12 anna staff  4096 Nov 20  2025 ..
-rw-r--r--  1 anna staff  1024 Jan  1 10:00 file.go
drwxr-xr-x  2 anna staff  4096 Nov 21 20:22 sub dir
lrwxrwxrwx  1 anna staff     7 Nov 21 20:22 link -> file.go
crw-rw-rw-  1 root root   1, 3 Nov 21 20:22 null
"""


def test_names_are_left_of_the_long_form() -> None:
    assert compressed(LS, LONG, "ls -la") == "file.go\nsub dir/\nlink -> file.go\nnull\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -lah", "1024 file.go"),
        ("ls -lS", "1024 file.go"),
        ("ls -l --sort=size", "1024 file.go"),
        ("ls -lt", "Jan  1 10:00 file.go"),
        ("ls -lhtr", "1024 Jan  1 10:00 file.go"),
    ],
)
def test_sizes_and_times_stay_where_they_were_asked_for(command: str, expected: str) -> None:
    assert expected in compressed(LS, LONG, command).splitlines()


@pytest.mark.parametrize("command", ["ls", "ls -a", "ls -1", "ls -- -l"])
def test_other_forms_stay(command: str) -> None:
    assert compressed(LS, LONG, command) == LONG


@pytest.mark.parametrize(
    "line",
    [
        "ls: cannot access 'x': No such file or directory",
        "   1234 -rw-r--r-- 1 anna staff 1024 Jan  1 10:00 with-inode",
        "-rw-r--r-- 1 anna staff 1024 1. Jan 10:00 another-language",
        "sub:",
        "-rw-r--r-- 1 error-reporting staff 1024 Jan  1 10:00 file",
    ],
)
def test_lines_of_no_known_form_and_about_errors_stay(line: str) -> None:
    assert compressed(LS, f"{line}\n", "ls -l") == f"{line}\n"


def test_dates_of_other_styles_are_known() -> None:
    iso = "-rw-r--r-- 1 anna staff 1.2K 2026-11-21 20:22 a\n-rw-r--r-- 1 anna 5 2026-11-21 20:22:06.123456789 +0000 b\n"

    assert compressed(LS, iso, "ls -l") == "a\nb\n"
