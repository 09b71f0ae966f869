"""Base of all commands: the options before them, exit codes, and how lines and errors read.

Imports next to nothing: the daemon has it, too, and has no command line (`program`).
"""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import TracebackType

from goclaw.common.core.records import record
from goclaw.common.core.redact import escape_json, mask, printable
from goclaw.common.health.journald import ERROR, INFO, is_journal, with_priority
from goclaw.errors import ConfigError

FAILED, USAGE, BAD_CONFIGURATION = 1, 2, 78
"""Exit codes; 78 is EX_CONFIG of sysexits.h, which service managers can be told not to restart after."""

MAX_LINES = 50
"""Problems printed at most: with more than these it is the wrong file."""

COMPLETING = "_GOCLAW_COMPLETE"
"""Set by a shell that completes a command line: `eval "$(_GOCLAW_COMPLETE=source_zsh goclaw)"`."""


@record
class Options:
    """Options given before the command; `options.options` finds those of a typer context."""

    config: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False


def print_message(line: str, priority: int = INFO) -> None:
    """Print one line on standard error, as every message of this program. The journal gets it with `priority`."""
    text = f"goclaw: {printable(mask(line))}"
    print(with_priority(text, priority) if is_journal(sys.stderr) else text, file=sys.stderr)


def show(text: str) -> None:
    """Print what others wrote: no terminal must obey it, not at the end of a pipe either (`| less -R`).

    What begins like JSON keeps all its characters, in JSON's own writing.
    """
    print(escape_json(text) if text.startswith(("{", "[")) else printable(text))


def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line about a bug of ours, and where its traceback was written."""
    if issubclass(kind, KeyboardInterrupt):
        return
    try:
        folder = Path(os.environ.get("GOCLAW_STATE_DIR") or "~/.goclaw").expanduser() / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "crash.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(mask("".join(traceback.format_exception(kind, error, trace))))
        details = f"details in {folder / 'crash.log'}"
    except (OSError, RuntimeError):
        details = "run it again with --debug for details"
    text = " ".join(str(error).split())
    print_message(f"unexpected error: {kind.__name__}{f': {text}' if text else ''}; {details}", ERROR)


def report(errors: Sequence[BaseException]) -> int:
    """Print what went wrong on standard error, a line each. Returns the exit code."""
    for error in errors:
        lines = error.problems if isinstance(error, ConfigError) else str(error).splitlines()
        for line in lines[:MAX_LINES]:
            print_message(line, ERROR)
        if len(lines) > MAX_LINES:
            print_message(f"… and {len(lines) - MAX_LINES} more", ERROR)
    return BAD_CONFIGURATION if any(isinstance(error, ConfigError) for error in errors) else FAILED
