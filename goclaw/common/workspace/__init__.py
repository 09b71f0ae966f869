"""The agent's folder: every file access goes through a descriptor of it and cannot leave it.

Above: tools, memory, agent. Below: core. The state folder is a different place (`config.state`).

`path_resolver` opens each folder beneath a descriptor (`openat2`) and judges it by the inodes above it;
`forbidden_files` excludes the state folder. `notes` shows each person the private notes that the state folder keeps,
`shared`, in a person's own workspace, the folder that all share; `old_notes` moves private notes to the state folder
that earlier versions kept in the workspace. `approved_files` keeps the texts of prompt files that count where several
people work. `atomic` admits one process at a time between looking at a file and replacing it, by `flock` in `locks/` of
the state folder.
"""

from goclaw.common.workspace.approved_files import PROMPT_FILES as PROMPT_FILES
from goclaw.common.workspace.approved_files import ApprovedFiles as ApprovedFiles
from goclaw.common.workspace.approved_files import FileChange as FileChange
from goclaw.common.workspace.atomic import again_when_changed as again_when_changed
from goclaw.common.workspace.completion import PathCompleter as PathCompleter
from goclaw.common.workspace.described import ABSENT as ABSENT
from goclaw.common.workspace.described import FileChanged as FileChanged
from goclaw.common.workspace.described import FileStamp as FileStamp
from goclaw.common.workspace.described import Opened as Opened
from goclaw.common.workspace.described import Stat as Stat
from goclaw.common.workspace.described import Written as Written
from goclaw.common.workspace.finding import FileQuery as FileQuery
from goclaw.common.workspace.finding import FoundFiles as FoundFiles
from goclaw.common.workspace.finding import GlobMatch as GlobMatch
from goclaw.common.workspace.notes import USERS as USERS
from goclaw.common.workspace.old_notes import move_notes as move_notes
from goclaw.common.workspace.paths import FOLDER as FOLDER
from goclaw.common.workspace.patterns import Pattern as Pattern
from goclaw.common.workspace.patterns import patterns as patterns
from goclaw.common.workspace.shared import SHARED as SHARED
from goclaw.common.workspace.shared import link_shared as link_shared
from goclaw.common.workspace.shared import part_of_shared as part_of_shared
from goclaw.common.workspace.workspace import Workspace as Workspace
