"""`goclaw logs`: what is asked for and no more, readable for people, as it is for programs."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from goclaw.program.cli.program import run

PATIENCE = 20.0


def line(event: str, level: str = "info", **more: object) -> str:
    return json.dumps({"event": event, "level": level, "timestamp": "2026-01-01T12:00:00.000+00:00", **more}) + "\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the log of a state folder lies; nothing is in it yet."""
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("GOCLAW_CONFIG", raising=False)
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "goclaw.log"


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def rotate(log: Path) -> None:
    log.rename(log.with_name("goclaw.log.1"))


def events(text: str) -> list[str]:
    return [json.loads(one)["event"] for one in text.splitlines()]


def test_the_last_lines_come_as_they_are_in_the_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("".join(line(f"event {number}") for number in range(60)) + "no record\n")
    assert run(["logs", "-n", "3"]) == 0
    assert capsys.readouterr().out == line("event 58") + line("event 59") + "no record\n"
    assert run(["logs"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 50
    assert run(["logs", "-n", "0"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--turn", "socket:aa1122"], ["started", "failed"]),
        (["--turn", "1122"], ["started", "failed"]),
        (["--turn", "#1122"], ["started", "failed"]),
        (["--session", "tui:bob"], ["other"]),
        (["--session", "tui:b"], []),
        (["--level", "warning"], ["failed", "broken"]),
        (["--level", "ERROR"], ["broken"]),
        (["--turn", "1122", "--level", "warning"], ["failed"]),
    ],
)
def test_lines_are_chosen_by_turn_session_and_level(
    log: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], found: list[str]
) -> None:
    mine = {"turn": "socket:aa1122", "session": "tui:ann"}
    log.write_text(
        line("started", **mine)
        + line("other", turn="socket:bb3344", session="tui:bob")
        + line("failed", "warning", **mine)
        + "no record\n"
        + line("broken", "error")
    )
    assert run(["logs", *arguments]) == 0
    said = capsys.readouterr()
    assert events(said.out) == found
    assert ("no matching lines" in said.err) == (not found)


def test_older_files_are_read_when_the_newest_has_too_few(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.with_name("goclaw.log.2").write_text(line("one", turn="t") + line("two", turn="t"))
    log.with_name("goclaw.log.1").write_text(line("noise") + line("three", turn="t"))
    log.write_text(line("noise") + line("four", turn="t"))
    assert run(["logs", "--turn", "t", "-n", "3"]) == 0
    assert events(capsys.readouterr().out) == ["two", "three", "four"]


def test_a_terminal_gets_lines_to_read_and_nothing_that_steers_it(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text(line("turn \x1b[31mfailed", "warning", turn="t:123456789", session="tui:ann", exception="Tr\nOops"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["logs"]) == 0
    first, *trace = capsys.readouterr().out.splitlines()
    assert first.startswith(("2026-01-01 ", "2025-12-31 ", "2026-01-02 ")), "the day, wherever this machine stands"
    assert first.endswith(" warning  turn failed  #456789 tui:ann Oops")
    assert trace == ["    Tr", "    Oops"]


def test_a_pipe_gets_the_same_records_and_nothing_that_steers_a_terminal(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "turn \u202egpj \x9b31m"
    log.write_text(json.dumps({"event": words}, ensure_ascii=False) + "\nno record \x1b[2J\n")
    assert run(["logs"]) == 0
    record, other = capsys.readouterr().out.splitlines()
    assert json.loads(record) == {"event": words} and record.isascii() and other == "no record "


def test_without_a_log_it_says_so(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs"]) == 1
    assert str(log) in capsys.readouterr().err


def test_a_wrong_level_is_named_with_the_right_ones(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--level", "loud"]) == 2
    assert "'loud'" in (said := capsys.readouterr().err) and "warning" in said


async def test_following_goes_on_through_a_rotation_with_the_same_choice(log: Path) -> None:
    append(log, line("first", turn="t:1"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "goclaw", "logs", "-f", "--turn", "t:1"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "GOCLAW_STATE_DIR": str(log.parents[1])},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            assert events((await process.stdout.readline()).decode()) == ["first"]
            append(log, line("noise") + line("second", turn="t:1")[:20])
            append(log, line("second", turn="t:1")[20:])
            assert events((await process.stdout.readline()).decode()) == ["second"]
            rotate(log)
            append(log, line("noise") + line("third", turn="t:1"))
            assert events((await process.stdout.readline()).decode()) == ["third"]
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
