"""SIGHUP before the daemon can reload. Imports next to nothing: it holds from the first moment on."""

import os
import signal
from collections.abc import Sequence

DAEMON = "gateway"


def outlive_hangups(arguments: Sequence[str]) -> None:
    """Let SIGHUP pass while a daemon without a terminal starts: it has read and opened nothing that it could reload.

    `arguments` is the command line.
    """
    if DAEMON in arguments and not has_terminal():
        # Caught, not ignored: programs that are started would ignore it, too.
        signal.signal(signal.SIGHUP, lambda *_: None)


def has_terminal() -> bool:
    """Return whether the process has a controlling terminal, so that SIGHUP means the terminal's end."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
