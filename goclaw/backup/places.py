"""Locations of a backup's parts on this machine: the folders of the agent, each with its name in an archive."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from goclaw.backup.manifest import WORKSPACE, WORKSPACES
from goclaw.config.files import lies_inside
from goclaw.config.schema import Config
from goclaw.errors import ConfigError, StateError
from goclaw.records import record
from goclaw.state import check_apart
from goclaw.users import User, Users


@record
class BackupRoot:
    """A folder of the agent."""

    name: str
    """In the archive: `workspace`, `workspaces/1` …"""
    path: Path
    """Links followed."""
    user: str = ""
    """Whose own workspace it is; empty: the configured one."""


def listed_users(path: Path) -> tuple[Sequence[User], str]:
    """Return the people in users.json, and why there are none if the file is broken."""
    try:
        return Users.read(path).all(), ""
    except ConfigError as error:
        return (), error.problems[0]


def agent_folders(config: Config, users: Sequence[User]) -> tuple[list[BackupRoot], list[str]]:
    """Return every workspace once, those inside another left out; and a line for each that cannot be one."""
    refused: list[str] = []
    candidates: dict[Path, str] = {}
    for path, user in ((config.workspace_path, ""), *((user.workspace, user.key) for user in users)):
        if path is None:
            continue
        try:
            check_apart(config.state_dir, path)
        except StateError as error:
            refused.append(str(error))
        else:
            candidates.setdefault(Path(os.path.realpath(path)), user)
    return list(_named(candidates)), refused


def _named(candidates: dict[Path, str]) -> Iterator[BackupRoot]:
    for number, (path, user) in enumerate(candidates.items()):
        if not any(other != path and lies_inside(path, other) for other in candidates):
            yield BackupRoot(f"{WORKSPACES}/{number}" if user else WORKSPACE, path, user)
