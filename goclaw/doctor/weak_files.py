"""Files and folders that people or programs other than GoClaw could read or change, each with what helps."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from glob import escape
from pathlib import Path

from goclaw.config.files import lies_inside, readable_by_others, shown_path
from goclaw.config.schema import Config
from goclaw.doctor.base import Finding, Verdict, weak
from goclaw.errors import SandboxUnavailable, StateError
from goclaw.sandbox.layout import refuse_system
from goclaw.state import check_apart
from goclaw.users import User

MAX_NAMED = 20
"""Files of one kind that are named; more of them add nothing."""
_COPIES = ("{}*.bak", "{}~", "{}.orig", "{}.old", "{}.save", ".{}.sw?")
"""Names of copies that editors, people and GoClaw's own migrations leave beside a file."""
_ARCHIVES = ("goclaw*.tar.gz", "goclaw*.tgz")
"""Names of backups as on docs/backup.md."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def weak_files(config: Config, users: Sequence[User], config_file: Path | None) -> Iterator[Finding]:
    """Yield weaknesses in the location of files, and in other users' access to them."""
    yield from _modes(config)
    ours = {config.state_dir, config.users_path.parent, config.workspace_path}
    yield from _ways_in({*ours, config_file.parent} if config_file else ours)
    yield from _copies([config.database_path, config.users_path, *([config_file] if config_file else ())])
    workspaces = list(dict.fromkeys([config.workspace_path, *(user.workspace for user in users if user.workspace)]))
    yield from _archives([config.state_dir, Path.home(), *workspaces], workspaces)
    for workspace in workspaces:
        yield from _workspace(config, workspace)


def _modes(config: Config) -> Iterator[Finding]:
    state = config.state_dir
    for path, rights, words, private in (
        (state, 0o077, "others can look into the state folder", "700"),
        (config.users_path, 0o022, "others can change who may do what", "600"),
    ):
        mode = _mode(path)
        if mode & rights:
            verdict: Verdict = "problem" if mode & 0o022 else "warning"
            yield weak(f"{shown_path(path)}: {words} (mode {mode:o})", f"`chmod {private} {shown_path(path)}`", verdict)
    # Only where the folder lets them in are these in reach.
    for path in (config.database_path, state / "goclaw.db-wal", state / "logs", state / "blobs"):
        if mode := readable_by_others(path):
            yield weak(
                f"{shown_path(path)}: others can read what was said (mode {mode:o})",
                f"`chmod go-rwx {shown_path(state)} {shown_path(path)}`",
            )


def _ways_in(folders: Iterable[Path]) -> Iterator[Finding]:
    """Yield folders on the way that others can rename, and so replace what is below."""
    for folder in sorted({above for one in folders for above in (one, *one.absolute().parents)}):
        try:
            found = folder.stat()
        except OSError:
            continue
        if found.st_mode & _WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX:
            mode = stat.S_IMODE(found.st_mode)
            yield weak(
                f"{folder}: others can replace what lies in it (mode {mode:o})", f"`chmod go-w {folder}`", "problem"
            )
        elif found.st_uid not in (0, os.geteuid()):
            yield weak(
                f"{folder} belongs to another user (uid {found.st_uid}), who can replace what lies in it",
                f"move it, or `chown {os.geteuid()} {folder}` if that is right",
                "problem",
            )


def _copies(files: Sequence[Path]) -> Iterator[Finding]:
    for original in files:
        for copy in _found([original.parent], [pattern.format(escape(original.name)) for pattern in _COPIES]):
            yield weak(
                f"{shown_path(copy)} is an old copy of {original.name}, with all that was taken out of it since",
                f"when all is well: `rm {shown_path(copy)}`",
            )


def _archives(folders: Iterable[Path], workspaces: Sequence[Path]) -> Iterator[Finding]:
    for file in _found(folders, _ARCHIVES):
        if any(lies_inside(file, workspace) for workspace in workspaces):
            yield weak(
                f"{shown_path(file)} lies in a workspace: the agent can read all conversations in this backup",
                "move it out of the workspace",
            )
        elif mode := readable_by_others(file):
            yield weak(
                f"{shown_path(file)}: others can read this backup (mode {mode:o})", f"`chmod 600 {shown_path(file)}`"
            )


def _workspace(config: Config, workspace: Path) -> Iterator[Finding]:
    shown = shown_path(workspace)
    try:
        check_apart(config.state_dir, workspace)
        refuse_system(workspace)
    except (StateError, SandboxUnavailable) as error:
        yield weak(str(error), "choose a folder that holds nothing but the agent's files", "problem")
        return
    if lies_inside(Path.home(), workspace):
        yield weak(
            f"the workspace {shown} holds a whole home: keys, shell files and mail are the agent's to read and write",
            "give the agent a folder of its own (`workspace`)",
        )
    if workspace.is_symlink():
        yield weak(
            f"the workspace {shown} is a symbolic link: whoever changes it moves the agent",
            f"name the folder itself: {os.path.realpath(workspace)}",
        )
    mode = _mode(workspace)
    if mode & stat.S_IWOTH and not lies_inside(workspace, Path(tempfile.gettempdir())):
        yield weak(f"{shown}: everybody can change the agent's files (mode {mode:o})", f"`chmod o-w {shown}`")


def _found(folders: Iterable[Path], patterns: Sequence[str]) -> Iterator[Path]:
    """Yield regular files of these names directly in these folders, each once."""
    seen: set[Path] = set()
    for folder in folders:
        for pattern in patterns:
            try:
                files = sorted(folder.glob(pattern))[:MAX_NAMED]
            except OSError:
                continue
            for file in files:
                if file not in seen and file.is_file() and not file.is_symlink():
                    seen.add(file)
                    yield file


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
