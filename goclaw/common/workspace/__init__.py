"""The agent's folder: every file access goes through a descriptor of it and cannot leave it.

Above: tools, memory, agent. Below: core. The state folder is a different place (`config.state`).

`path_resolver` opens each folder beneath a descriptor (`openat2`) and judges it by the inodes above it;
`forbidden_files` excludes the state folder. `notes` shows each person the private notes that the state folder keeps,
`shared`, in a person's own workspace, the folder that all share; `old_notes` moves private notes to the state folder
that earlier versions kept in the workspace. `approved_files` keeps the texts of prompt files that count where several
people work. `atomic` admits one process at a time between looking at a file and replacing it, by `flock` in `locks/` of
the state folder.
"""

from goclaw.common.workspace.approved_files import PROMPT_FILES, ApprovedFiles, FileChange
from goclaw.common.workspace.atomic import again_when_changed
from goclaw.common.workspace.completion import PathCompleter
from goclaw.common.workspace.described import ABSENT, FileChanged, FileStamp, Opened, Stat, Written
from goclaw.common.workspace.finding import FileQuery, FoundFiles, GlobMatch
from goclaw.common.workspace.notes import USERS
from goclaw.common.workspace.old_notes import move_notes
from goclaw.common.workspace.paths import FOLDER
from goclaw.common.workspace.patterns import Pattern, patterns
from goclaw.common.workspace.shared import SHARED, link_shared, part_of_shared
from goclaw.common.workspace.workspace import Workspace

__all__ = [
    "ABSENT",
    "FOLDER",
    "PROMPT_FILES",
    "SHARED",
    "USERS",
    "ApprovedFiles",
    "FileChange",
    "FileChanged",
    "FileQuery",
    "FileStamp",
    "FoundFiles",
    "GlobMatch",
    "Opened",
    "PathCompleter",
    "Pattern",
    "Stat",
    "Workspace",
    "Written",
    "again_when_changed",
    "link_shared",
    "move_notes",
    "part_of_shared",
    "patterns",
]
