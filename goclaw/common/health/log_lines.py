"""Log records as lines: an event of names and values without secrets, then JSON for the file, a line for people.

Line breaks of a record are `\\n` in JSON, so that one line of the file is one record.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from goclaw.common.core.redact import mask, printable
from goclaw.common.health.journald import INFO, PRIORITIES, with_priority

Event = dict[str, Any]
"""`event` (the text), `level`, `logger`, what the caller and the work added, `timestamp`, and perhaps `exception`."""

_OWN = frozenset(vars(logging.makeLogRecord({})))
"""Attributes that every record has; all others were added by the caller (`extra`) or belong to the work (ids)."""
_HARMLESS = (bool, int, float, type(None))
_QUOTED = frozenset(" \t=\r\n\"'")
"""Characters that make a value ambiguous in a line of `name=value`."""
_LEVEL_WIDTH = len("critical ")
_BEHIND = ("stack", "exception")
"""Names whose values have many lines: they stand below a line for people."""

_RESET, _BRIGHT, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN = (f"\x1b[{number}m" for number in range(31, 37))
_LEVELS = {"debug": _GREEN, "info": _GREEN, "warning": _YELLOW, "error": _RED, "critical": _RED}

_traces = logging.Formatter()


def event_of(record: logging.LogRecord) -> Event:
    """Return the content of a record, without secrets and control characters."""
    event: Event = {"event": _clean(record.getMessage())}
    if record.stack_info:
        event["stack_info"] = _clean(record.stack_info)
    event["level"], event["logger"] = record.levelname.lower(), record.name
    for name, value in record.__dict__.items():
        if name not in _OWN:
            event[name] = value if isinstance(value, _HARMLESS) else _clean(str(value))
    # When it was logged, not when it is rendered.
    event["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    if record.exc_info and record.exc_info[1]:
        event["exception"] = _clean(_traces.formatException(record.exc_info))
    return event


def json_line(event: Mapping[str, Any]) -> bytes:
    """Return the line for the file, its end included."""
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def plain_line(event: Mapping[str, Any]) -> str:
    """Return the line for people where there are no colours, its end included."""
    parts = [event["timestamp"], f"[{event['level']:<{_LEVEL_WIDTH}}]", event["event"], f"[{event['logger']}]"]
    parts += [f"{name}={_unambiguous(value)}" for name, value in event.items() if name not in _PLACED]
    return _with_lines_behind(" ".join(filter(None, parts)), event)


def journal_line(event: Mapping[str, Any]) -> str:
    """Return the lines for the systemd journal, which has a time and a colour for each priority of its own."""
    return with_priority(plain_line({**event, "timestamp": ""}), PRIORITIES.get(event["level"], INFO))


def coloured_line(event: Mapping[str, Any]) -> str:
    """Return the line for people in a terminal: the text of `plain_line`, in colours."""
    level = event["level"]
    colour = f"{_LEVELS[level]}{_BRIGHT}" if level in _LEVELS else ""
    parts = [
        f"{_DIM}{event['timestamp']}{_RESET}",
        f"[{colour}{level:<{_LEVEL_WIDTH}}{_RESET}]",
        f"{_BRIGHT}{event['event']}{_RESET}",
        f"[{_RESET}{_BRIGHT}{_BLUE}{event['logger']}{_RESET}]{_RESET}",
    ]
    for name, value in event.items():
        if name not in _PLACED:
            parts.append(f"{_CYAN}{name}{_RESET}={_MAGENTA}{_unambiguous(value)}{_RESET}")
    return _with_lines_behind(" ".join(parts), event)


_PLACED = frozenset(("timestamp", "level", "event", "logger", *_BEHIND))
"""Names with a place of their own in a line for people."""


def _with_lines_behind(line: str, event: Mapping[str, Any]) -> str:
    behind = [str(event[name]) for name in _BEHIND if name in event]
    return f"{line.rstrip(' ')}\n" + "".join(f"{text}\n" for text in behind)


def _unambiguous(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text) if isinstance(value, str) and not _QUOTED.isdisjoint(text) else text


def _clean(text: str) -> str:
    return printable(mask(text))
