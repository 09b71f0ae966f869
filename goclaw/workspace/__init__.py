"""The agent's folder: every file access goes through a descriptor of it and cannot leave it.

Above: tools, memory, context. Below: errors and the clock. The state folder is a different place (`blobs`, `store`).
"""

from goclaw.workspace.completion import Completion
from goclaw.workspace.finding import Found, Wanted
from goclaw.workspace.globs import Entry
from goclaw.workspace.notes import USERS
from goclaw.workspace.patterns import Pattern, patterns
from goclaw.workspace.workspace import Opened, Stat, Version, Workspace, Written

__all__ = [
    "USERS",
    "Completion",
    "Entry",
    "Found",
    "Opened",
    "Pattern",
    "Stat",
    "Version",
    "Wanted",
    "Workspace",
    "Written",
    "patterns",
]
