"""Who shares a workspace: there, changes of prompt files need an approval (`workspace.approved_files`)."""

from collections.abc import Iterable
from pathlib import Path

from goclaw.auth.users import User, Users
from goclaw.config.policies import ADMIN
from goclaw.config.schema import Config
from goclaw.config.state import PROMPT_FILES
from goclaw.core.clock import Clock
from goclaw.core.files import lies_inside
from goclaw.workspace import ApprovedFiles


def approved_files(config: Config, users: Users, clock: Clock) -> ApprovedFiles:
    """Return the approved prompt files in the state folder of a configuration."""

    def shared(root: Path) -> bool:
        return is_shared(users.all(), config.workspace_path, root)

    return ApprovedFiles(config.state_dir / PROMPT_FILES, shared, lambda: users.in_force, clock)


def users_within(users: Iterable[User], default: Path, folder: Path) -> list[User]:
    """Return the users who can write in a folder: it is their workspace or lies in it. Reads the disk.

    Args:
        users: all of them.
        default: the workspace of users without one of their own.
        folder: the folder.
    """
    return [user for user in users if lies_inside(folder, (user.workspace or default).expanduser())]


def is_shared(users: Iterable[User], default: Path, folder: Path) -> bool:
    """Whether somebody who is no admin writes in a folder beside others; for the arguments see `users_within`."""
    found = users_within(users, default, folder)
    return len(found) > 1 and any(ADMIN not in user.roles for user in found)
