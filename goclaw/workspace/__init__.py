"""The agent's folder: every file access goes through a descriptor of it and cannot leave it.

Above: tools, memory, context. Below: errors and the clock. The state folder is a different place (`blobs`, `store`).
"""

from goclaw.workspace.completion import Completion
from goclaw.workspace.described import ABSENT, FileChanged, Opened, Stat, Version, Written
from goclaw.workspace.finding import Found, Wanted
from goclaw.workspace.globs import Entry
from goclaw.workspace.locking import again_when_changed
from goclaw.workspace.notes import USERS
from goclaw.workspace.patterns import Pattern, patterns
from goclaw.workspace.workspace import Workspace

__all__ = [
    "ABSENT",
    "USERS",
    "Completion",
    "Entry",
    "FileChanged",
    "Found",
    "Opened",
    "Pattern",
    "Stat",
    "Version",
    "Wanted",
    "Workspace",
    "Written",
    "again_when_changed",
    "patterns",
]
