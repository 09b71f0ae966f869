"""A record as lines: as structlog draws them, which drew them before; rendered and masked once."""

import logging
import sys

import orjson
import pytest
from structlog.dev import ConsoleRenderer, plain_traceback

from goclaw.common.core.redact import remember
from goclaw.common.health.log_lines import coloured_line, event_of, journal_line, json_line, plain_line


def record(text: str, level: int = logging.INFO, **added: object) -> logging.LogRecord:
    made = logging.LogRecord("goclaw.durable.engine.lanes", level, "", 0, text, None, None)
    made.created = 1_790_000_000.0126
    made.__dict__.update(added)
    return made


def failed() -> logging.LogRecord:
    made = record("failed", logging.ERROR, turn="t:1")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


RECORDS = [
    record("turn started", kind="message", turn="telegram:1"),
    record("", logging.WARNING),
    *(record("all", level, n=1) for level in (*range(10, 60, 10), 17)),
    record("ends in blanks  ", x="  "),
    record("odd", quote="it's", both="'\"", equals="a=b", none=None, truth=True, part=0.5, empty="", umlaut="ü"),
    record("tabs\tand\nlines", value="a\tb\nc", list=[1, "a"]),
    record("where all stand", stack="one\ntwo", objects="3 x"),
    failed(),
]


@pytest.mark.parametrize("colours", [False, True])
def test_a_line_for_people_is_as_structlog_draws_it(colours: bool) -> None:
    theirs = ConsoleRenderer(colors=colours, pad_event_to=0, sort_keys=False, exception_formatter=plain_traceback)
    ours = coloured_line if colours else plain_line
    for one in RECORDS:
        event = event_of(one)
        assert ours(event) == theirs(None, "", dict(event)) + "\n"


def test_a_line_of_the_file_has_its_names_in_a_fixed_order() -> None:
    line = json_line(event_of(RECORDS[0]))
    assert line == (
        b'{"event":"turn started","level":"info","logger":"goclaw.durable.engine.lanes","kind":"message",'
        b'"turn":"telegram:1","timestamp":"2026-09-21T14:13:20.012+00:00"}\n'
    )
    assert list(orjson.loads(json_line(event_of(failed()))))[-1] == "exception"


@pytest.mark.promise("P-secrets-masked")
def test_every_value_of_a_record_is_without_secrets_and_control_characters() -> None:
    remember("the-remembered-secret")

    class Odd:
        def __str__(self) -> str:
            return "an object with the-remembered-secret"

    made = record("a the-remembered-secret \x1b[31m", key="the-remembered-secret", odd=Odd())
    try:
        raise ValueError("the-remembered-secret")
    except ValueError:
        made.exc_info = sys.exc_info()
    made.stack_info = "the-remembered-secret"
    event = event_of(made)
    assert "the-remembered-secret" not in str(event) and "\x1b" not in str(event)
    assert event["odd"] == "an object with [secret]"
    assert {"event", "key", "odd", "exception", "stack_info"} <= {
        name for name in event if "[secret]" in str(event[name])
    }


def test_each_line_for_the_journal_has_the_priority_of_its_record_and_no_second_time() -> None:
    lines = journal_line(event_of(failed())).splitlines()
    assert lines[0] == "<3>[error    ] failed [goclaw.durable.engine.lanes] turn=t:1"
    assert len(lines) > 3 and all(line.startswith("<3>") for line in lines)
    levels = [journal_line(event_of(record("x", level)))[:3] for level in (10, 17, 20, 30, 40, 50)]
    assert levels == ["<7>", "<6>", "<6>", "<4>", "<3>", "<2>"]
