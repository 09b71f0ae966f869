"""The folder of packages that `goclaw plugin add` installed, after GoClaw's own on the path; their record.

`<state>/plugins/plugins.json` names the folder that is in force, in `<state>/plugins` too, and its content. A change
makes a new folder, then replaces the record: at any moment one of the two is whole. `ops.plugins` makes both.
"""

import fcntl
import hashlib
import json
import os
import site
import sys
from contextlib import suppress
from dataclasses import asdict, field, replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from goclaw.common.core.files import replace_file
from goclaw.common.core.plugins import API_VERSION
from goclaw.common.core.records import record

FOLDER = "plugins"
"""In the state folder."""
RECORD = "plugins.json"
SITE = "site-"
"""Begins the names of the folders that hold packages."""
PAUSE_SECONDS = 120.0
"""Until a plugin that failed is tried again, so that one start does not try twice (`goclaw start`, then the daemon)."""
LATER = (
    "is not used: its files are missing, or belong to other packages of GoClaw or another Python; the next start of "
    "the daemon restores it, and so does `goclaw plugin restore`"
)


@record
class InstalledPlugin:
    """A package that was added."""

    name: str
    """As its metadata have it."""
    source: str
    """The requirement as it was asked for: a name with bounds, an absolute path, `git+` and an address."""
    version: str = ""
    pinned: str = ""
    """The requirement that installs the very same again; empty: `source`."""
    digest: str = ""
    """SHA-256 of its files, as its RECORD lists them."""
    editable: bool = False
    parts: tuple[str, ...] = ()
    """Its lines of the group `goclaw.plugins`: `tools.weather`, `agents.gardener` …"""
    fault: str = ""
    """Why it is not in the folder; tried again at each start."""


@record
class PluginRecord:
    """The content of `plugins.json`."""

    folder: str = ""
    """Name of the folder in force; empty: none."""
    stamp: str = ""
    """The stamp (`stamp_of_host`) of the Python and the packages that the folder was made for."""
    plugins: tuple[InstalledPlugin, ...] = ()
    tried: float = 0.0
    """Unix time of the last installation."""
    fault: str = field(default="", compare=False)
    """Why the file cannot be read."""

    def is_due(self, now: float) -> bool:
        """Whether something is to be installed again at a start at `now`: what failed before, not at every moment."""
        if not self.plugins:
            return False
        failed = any(plugin.fault for plugin in self.plugins)
        return self.stamp != stamp_of_host() or (failed and not 0 <= now - self.tried < PAUSE_SECONDS)

    def left_out(self, why: str = "") -> "tuple[InstalledPlugin, ...]":
        """Return the plugins that are not in force, each with its fault; `why` holds for those without their own."""
        return tuple(replace(each, fault=each.fault or why) for each in self.plugins if each.fault or why)


def read_record(state_dir: Path) -> PluginRecord:
    """Return the record; a file that cannot be read is an empty record with a fault."""
    path = state_dir / FOLDER / RECORD
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())
        listed = said.pop("plugins")
        plugins = tuple(InstalledPlugin(**{**each, "parts": tuple(each.get("parts", ()))}) for each in listed)
        found = PluginRecord(plugins=plugins, **said)
    except (FileNotFoundError, NotADirectoryError):
        return PluginRecord()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        words = getattr(error, "strerror", None) or "it was not written by GoClaw"
        return PluginRecord(fault=f"{path}: cannot be read: {words}; `goclaw plugin add` creates a new one")
    if found.folder and (Path(found.folder).name != found.folder or not found.folder.startswith(SITE)):
        return PluginRecord(fault=f"{path}: names a folder elsewhere; `goclaw plugin add` creates a new one")
    if found.folder and not (path.parent / found.folder).is_dir():  # after a restore of a backup, for one
        return replace(found, folder="", stamp="")
    return found


def write_record(state_dir: Path, found: PluginRecord) -> None:
    """Replace the record; on disk when this returns. Raises OSError."""
    said = {name: value for name, value in asdict(found).items() if name != "fault"}
    replace_file(state_dir / FOLDER / RECORD, json.dumps(said, indent=1))


def stamp_of_host() -> str:
    """Return a digest of what plugins were installed for: Python, its platform, our packages with their versions.

    Read from the names of the folders with their metadata, which is a look at one or two folders.
    """
    names = sorted(
        {
            entry
            for folder in own_path()
            if folder.endswith(("/site-packages", "/dist-packages"))  # the two names that Pythons give them
            for entry in _list_folder(folder)
            if entry.endswith((".dist-info", ".egg-info"))
        }
    )
    # The first suffix names Python's version and the platform, as wheels do.
    about = [EXTENSION_SUFFIXES[0], str(sys.implementation.cache_tag), str(API_VERSION), *names]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()


def activate(state_dir: Path) -> tuple[InstalledPlugin, ...]:
    """Put the folder in force at the end of the path; return the plugins that are left out, each with its fault.

    One state folder's at a time: that of the last call. A folder that a process uses is not removed meanwhile.
    """
    _ACTIVE.left_out = _activate(state_dir)
    return _ACTIVE.left_out


def left_out(section: str) -> list[tuple[str, InstalledPlugin]]:
    """Return the parts of a section that plugins which are left out would have: the name of each, and its plugin."""
    prefix = f"{section}."
    every = ((line, plugin) for plugin in _ACTIVE.left_out for line in plugin.parts)
    return [(line.removeprefix(prefix), plugin) for line, plugin in every if line.startswith(prefix)]


def _activate(state_dir: Path) -> tuple[InstalledPlugin, ...]:
    found = read_record(state_dir)
    if found.fault:
        _ACTIVE.leave()
        return (InstalledPlugin(RECORD, "", fault=found.fault),)
    if not found.folder:
        _ACTIVE.leave()
        return found.left_out(LATER)
    for attempt in (found, read_record(state_dir)):  # it may have been replaced since it was read
        if attempt.stamp != stamp_of_host():
            _ACTIVE.leave()
            return attempt.left_out(LATER)
        if _ACTIVE.enter(state_dir / FOLDER / attempt.folder):
            return attempt.left_out()
    return found.left_out(LATER)


def own_path() -> list[str]:
    """Return the path of this process without the folder of plugins, and what that adds."""
    return [entry for entry in sys.path if entry not in _ACTIVE.added]


def deactivate() -> None:
    """Take the folder off the path again."""
    _ACTIVE.leave()
    _ACTIVE.left_out = ()


class _Active:
    """The folder that is on the path of this process."""

    def __init__(self) -> None:
        self.added: tuple[str, ...] = ()
        self.left_out: tuple[InstalledPlugin, ...] = ()
        self._folder: Path | None = None
        self._descriptor = -1

    def enter(self, folder: Path) -> bool:
        """Put a folder at the end of the path, with what its .pth files name; False: it is not there."""
        if folder == self._folder and str(folder) in sys.path:
            return folder.is_dir()
        self.leave()
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        before = set(sys.path)
        site.addsitedir(str(folder))
        self._folder, self.added = folder, tuple(entry for entry in sys.path if entry not in before)
        return True

    def leave(self) -> None:
        """Take it off the path."""
        if self._folder is None:
            return
        sys.path[:] = own_path()
        os.close(self._descriptor)
        self._folder, self.added, self._descriptor = None, (), -1


_ACTIVE = _Active()


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 -- names are all that is needed of a hundred entries
    except OSError:
        return []
