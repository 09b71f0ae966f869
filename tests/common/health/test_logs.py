"""Logs: readable in the terminal, JSON in the file, rotated, private, and without secrets."""

import asyncio
import json
import logging
import os
import re
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from goclaw.common.config.schema import Config
from goclaw.common.core.redact import remember
from goclaw.common.health import logs
from goclaw.common.health.logs import log_path, open_logs

TOKEN = "123456789:" + "Aa0-_" * 7


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(state_dir=tmp_path / "state")


def lines(config: Config) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path(config).read_text().splitlines()]


def test_a_record_is_a_line_in_the_terminal_and_a_json_object_in_the_file(config: Config) -> None:
    terminal = StringIO()
    with open_logs(config, terminal):
        logging.getLogger("some.library").warning("told %d times", 3, extra={"session": "tui:me"})
    (line,) = lines(config)
    assert (line["level"], line["logger"], line["event"]) == ("warning", "some.library", "told 3 times")
    assert line["session"] == "tui:me"
    assert line["timestamp"].endswith("+00:00")
    assert "told 3 times" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_line_for_people_says_all_of_a_record_and_quotes_what_could_be_mistaken(config: Config) -> None:
    terminal = StringIO()
    with open_logs(config, terminal):
        logging.getLogger("x").info("done", extra={"count": 3, "who": "a b", "none": None, "text": "it's \x1b[31mred"})
    _, _, rest = terminal.getvalue().partition(" ")
    assert rest == "[info     ] done [x] count=3 who='a b' none=None text=\"it's red\"\n"


def test_a_terminal_gets_colours_that_leave_the_text_as_it_is(config: Config) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), StringIO()
    for stream in (terminal, pipe):
        with open_logs(config, stream):
            logging.getLogger("x").error("done", extra={"count": 3})
    coloured, plain = (stream.getvalue().partition(" ")[2] for stream in (terminal, pipe))
    assert "\x1b[31m" in coloured and re.sub(r"\x1b\[[0-9]+m", "", coloured) == plain


@pytest.mark.promise("P-secrets-masked")
def test_no_secret_reaches_file_or_terminal(config: Config) -> None:
    remember("the-remembered-secret")
    terminal = StringIO()
    log = logging.getLogger("x")
    with open_logs(config, terminal):
        log.error("GET /bot%s/getMe", TOKEN, extra={"headers": {"key": "the-remembered-secret"}})
        try:
            raise ValueError(f"bad token {TOKEN}")
        except ValueError:
            log.exception("failed")
    for text in (log_path(config).read_text(), terminal.getvalue()):
        assert TOKEN not in text
        assert "the-remembered-secret" not in text
        assert "ValueError" in text


def test_the_level_follows_the_configuration_and_chatty_libraries_stay_quiet(tmp_path: Path) -> None:
    for level in ("INFO", "DEBUG"):
        config = Config(state_dir=tmp_path / level, log_level=level)
        with open_logs(config, StringIO()):
            logging.getLogger("x").debug("detail")
            logging.getLogger("x").info("news")
            logging.getLogger("aiohttp.access").info("GET /")
    assert [line["event"] for line in lines(Config(state_dir=tmp_path / "INFO"))] == ["news"]
    assert [line["event"] for line in lines(Config(state_dir=tmp_path / "DEBUG"))] == ["detail", "news", "GET /"]


def test_a_wrong_call_of_logging_loses_nothing(config: Config) -> None:
    with open_logs(config, StringIO()):
        logging.getLogger("x").warning("two %s %s", "one")
    assert "two %s %s" in lines(config)[0]["event"]


@pytest.mark.promise("P-log-ids")
async def test_a_record_carries_the_ids_of_the_work_that_it_was_made_for(config: Config) -> None:
    """Also in threads and tasks of that work, and although another thread writes it; and nobody else's."""
    log = logging.getLogger("some.library")

    async def work(turn: str) -> None:
        with bound_contextvars(turn=turn):
            await asyncio.to_thread(log.info, "in a thread")
            with bound_contextvars(call=f"call of {turn}"):
                log.info("in a call", extra={"turn": "said outright"})
        log.info("afterwards")

    terminal = StringIO()
    with open_logs(config, terminal):
        await asyncio.gather(work("t:1"), work("t:2"))
    found = {(line["event"], line.get("turn"), line.get("call")) for line in lines(config)}
    assert found == {
        ("in a thread", "t:1", None),
        ("in a thread", "t:2", None),
        ("in a call", "said outright", "call of t:1"),
        ("in a call", "said outright", "call of t:2"),
        ("afterwards", None, None),
    }
    assert "turn=t:1" in terminal.getvalue()


def test_files_are_private_and_rotated(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1_000)
    with open_logs(config, StringIO()):
        for number in range(200):
            logging.getLogger("x").warning("line %d", number)
    assert stat.S_IMODE(config.state_dir.stat().st_mode) == 0o700
    files = sorted(log_path(config).parent.iterdir())
    assert len(files) == logs.FILES_KEPT + 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert lines(config)[-1]["event"] == "line 199"


