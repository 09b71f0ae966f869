"""The lanes, the tables and the net below hanging tests, tried by pytest runs of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import house
from tests.tables import table

SECONDS = 150
MOST_SCREENS = 60
"""Tests that run the terminal client on a screen; each costs as much as ten of its logic without one."""
HANGS = """
import asyncio, threading

async def test_a_thread_never_ends():
    await asyncio.to_thread(threading.Event().wait)
"""
STAYS = """
import threading

def test_passes():
    threading.Thread(target=threading.Event().wait).start()
"""
MARKED = """
import pytest

@pytest.mark.long
def test_long(): pass

@pytest.mark.deep
def test_deep(): pass

def test_plain(): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose name has spaces and a quote, with our settings of pytest and our conftest."""
    made = tmp_path / "a folder's tests"
    made.mkdir()
    (made / "pyproject.toml").write_text((house.ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    (made / "conftest.py").write_text((house.ROOT / "tests" / "conftest.py").read_text("utf-8"), "utf-8")
    return made


def run(folder: Path, source: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on one file with this source."""
    (folder / "test_tried.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_tried.py"]
    given = {"cwd": folder, "capture_output": True, "text": True, "timeout": SECONDS, "check": False}
    return subprocess.run(command, **given)  # type: ignore[call-overload,no-any-return]  # one dictionary for both


@pytest.mark.long  # pytest runs once more, or several times
def test_a_worker_that_hangs_shows_where_it_stands_and_is_replaced(folder: Path) -> None:
    done = run(folder, HANGS + MARKED, "-n", "1", "--timeout=1", "-o", "faulthandler_timeout=3")
    assert done.returncode == 1
    assert "Timeout (0:00:03)!" in done.stderr and "threading.py" in done.stderr
    assert "crashed while running" in done.stdout and "2 failed, 2 passed" in done.stdout


@pytest.mark.long  # pytest runs once more, or several times
def test_a_thread_that_outlives_the_tests_does_not_outlive_pytest_by_much(folder: Path) -> None:
    done = run(folder, STAYS, "-o", "faulthandler_timeout=4")  # within which the summary is written
    assert "1 passed" in done.stdout and "Timeout (0:00:04)!" in done.stderr


@pytest.mark.long  # pytest runs once more, or several times
def test_a_commit_runs_what_is_not_long_and_the_long_lane_what_is_long_or_deep(folder: Path) -> None:
    assert "2 passed, 1 deselected" in run(folder, MARKED).stdout
    assert "2 passed, 1 deselected" in run(folder, MARKED, "-m", "long or deep").stdout


def test_a_table_tries_every_row_and_names_those_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    @table("number, word", [(1, "a"), pytest.param(2, "b", id="second"), (3, "c")])
    def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, word: str) -> None:
        (tmp_path / "only once").mkdir()
        monkeypatch.setenv("GOCLAW_ROW", word)
        tried.append((number, word))
        assert number == 1

    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as failed:
        check(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert tried == [(1, "a"), (2, "b"), (3, "c")]
    assert [error.__notes__ for error in failed.value.exceptions] == [["row 1: second"], ["row 2: number=3, word='c'"]]


@pytest.mark.long  # pytest runs once more, or several times
def test_few_tests_need_the_terminal_client_on_a_screen() -> None:
    options = ["-p", "no:cacheprovider", "--collect-only", "-qq", "-m", "screen and not long", "tests/clients/tui"]
    short_lane = {**os.environ, "TESTS_LONG": ""}
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        command, cwd=house.ROOT, env=short_lane, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    counts = [
        int(line.rpartition(": ")[2]) for line in done.stdout.splitlines() if line.startswith("tests/clients/tui/")
    ]
    assert 0 < sum(counts) <= MOST_SCREENS, (
        "what needs no keys, mouse or scrolling needs no screen: tests/clients/tui/unseen.py"
    )


@pytest.mark.house
def test_only_tests_of_the_terminal_client_run_an_app() -> None:
    calls = [
        house.name_of(path)
        for path in house.python_files("tests")
        for call in house.facts(path).calls
        if call.name.endswith(".run_test") and path.parent.name not in ("tui", "widgets")
    ]
    assert calls == []


async def test_a_table_of_a_coroutine_raises_the_one_failure_itself() -> None:
    @table("number", [1, 2], ids=str)
    async def check(number: int) -> None:
        assert number == 1, "no one"

    with pytest.raises(AssertionError, match="no one"):
        await check()


def test_a_table_without_rows_or_with_marked_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="proves nothing"):
        table("number", [])
    with pytest.raises(ValueError, match="no marks"):
        table("number", [pytest.param(1, marks=pytest.mark.slow)])
