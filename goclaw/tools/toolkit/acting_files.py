"""Files that act by themselves: hooks, settings of tools, prompt files. What a command leaves there is set aside.

A program on the person's own machine runs or obeys such a file later, outside of every sandbox: git its hooks at the
next commit, an editor its tasks, a shell its start-up files, an agent its instructions.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from goclaw.common.core.records import record

ASIDE = "set-aside"
"""The folder of a workspace where such files are put."""
MAX_ENTRIES = 50_000
"""Entries of a workspace that are looked at."""
MAX_BYTES = 1 << 20
"""Bytes of a file that can be put back; a larger one is set aside only."""
MAX_NAMES = 5
_ACTING = re.compile(
    r"(^|/)(\.git/(hooks|config|config\.worktree|modules)|\.husky|\.github|\.vscode|\.idea|\.envrc|skills|"
    r"(claude|agents|soul|tools|identity|user|heartbeat|bootstrap|memory)\.md|"
    r"\.bashrc|\.bash_profile|\.bash_login|\.bash_logout|\.profile|\.zshrc|\.zshenv|\.zprofile|\.zlogin|\.pythonrc|"
    r"(sitecustomize|usercustomize|conftest)\.py)(/|$)|\.pth$|^memory/",
    re.IGNORECASE,
)
_GIT = re.compile(r"(^|/)\.git/", re.IGNORECASE)
_GIT_SETTINGS = re.compile(r"/(hooks/[^/]+|config|config\.worktree)$", re.IGNORECASE)
"""Of all that lies below `.git/modules/*`, and in `.git`."""
_GIT_FOLDER = re.compile(rb"gitdir: [^\0\n]*\.git/(worktrees|modules)/[^\0\n]*\n?\Z")
_HARMLESS_SECTIONS = re.compile(
    r"^\s*(\[(core|remote|branch|submodule|user|init|pull|push)\b[^\]]*\]|[#;].*)?\s*$", re.IGNORECASE
)
_HARMLESS_KEYS = frozenset(
    (
        *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode"),
        *("symlinks", "url", "fetch", "pushurl", "remote", "merge", "rebase", "name", "email", "active", "default"),
        *(
            "ff",
            "autosetupremote",
            "defaultbranch",
            "autocrlf",
            "eol",
            "quotepath",
            "worktree",
            "prune",
            "tagopt",
            "path",
        ),
    )
)
"""Keys of a repository's configuration that run nothing (git-config(1))."""


def acts_later(path: str) -> bool:
    """Whether what stands in a file acts by itself, later or elsewhere. `path`: in the workspace."""
    if not _ACTING.search(path):
        return False
    return bool(_GIT_SETTINGS.search(f"/{path}")) if "/modules/" in path and _GIT.search(path) else True


@record
class _Entry:
    mode: int
    content: bytes | None
    """Of a link where it leads; None: too much to keep."""


class ActingFiles:
    """The acting files below a folder, as they are when this is made; for a thread, as all its methods."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._before = dict(self._entries())

    def set_aside(self) -> list[str]:
        """Put away what has changed since, and put back what was there; return the paths."""
        after = dict(self._entries())
        known = {(_name(path), entry.content) for path, entry in self._before.items() if entry.content is not None}
        changed = [
            path
            for path, entry in after.items()
            if self._before.get(path) != entry
            and (_name(path), entry.content) not in known  # another checkout of the same file
            and not _is_harmless(path, entry)
        ]
        for path in changed:
            self._put_away(path)
        for path, entry in self._before.items():
            if path in changed or any(path.startswith(f"{each}/") for each in changed):
                self._put_back(path, entry)
        return changed

    def _entries(self) -> Iterator[tuple[str, _Entry]]:
        waiting, seen = [""], 0
        while waiting and seen <= MAX_ENTRIES:
            inside = waiting.pop()
            with suppress(OSError), os.scandir(self._folder / inside) as entries:
                for entry in entries:
                    path, seen = f"{inside}/{entry.name}".lstrip("/"), seen + 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [] if path.endswith(".git/objects") or path == ASIDE else [path]
                    elif acts_later(path) or entry.name == ".git":
                        yield path, _read(self._folder / path)

    def _put_away(self, path: str) -> None:
        aside = self._folder / ASIDE
        aside.mkdir(exist_ok=True)
        name = path.lstrip(".").replace("/", "_")
        numbers = (f"{name}.{number}" for number in range(1, MAX_ENTRIES))
        target = next(aside / each for each in (name, *numbers) if not os.path.lexists(aside / each))
        with suppress(OSError):
            (self._folder / path).rename(target)
            if not target.is_symlink():
                target.chmod(0o600)

    def _put_back(self, path: str, entry: _Entry) -> None:
        target = self._folder / path
        if entry.content is None or os.path.lexists(target):
            return
        with suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(entry.mode):
                target.symlink_to(os.fsdecode(entry.content))
            else:
                target.write_bytes(entry.content)
                target.chmod(stat.S_IMODE(entry.mode))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _read(path: Path) -> _Entry:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return _Entry(status.st_mode, os.fsencode(path.readlink()))
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return _Entry(status.st_mode, None)
        return _Entry(status.st_mode, path.read_bytes())
    except OSError:
        return _Entry(0, None)


def _is_harmless(path: str, entry: _Entry) -> bool:
    """Whether git runs nothing because of a file: a sample of a hook, or settings that name no program."""
    if _GIT.search(path) and path.endswith(".sample"):
        return True
    if _name(path) == ".git":  # of a worktree, or a submodule
        return stat.S_ISREG(entry.mode) and bool(_GIT_FOLDER.match(entry.content or b""))
    if not path.endswith(("/config", "/config.worktree")) or stat.S_ISLNK(entry.mode) or entry.content is None:
        return False
    return all(_is_harmless_line(line) for line in entry.content.decode("utf-8", "replace").splitlines())


def _is_harmless_line(line: str) -> bool:
    if _HARMLESS_SECTIONS.match(line):
        return True
    key, sign, value = line.partition("=")
    is_plain = sign and key.strip().casefold() in _HARMLESS_KEYS and not line.rstrip().endswith("\\")
    return bool(is_plain) and not value.strip().strip('"').startswith(("ext::", "!", "-"))


def describe(paths: list[str]) -> str:
    """Return the line about files set aside, for the model and for people."""
    names = ", ".join(paths[:MAX_NAMES]) + (f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else "")
    return (
        f"[set aside in {ASIDE}/: {names}. Such files act later by themselves, and this conversation holds words of "
        "others: a person can move them back]"
    )