def test_what_is_grave_is_written_at_once_and_the_rest_at_the_end_at_the_latest(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "GATHER_SECONDS", 3_600)
    written = Event()

    class Terminal(StringIO):
        def write(self, text: str) -> int:
            taken = super().write(text)
            written.set()
            return taken

    terminal = Terminal()
    with open_logs(config, terminal):
        logging.getLogger("x").warning("grave")
        assert written.wait(20) and "grave" in terminal.getvalue()
        logging.getLogger("x").info("ordinary")
        logging.getLogger("x").info("too")
    assert [line["event"] for line in lines(config)] == ["grave", "ordinary", "too"]


def test_what_is_grave_does_not_wait_for_what_is_gathered(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "GATHER_SECONDS", 3_600)
    written = Event()

    class Terminal(StringIO):
        def flush(self) -> None:
            written.set()

    terminal = Terminal()
    with open_logs(config, terminal):
        logging.getLogger("x").info("ordinary")
        logging.getLogger("x").warning("grave")
        assert written.wait(20) and "ordinary" in terminal.getvalue() and "grave" in terminal.getvalue()


def test_a_value_is_rendered_once_for_file_and_terminal(config: Config) -> None:
    rendered = []

    class Value:
        def __str__(self) -> str:
            rendered.append(self)
            return "a value"

    terminal = StringIO()
    with open_logs(config, terminal):
        logging.getLogger("x").info("with %s", "text", extra={"value": Value()})
    assert lines(config)[0]["value"] == "a value" and "value='a value'" in terminal.getvalue()
    assert len(rendered) == 1


def test_a_record_that_cannot_be_rendered_costs_no_other(config: Config) -> None:
    terminal = StringIO()
    with open_logs(config, terminal):
        logging.getLogger("x").info("large", extra={"number": 1 << 70})
        logging.getLogger("x").info("after")
    events = [line["event"] for line in lines(config)]
    assert events[0].startswith("a log line of x cannot be formatted: ") and events[1] == "after"
    assert "after" in terminal.getvalue()


def test_callers_never_wait_and_what_finds_no_room_is_counted(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_WAITING", 5)
    stands, goes_on = Event(), Event()

    class Terminal(StringIO):
        def write(self, text: str) -> int:
            stands.set()
            assert goes_on.wait(20)
            return super().write(text)

    with open_logs(config, Terminal()):
        logging.getLogger("x").warning("first")
        assert stands.wait(20)
        for number in range(8):
            logging.getLogger("x").warning("line %d", number)
        goes_on.set()
    events = [line["event"] for line in lines(config)]
    assert events[:6] == ["first", *(f"line {number}" for number in range(5))]
    assert events[6:] == ["lost 3 log lines: they arrived faster than they could be written"]


def test_an_error_that_ends_the_daemon_loses_no_line(config: Config) -> None:
    def fail() -> None:
        with open_logs(config, None):
            logging.getLogger("x").info("before")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [line["event"] for line in lines(config)] == ["before"]


@pytest.mark.parametrize("end", ["raise ZeroDivisionError", "pass"])
def test_an_interpreter_that_ends_within_the_block_loses_no_line(config: Config, end: str) -> None:
    program = f"""
import logging
from pathlib import Path
from goclaw.common.config.schema import Config
from goclaw.common.health import logs
logs.GATHER_SECONDS = 3_600
opened = logs.open_logs(Config(state_dir=Path({str(config.state_dir)!r})), None)
opened.__enter__()
for number in range(2_000):
    logging.getLogger("x").info("line %d", number)
{end}
"""
    subprocess.run([sys.executable, "-c", program], check=False, timeout=50, capture_output=True)
    assert [line["event"] for line in lines(config)] == [f"line {number}" for number in range(2_000)]


def test_without_a_terminal_only_the_file_is_written(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with open_logs(config, None):
        logging.getLogger("x").warning("seen")
    assert lines(config)[0]["event"] == "seen"
    assert capsys.readouterr() == ("", "")


def test_a_log_that_is_opened_anew_goes_on_under_its_name_and_whole(config: Config) -> None:
    with open_logs(config, None) as reopen:
        logging.getLogger("x").warning("before")
        logging.getLogger().handlers[0].flush()
        moved = log_path(config).replace(log_path(config).with_name("moved"))
        reopen()
        logging.getLogger("x").warning("after")
    assert [line["event"] for line in lines(config)] == ["after"]
    assert "before" in moved.read_text("utf-8") and "after" not in moved.read_text("utf-8")


def test_the_former_handlers_are_back_afterwards(config: Config) -> None:
    before = logging.getLogger().handlers[:]
    with open_logs(config, StringIO()):
        assert logging.getLogger().handlers != before
    assert logging.getLogger().handlers == before


def test_only_the_stream_of_the_journal_gets_priorities(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "journal").open("w") as journal, (tmp_path / "other").open("w") as other:
        status = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        for stream in (journal, other):
            with open_logs(config, stream):
                logging.getLogger("x").warning("careful")
    assert (tmp_path / "journal").read_text() == "<4>[warning  ] careful [x]\n"
    assert (tmp_path / "other").read_text().endswith("[warning  ] careful [x]\n")
    assert "<4>" not in (tmp_path / "other").read_text()
