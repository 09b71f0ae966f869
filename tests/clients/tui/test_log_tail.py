"""The daemon's log as a terminal shows it."""

from pathlib import Path

import orjson

from goclaw.clients.tui.log_tail import TAIL_BYTES, LogTail, parse


def line(event: str, **more: object) -> bytes:
    record = {"event": event, "level": "info", "timestamp": "2026-01-01T12:00:00.000+00:00", **more}
    return orjson.dumps(record) + b"\n"


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def test_what_is_appended_is_read_once_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LogTail(path)
    assert tail.read() == []
    append(path, line("one"), line("two")[:10])
    assert [record.text for record in tail.read()] == ["one"]
    append(path, line("two")[10:])
    assert [record.text for record in tail.read()] == ["two"]
    tail.close()


def test_a_rotated_log_is_followed_into_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, line("one"))
    tail = LogTail(path)
    tail.read()
    append(path, line("last of the old"))
    path.rename(tmp_path / "log.1")
    append(path, line("first of the new"))
    seen = [record.text for _ in range(2) for record in tail.read()]
    assert seen == ["last of the old", "first of the new"]
    tail.close()


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, *(line(f"event {number}") for number in range(5_000)))
    tail = LogTail(path)
    records = tail.read()
    assert records[-1].text == "event 4999"
    assert len(records) < TAIL_BYTES / 50
    tail.close()


def test_a_record_is_shown_with_its_details_and_the_last_line_of_its_traceback() -> None:
    record = parse(line("turn failed", logger="goclaw.x", count=2, exception="Traceback …\nValueError: no"))
    assert record is not None
    assert (record.level, record.text) == ("info", "turn failed")
    assert record.details == "count=2 ValueError: no"
    assert record.trace == "Traceback …\nValueError: no"
    assert len(record.time) == len("12:00:00")


def test_the_ids_of_a_turn_are_short_and_come_first() -> None:
    ids = {"turn": "socket:0a1b2c3d4e5f60718293", "session": "tui:ann", "call": "toolu_0123456789", "tool": "exec"}
    record = parse(line("tool exec finished in 0.4 s", code=0, **ids, delivery="socket:0a1b:deliver:1"))
    assert record is not None and record.details == "#718293 tui:ann exec code=0"


def test_a_dump_of_stacks_is_kept_out_of_the_details() -> None:
    record = parse(line("12 tasks, asked for with SIGUSR2", stack="1 task: lane\n  File \x1b[31m…\n"))
    assert record is not None and (record.details, record.trace) == ("", "1 task: lane\n  File …")


def test_what_is_no_record_is_passed_over_and_nothing_steers_the_terminal() -> None:
    assert parse(b"not json") is None and parse(b"[1]") is None
    record = parse(b'{"event": "\\u001b[31mred\\u0007"}')
    assert record is not None and (record.time, record.text) == ("", "red")
