"""Lines for the systemd journal: each begins with its priority, as sd-daemon(3) has it."""

import os
from typing import TextIO

STREAM = "JOURNAL_STREAM"
"""Variable with the device and inode of the stream that systemd connected to the journal (systemd.exec(5))."""
ERROR, WARNING, INFO, DEBUG = 3, 4, 6, 7
PRIORITIES = {"critical": 2, "error": ERROR, "warning": WARNING, "info": INFO, "debug": DEBUG}
"""syslog(3) priorities of levels."""


def is_journal(stream: TextIO) -> bool:
    """Whether output to `stream` goes to the journal. A child may have the variable and another stream."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get(STREAM) == f"{status.st_dev}:{status.st_ino}"


def with_priority(text: str, priority: int) -> str:
    """Return a text with this priority on every line: the journal keeps each line as an entry of its own."""
    return "".join(f"<{priority}>{line}" for line in text.splitlines(keepends=True))
