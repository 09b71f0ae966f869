"""The installed parts of GoClaw on this machine, with place and size, and their removal.

Only things that GoClaw made are removed, recognised by its traces in them: an environment by its stamp, a unit by its
first line, a link by where it leads, a completion by the variable in it. No link is followed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.config.state import LOCK, open_state
from goclaw.common.core.files import lies_inside
from goclaw.common.core.records import record
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.errors import StateError
from goclaw.program.ops.backup.swap import remove

ENVIRONMENTS = (".venv", ".venv-dev")
STAMPS = (".origin", ".stamp")
"""Files that `scripts/_bootstrap.py` leaves in an environment that it made."""
TOOLS = ".tools"
COMPLETIONS = (
    ".local/share/bash-completion/completions/goclaw",
    ".zfunc/_goclaw",
    ".zsh/completions/_goclaw",
    ".local/share/zsh/site-functions/_goclaw",
    ".config/fish/completions/goclaw.fish",
)
"""Where shells look for completions of a user, relative to the home folder."""
STARTUP_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".config/fish/config.fish")
COMPLETION_MARK = "_GOCLAW_COMPLETE"
OURS = (
    *("goclaw.lock", "goclaw.sock", "goclaw.db*", "memory.db*", "registry.db*", "*.json", "*.json.new", "*.jsonl"),
    *("config.yaml", "secrets", "logs", "audit", "blobs", "notes", "prompt-files", "locks"),
    *("workspace", "people", "models", "plugins", "embeddings", "unpacked*"),
    *("restore.journal", "backup.key*", "not-restored-*"),
    *("upgrade.*", "upgrade-snapshot*", "trial", "*.before-restore-*", "*.restoring-*", ".goclaw-*", "goclaw-*.sock"),
)
"""Entries of a state folder that GoClaw makes."""


@record
class Item:
    """Something that was installed."""

    kind: str
    path: Path
    size: int
    """Bytes of all files in it."""


def in_checkout(root: Path) -> Iterator[Item]:
    """Yield the environments and tools that the scripts of a checkout made in it."""
    for name in ENVIRONMENTS:
        path = root / name
        if _is_own_folder(path) and (path / "pyvenv.cfg").is_file() and any((path / s).is_file() for s in STAMPS):
            yield Item("environment", path, size_of(path))
    path = root / TOOLS
    if _is_own_folder(path) and (path / "lock").is_file():
        yield Item("tools", path, size_of(path))


def links(targets: Sequence[Path], environ: Mapping[str, str], home: Path) -> Iterator[Item]:
    """Yield links called `goclaw` on PATH, and in a user's usual folders, that lead into one of the targets."""
    folders = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    for folder in dict.fromkeys([*folders, home / ".local" / "bin", home / "bin"]):
        path = folder / "goclaw"
        # What lies in an environment itself goes with it.
        outside = not any(folder.is_relative_to(target) for target in targets)
        if path.is_symlink() and outside and any(lies_inside(path, target) for target in targets):
            yield Item("link", path, 0)


def completions(home: Path) -> Iterator[Item]:
    """Yield files of completions that GoClaw printed."""
    for name in COMPLETIONS:
        path = home / name
        if path.is_file() and not path.is_symlink() and COMPLETION_MARK in _text(path):
            yield Item("completion", path, path.stat().st_size)


def startup_lines(home: Path) -> Iterator[str]:
    """Yield the places, `file:line`, where a person let a shell complete our commands: theirs to change."""
    for name in STARTUP_FILES:
        for number, line in enumerate(_text(home / name).splitlines(), 1):
            if COMPLETION_MARK in line:
                yield f"{home / name}:{number}"


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; no link is followed."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # removed meanwhile
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  # a hundred thousand files
    return total


def remove_whole(path: Path) -> None:
    """Remove a file or a folder.

    Raises:
        StateError: it cannot be removed whole.
    """
    remove(path)
    if os.path.lexists(path):
        raise StateError(f"{path}: cannot be removed completely; does it contain files of another user?")


def check_data(config: Config, here: Sequence[Path]) -> None:
    """Check that a state folder is one, and only one.

    Args:
        config: which names it.
        here: folders that must survive: what GoClaw runs from, the home folder, the current one.

    Raises:
        StateError: it is no state folder, or its removal would take more with it.
    """
    folder = config.state_dir
    if folder.is_symlink():
        raise StateError(f"{folder}: is a link to {folder.resolve()}, which GoClaw did not create; remove it by hand")
    if not folder.is_dir():
        raise StateError(f"{folder}: there is no such folder, so there is no data to remove")
    if inside := next((each for each in here if lies_inside(each, folder)), None):
        raise StateError(f"{folder}: also contains {inside}, so it is not removed; `state_dir` names it")
    if folder.is_mount():
        raise StateError(f"{folder}: is a mounted file system (a volume); remove it where it was created")
    if folder.stat().st_uid != os.geteuid():
        raise StateError(f"{folder}: belongs to another user; run this as the user who runs GoClaw")
    if not (folder / LOCK).is_file():
        raise StateError(f"{folder}: GoClaw never used this folder (it has no {LOCK}), so it is not removed")


def make_complete(config: Config) -> None:
    """Make an empty database where none is yet: without one there can be no backup of the rest.

    Raises:
        StateError: a daemon runs, or it cannot be made.
    """
    with open_state(config):
        if not config.database_path.exists():
            migrate(config.database_path)


def remove_data(config: Config) -> list[Path]:
    """Remove the state folder; returns the remaining entries, which GoClaw did not make.

    Raises:
        StateError: a daemon runs, or something cannot be removed.
    """
    folder = config.state_dir
    with open_state(config):
        entries = sorted(folder.iterdir())
        # The lock last: whoever else wants the folder is kept out until all else is gone.
        for path in (each for each in entries if is_ours(each.name) and each.name != LOCK):
            remove_whole(path)
        left = [path for path in folder.iterdir() if path.name != LOCK]
        (folder / LOCK).unlink()
    if not left:
        folder.rmdir()
    return left


def is_ours(name: str) -> bool:
    """Whether an entry of a state folder is one that GoClaw makes."""
    return any(fnmatch(name, pattern) for pattern in OURS)


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.geteuid()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
