"""Program of the command line: the daemon directly, every other command by `frame`.

The daemon's process lives for months, and has no use for the library that reads command lines (1.5 MB). So a command
line that does no more than start it is read here. One that asks for help, or has a mistake, is read by `frame`.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from goclaw.errors import GoclawError
from goclaw.program.cli.base import COMPLETING, Options, report, report_crash
from goclaw.program.cli.hangups import DAEMON

INTERRUPTED = 130
"""Exit code after Ctrl-C, as of shells."""


def main() -> None:
    """Run the command line of this process and exit with its code."""
    arguments = sys.argv[1:]
    if "--debug" not in arguments:
        sys.excepthook = report_crash
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A terminal without UTF-8 gets question marks instead of an error, and so do we.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; what went wrong is said on standard error, a line each. Returns the exit code."""
    try:
        given = daemon_options(arguments)
        if given is None:
            from goclaw.program.cli.frame import run_command

            return run_command(arguments)
        from goclaw.program.cli.gateway import run_gateway

        run_gateway(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except GoclawError as error:
        return report([error])
    except BaseExceptionGroup as group:
        expected, unexpected = group.split(GoclawError)
        if unexpected or not expected:
            raise
        return report(list(_leaves(expected)))
    return 0


def daemon_options(arguments: Sequence[str]) -> Options | None:
    """Return the options of a command line that starts the daemon; None for any other, and one with a mistake.

    `--config FILE` and `--debug` stand before or after the command, `--set KEY=VALUE` before it, as in `frame`.
    """
    config: Path | None = None
    overrides: dict[str, str] = {}
    debug = commanded = False
    waiting = iter(arguments)
    for argument in waiting:
        option, equals, value = argument.partition("=")
        if argument == DAEMON and not commanded:
            commanded = True
        elif argument == "--debug":
            debug = True
        elif option == "--config" or (option == "--set" and not commanded):
            value = value if equals else next(waiting, "")
            key, has_value, setting = value.partition("=")
            if not value or value.startswith("-") or (option == "--set" and not (key and has_value)):
                return None
            if option == "--config":
                config = Path(value)
            else:
                overrides[key.strip()] = setting.strip()
        else:
            return None
    return Options(config, overrides, debug) if commanded and COMPLETING not in os.environ else None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)
