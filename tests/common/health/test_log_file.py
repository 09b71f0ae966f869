"""The file of the log: rolled over by counted bytes, few calls, and no line glued to a torn one."""

import resource
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from goclaw.common.health.log_file import LogFile

ROOM = 100
"""Bytes of a file in these tests."""


def lines(count: int) -> list[bytes]:
    return [b"line %03d\n" % number for number in range(count)]


def written(path: Path, kept: int = 2) -> list[list[bytes]]:
    """The lines of each file, the oldest first."""
    names = [path.with_name(f"{path.name}.{number}") for number in range(kept, 0, -1)] + [path]
    return [name.read_bytes().splitlines(keepends=True) for name in names if name.exists()]


def write(path: Path, *batches: Sequence[bytes], most: int = ROOM) -> LogFile:
    file = LogFile(path, most, 2)
    for batch in batches:
        file.write(batch)
    file.close()
    return file


def test_a_file_is_filled_to_its_last_byte_and_no_line_is_in_two(tmp_path: Path) -> None:
    """Whether they come one by one or together."""
    for name, batches in (("one", [[line] for line in lines(28)]), ("all", [lines(28)])):
        path = tmp_path / name
        write(path, *batches)
        found = written(path)
        assert [len(file) for file in found] == [11, 11, 6]
        assert list(chain(*found)) == lines(28)


def test_what_an_earlier_run_wrote_counts_and_the_oldest_file_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for first in range(0, 44, 4):
        write(path, lines(44)[first : first + 4])
    assert list(chain(*written(path))) == lines(44)[11:]


def test_a_line_larger_than_a_file_gets_one_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    large = b"x" * 2 * ROOM + b"\n"
    write(path, [large, *lines(2), large])
    assert written(path) == [[large], lines(2), [large]]


def test_lines_in_a_row_are_one_call_and_the_disk_is_asked_for_nothing(tmp_path: Path) -> None:
    def calls() -> int:
        counted = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
        return int(counted["syscw"])

    if not Path("/proc/thread-self/io").exists():
        pytest.skip("no counts of calls here")
    file = LogFile(tmp_path / "log", 1 << 20, 2)
    (tmp_path / "log").unlink()  # who asks for its size, or whether it is a file, notices
    before = calls()
    file.write(lines(500))
    assert calls() - before == 1
    file.close()


def test_a_device_is_not_rolled_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/null")
    assert write(path, lines(50)).lost == 0
    assert path.is_symlink() and len(list(tmp_path.iterdir())) == 1


def test_a_line_that_was_torn_by_a_full_disk_does_not_swallow_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    file = LogFile(path, 1 << 20, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))  # Python ignores SIGXFSZ: the call fails
    try:
        file.write(lines(20))
        file.write(lines(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.lost == 20 - 11 + 1
    file.write(lines(1))
    file.close()
    assert path.read_bytes() == b"".join(lines(11)) + b"l\n" + lines(1)[0]
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_a_folder_that_refuses_the_next_file_costs_lines_until_it_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    file = LogFile(path, ROOM, 1)
    blocking = tmp_path / "log.1"
    (blocking / "inside").mkdir(parents=True)
    file.write(lines(14))
    assert file.lost == 3 and "cannot be written" in capsys.readouterr().err
    (blocking / "inside").rmdir()
    blocking.rmdir()
    file.write(lines(14)[11:])
    file.close()
    assert list(chain(*written(path, 1))) == lines(14)
