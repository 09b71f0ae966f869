"""Who shares a workspace: there, changes of prompt files need an approval (`workspace.approved_files`)."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from goclaw.common.auth.users import User, Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import Config
from goclaw.common.config.state import PROMPT_FILES
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import Writer, lies_inside, lock_folder
from goclaw.common.workspace import ApprovedFiles


def approved_files(config: Config, users: Users, clock: Clock, writer: Writer = lock_folder) -> ApprovedFiles:
    """Return the approved prompt files in the state folder of a configuration. `writer`: changes them."""
    folder = config.state_dir / PROMPT_FILES
    return ApprovedFiles(
        folder, lambda root: is_shared(config, users.all(), root), lambda: users.in_force, clock, writer
    )


def users_within(config: Config, users: Sequence[User], folder: Path) -> list[User]:
    """Return those of all users who can write in a folder. Reads the disk.

    It is their workspace, or what that shows as `shared/`, or lies in one of these.
    """
    places = places_of(config, users)
    inside = cache(partial(lies_inside, folder))  # most have the same place, and each look is one at the disk
    return [user for user in users if any(map(inside, places[user.key].folders))]


def is_shared(config: Config, users: Sequence[User], folder: Path) -> bool:
    """Whether a person without admin rights shares a folder with others; for the arguments see `users_within`."""
    found = users_within(config, users, folder)
    return len(found) > 1 and any(ADMIN not in user.roles for user in found)
