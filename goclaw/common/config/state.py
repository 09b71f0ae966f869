"""The state folder: private, outside every workspace, and used by one process at a time."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from goclaw.common.config.schema import Config
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import flush, lies_inside
from goclaw.common.core.records import record
from goclaw.errors import StateError

MAX_SOCKET_PATH = 107
"""Bytes in the path of a Unix socket: `sun_path` has 108 with its end (unix(7))."""
LOCK = "goclaw.lock"
LOCKS = "locks"
"""The folder of the locks that writers of one workspace share; see `workspace.atomic`."""
NOTES = "notes"
"""The folder of private notes; see `workspace.notes`."""
UPGRADE_JOURNAL = "upgrade.json"
"""Says how far an upgrade is; see `ops.upgrade.journal`."""
UPGRADE_UNCOMMITTED = "upgrade.uncommitted"
"""There from the switch to a new version until that begins to work; see `commit_upgrade`."""
PROMPT_FILES = "prompt-files"
"""The folder of approved prompt files; see `workspace.approved_files`."""
MEDIA = "blobs/media"
"""The folder of pictures and files; see `store.blobs`."""
USED_STORE = "used-store"
"""The file that names the Postgres that the folder was used with last; SQLite has none."""
WEBHOOK_SECRET = "telegram__webhook__secret"  # noqa: S105  # a name, no secret
"""The file in `secrets/` with what Telegram says with every call, made at need; see `channels.telegram.webhook`."""
BACKUP_KEY = "backup.key"
"""The key by which `goclaw restore` knows its own backups again; in none of them."""
NOT_RESTORED = "not-restored-"
"""Begins the name of a folder with what a restore left off."""
SHARED_FILES, SET_ASIDE = "shared-files.json", "set-aside"
"""With Postgres: hashes of the copies of documents, and the folder of edits that do not count."""


class Locality(StrEnum):
    """Which processes of one deployment need a piece of state: the rule for what replicas may have of their own."""

    SHARED = "shared"
    """Every process must see the same, and losing it loses something that was said, decided or allowed."""
    DERIVED = "derived"
    """Can be rebuilt from shared data: every process may have its own copy, and no backup needs it."""
    LOCAL = "local"
    """Means something to one process or one machine only; it ends with that."""


@record
class StatePath:
    """A file or folder below the state folder."""

    pattern: str
    """Relative path, as `fnmatch` takes it; a folder stands for all that is in it."""
    locality: Locality
    private: bool = False
    """A folder that only the owner may read: no workspace may lie in it."""
    early: bool = False
    """It may be there before the first start."""
    in_store: bool = False
    """With Postgres it is a document of the database (`store.postgres.documents`), and this a copy."""


STATE_PATHS = (
    # What is set aside or written beside its place belongs to the machine where that happened.
    StatePath("*.before-restore-*", Locality.LOCAL),
    StatePath("*.restoring-*", Locality.LOCAL),
    StatePath(".*.tmp", Locality.LOCAL),
    StatePath("goclaw.db.*", Locality.LOCAL),
    StatePath("config.yaml", Locality.SHARED, early=True),
    StatePath("users.json*", Locality.SHARED, early=True, in_store=True),
    StatePath("access-tokens.json*", Locality.SHARED, in_store=True),
    # The one secret that GoClaw makes itself; all others come from whoever sets up a machine, and are in no database.
    StatePath(f"secrets/{WEBHOOK_SECRET}", Locality.SHARED, in_store=True),
    StatePath("secrets", Locality.SHARED, private=True, early=True),
    StatePath("goclaw.db*", Locality.SHARED),
    StatePath("registry.db*", Locality.SHARED),
    StatePath("blobs", Locality.SHARED, private=True),
    StatePath(NOTES, Locality.SHARED, private=True, in_store=True),
    StatePath(PROMPT_FILES, Locality.SHARED, in_store=True),
    StatePath("workspace", Locality.SHARED, early=True),
    StatePath("people", Locality.SHARED),
    StatePath("mcp-tools.json*", Locality.SHARED, in_store=True),
    StatePath("telegram-*.json*", Locality.SHARED),
    StatePath("logs/audit.jsonl*", Locality.SHARED),
    StatePath("tools", Locality.SHARED, early=True),
    StatePath("plugins/plugins.json*", Locality.SHARED),
    StatePath("plugins", Locality.DERIVED, early=True),
    StatePath("memory.db*", Locality.DERIVED),
    StatePath("models", Locality.DERIVED),
    StatePath("logs", Locality.LOCAL, private=True, early=True),
    StatePath(LOCK, Locality.LOCAL),
    StatePath(f"{BACKUP_KEY}*", Locality.LOCAL),
    StatePath(f"{NOT_RESTORED}*", Locality.LOCAL, private=True),
    StatePath(LOCKS, Locality.LOCAL),
    StatePath("goclaw.sock*", Locality.LOCAL),
    StatePath("daemon.json*", Locality.LOCAL),
    StatePath("mcp", Locality.LOCAL),
    StatePath("terminal_history*", Locality.LOCAL),
    StatePath(USED_STORE, Locality.LOCAL),
    StatePath("web-link.html*", Locality.LOCAL),
    StatePath("restore.journal*", Locality.LOCAL),
    StatePath("unpacked*", Locality.LOCAL),
    StatePath("upgrade*", Locality.LOCAL),
    StatePath("trial", Locality.LOCAL),
    StatePath(f"{SHARED_FILES}*", Locality.LOCAL),
    StatePath(SET_ASIDE, Locality.LOCAL, private=True),
)
"""Everything below the state folder; the first pattern that matches holds. `test_state_paths` finds
what is missing here."""
EARLY = {path.pattern.rstrip("*") for path in STATE_PATHS if path.early}
"""Entries that may be in a state folder before the first start."""
IN_STORE = tuple(path.pattern for path in STATE_PATHS if path.in_store)
"""Files, and folders of files, that are documents of the database where that is on Postgres."""
PRIVATE = tuple(path.pattern for path in STATE_PATHS if path.private)
"""Folders of the state folder that only the owner may read."""
LOCK_TRIES = 20
LOCK_PAUSE_SECONDS = 0.01


class Facts(Protocol):
    """Values that are kept over restarts, by name: `store.settings.Settings`."""

    async def fact(self, name: str) -> Any:
        """Return the value of a name; None: none is kept."""
        ...

    async def learn(self, name: str, value: object) -> None:
        """Keep a value that JSON can express."""
        ...


def state_path_of(path: str) -> StatePath | None:
    """Return what `STATE_PATHS` says of a relative path below the state folder; None: it does not list it."""
    parts = Path(path).parts
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    return next((each for each in STATE_PATHS if any(fnmatchcase(name, each.pattern) for name in names)), None)


def locality_of(path: str) -> Locality | None:
    """Return the locality of a relative path below the state folder; None: `STATE_PATHS` does not list it."""
    return found.locality if (found := state_path_of(path)) else None


class SharedFacts(Facts, Protocol):
    """Facts with a row for each of their parts, that several processes change: `store.settings.Settings`."""

    async def facts(self, name: str) -> Mapping[str, Any]:
        """Return the facts `name:PART` by their part, and that called `name` itself as the part ""."""
        ...

    async def learn_new(self, name: str, value: object) -> bool:
        """Keep a value, unless one of this name is kept. False: one is."""
        ...

    async def unlearn(self, name: str) -> bool:
        """Drop a value. False: there was none."""
        ...


@contextmanager
def open_state(config: Config) -> Iterator[None]:
    """Hold the state folder, made when missing (mode 0700), until the block ends.

    The lock belongs to the open file: it ends with the process however that dies, and a stale file locks nothing.

    Raises:
        StateError: another process holds it (the message has its pid), it cannot be used, or it lies in a workspace.
    """
    folder = config.state_dir
    check_apart(folder, config.workspace_path)
    if len(os.fsencode(config.socket_path)) > MAX_SOCKET_PATH:
        raise StateError(
            f"{config.socket_path}: too long for a socket ({MAX_SOCKET_PATH} bytes); choose a shorter `state_dir`"
        )
    make_private(folder)
    with _in_words(folder):
        lock = os.open(lock_path(config), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _lock(lock, folder)
        signature = f"{os.getpid()}\n".encode()
        with _in_words(folder):
            os.pwrite(lock, signature, 0)
            os.ftruncate(lock, len(signature))
        with suppress(OSError):  # left by a daemon that was killed: a socket means that one answers
            config.socket_path.unlink()
        yield
        with suppress(OSError):  # the disk can only be read meanwhile: the pid of a process that is gone does no harm
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(unusable(folder, error)) from None


def awaits_commit(config: Config) -> bool:
    """Whether the state folder is that of an upgrade that can still be undone."""
    return (config.state_dir / UPGRADE_UNCOMMITTED).exists()


def commit_upgrade(config: Config) -> None:
    """Commit an upgrade, if one waits for that: the removal of one file, on disk when this returns.

    Called under the lock of the state folder right before anything is answered, sent or acknowledged: until then a new
    version leaves the state such that the old one can go on with a copy of it.

    Raises:
        StateError: the file cannot be removed.
    """
    with _in_words(config.state_dir), suppress(FileNotFoundError):
        (config.state_dir / UPGRADE_UNCOMMITTED).unlink()
        flush(config.state_dir)


def running_pid(config: Config) -> int | None:
    """Return the pid of the process that holds the state folder; None when none does."""
    try:
        lock = os.open(lock_path(config), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid(lock)
    finally:
        os.close(lock)
    return None


def lock_path(config: Config) -> Path:
    """Return the file that is locked in place of the state folder; it holds the pid of its holder."""
    return config.state_dir / LOCK


def private_paths(config: Config) -> tuple[Path, ...]:
    """Return paths that no tool may touch: the whole state folder, and the parts that the configuration puts elsewhere.

    Its private folders are named, too, because they may be links to another place. A workspace in it is not meant.
    """
    folder = config.state_dir
    return (folder, *(folder / name for name in PRIVATE), config.users_path)


def check_apart(state_dir: Path, workspace: Path) -> None:
    """Refuse a workspace that contains the state folder or lies in a private part of it, links followed.

    The agent could read secrets there. A folder of its own in the state folder is fine: the default workspace is one.

    Raises:
        StateError: it does.
    """
    if lies_inside(state_dir, workspace):
        raise StateError(
            f"the state folder {state_dir} is inside the workspace {workspace}; set `state_dir` or `workspace` to "
            "another place"
        )
    if private := next((name for name in PRIVATE if lies_inside(workspace, state_dir / name)), None):
        raise StateError(f"the workspace {workspace} is inside {state_dir / private}; give the agent its own folder")


def make_private(folder: Path, inner: str = "") -> None:
    """Make the state folder (mode 0700) if it is missing; one that is ours already is made private again.

    `inner` is a folder in it that is needed, too.

    Raises:
        StateError: it cannot be made or changed.
    """
    with _in_words(folder):
        _make_private(folder)
        (folder / inner).mkdir(mode=0o700, exist_ok=True)


def unusable(folder: Path, error: OSError) -> str:
    """Describe why a state folder cannot be used."""
    remedies = {
        errno.EACCES: f"; give it to the user who runs GoClaw (uid {os.geteuid()})",
        errno.EPERM: f"; give it to the user who runs GoClaw (uid {os.geteuid()})",
        errno.EROFS: "; make its file system writable (`mount -o remount,rw`), or set `state_dir` to another place",
        errno.ENOSPC: "; make room on its disk, or set `state_dir` to another place",
        errno.EDQUOT: "; make room in the quota of its user, or set `state_dir` to another place",
    }
    return f"{folder}: cannot be used as state folder: {error.strerror}{remedies.get(error.errno or 0, '')}"


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    # A folder with other content may belong to more than GoClaw (a home folder): it is left as it is.
    ours = (folder / LOCK).exists() or {entry.name for entry in folder.iterdir()} <= EARLY
    if mode & 0o077 and ours and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)


def _lock(lock: int, folder: Path) -> None:
    pause = Event()
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _alive(_pid(lock)):
                break
            # The holder is only looking (`running_pid`), or about to write its pid.
            pause.wait(LOCK_PAUSE_SECONDS)
        except OSError as error:
            raise StateError(f"{folder}: this file system has no locks ({error.strerror}); use a local one") from None
        else:
            return
    pid = _pid(lock)
    holder = f"another GoClaw (pid {pid})" if pid else "another GoClaw"
    raise StateError(f"{holder} uses {folder}; stop it with {daemon_command('stop')}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return pid > 0


def _pid(lock: int) -> int:
    try:
        return int(os.pread(lock, 32, 0))
    except ValueError:
        return 0
