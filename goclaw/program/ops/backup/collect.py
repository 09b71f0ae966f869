"""Decides what goes into a backup, and makes it while the daemon runs, writes, and knows nothing of it."""

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from goclaw.common.auth.users import User, Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.document import without_secrets
from goclaw.common.config.load import Loaded
from goclaw.common.config.packaged import plugin_paths
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import MAX_FILE_BYTES
from goclaw.common.config.state import check_apart
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import lies_inside, publish, read_text, shown_path
from goclaw.common.core.plugin_folder import FOLDER as PLUGIN_FOLDER
from goclaw.common.core.plugin_folder import RECORD
from goclaw.common.core.records import record
from goclaw.common.workspace.approved_files import place_of
from goclaw.durable.store.open import postgres
from goclaw.durable.store.sqlite.backup import check_database, copy_database, needed_media, referred_media
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.errors import ConfigError, StateError
from goclaw.program.ops.backup import archive
from goclaw.program.ops.backup.archive import Manifest, Packer, as_text, pack, read_archive, registry_file
from goclaw.program.ops.backup.swap import is_ours
from goclaw.program.ops.backup.trust import read_key

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""The agent may put a link or a pipe where a file was a moment ago: neither is followed or waited for."""


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
    own = ((place.root, key) for key, place in places_of(config, users).items())
    for path, user in ((config.workspace_path, ""), *own):
        try:
            check_apart(config.state_dir, path)
        except StateError as error:
            refused.append(str(error))
        else:
            candidates.setdefault(Path(os.path.realpath(path)), user)
    roots = [
        BackupRoot(f"{archive.WORKSPACES}/{number}" if user else archive.WORKSPACE, path, user)
        for number, (path, user) in enumerate(candidates.items())
        if not any(other != path and lies_inside(path, other) for other in candidates)
    ]
    return roots, refused


@record
class Made:
    """The result of a backup."""

    manifest: Manifest
    size: int
    """Bytes of the archive."""
    notes: Sequence[str]
    """Notes on what it does not include although one might expect it, a line each."""


def back_up(loaded: Loaded, target: Path, clock: Clock, *, workspace: bool = True, secrets: bool = False) -> Made:
    """Write everything that cannot be made again into the new file `target`, and read it back to be sure.

    In it: the database, the pictures that it refers to, private notes, the data of registries and the publications
    here, the configuration, users.json; with `workspace` the folders of the agent; with `secrets` the secrets (without
    it the configuration is kept without them). The file appears whole or not at all.

    Raises:
        ConfigError: the configuration cannot be read any more.
        StateError: `target` exists or is no good place, the disk is full, the database is damaged.
    """
    users, problem = listed_users(loaded.config.users_path)
    roots, notes = agent_folders(loaded.config, users)
    if problem:
        notes.append(f"workspaces that only users.json names, because that file is broken: {problem}")
    _refuse_bad_place(target, loaded.config, roots)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name[:100]}.", dir=target.parent) as folder:
            copy, packed = Path(folder, archive.DATABASE), Path(folder, "archive")
            manifest = Manifest(clock.now(), _copy_database(loaded.config, copy))
            with pack(packed, manifest, read_key(loaded.config.state_dir, make=True)) as packer:
                collection = _Collection(loaded, packer, manifest, notes)
                packer.add_path(archive.DATABASE, copy)
                # After the database: whatever it refers to was on the disk before.
                collection.add_media(referred_media(copy), needed_media(copy))
                copy.unlink()
                collection.add_registries(Path(folder, archive.REGISTRIES))
                collection.add_notes()
                collection.add_settings(secrets=secrets)
                for root in roots:
                    if workspace and root.path.is_dir():
                        # Before the files: what is changed meanwhile is not approved with that.
                        collection.add_approved_files(root)
                        collection.add_workspace(root)
            if read_archive(packed) != manifest:
                raise StateError(f"{target}: the file does not read back as written; is the disk broken?")
            size = packed.stat().st_size
            try:
                publish(packed, target)
            except FileExistsError:
                raise StateError(f"another process has just created {target}; nothing was written") from None
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        raise StateError(f"{target}: could not be written: {words}. Nothing was left behind.") from error
    return Made(manifest, size, notes)


def _copy_database(config: Config, copy: Path) -> int:
    """Copy the database and return its schema. Makes an empty one where a registry is served and no daemon ever ran."""
    if isinstance(place := config.store_place, PostgresPlace):
        postgres().copy_to_file(place, copy)
        return check_database(copy)
    if config.database_path.exists() or not (config.state_dir / archive.REGISTRIES).exists():
        return copy_database(config.database_path, copy)
    migrate(copy)
    return check_database(copy)


def _refuse_bad_place(target: Path, config: Config, roots: Sequence[BackupRoot]) -> None:
    if target.is_dir():
        raise StateError(f"{target} is a folder: name a file in it, such as {target / 'goclaw.tar.gz'}")
    if os.path.lexists(target):
        raise StateError(f"{target} already exists, and a backup never overwrites anything: choose another name")
    if not target.parent.is_dir():
        raise StateError(f"{target.parent}: there is no such folder")
    if root := next((root for root in roots if lies_inside(target, root.path)), None):
        raise StateError(
            f"{target} is inside the workspace {root.path}, where the agent could read everybody's conversations"
        )
    if lies_inside(target, config.state_dir):
        raise StateError(
            f"{target} is inside the state folder and would be lost together with it; choose another place"
        )


class _Collection:
    """Puts one part after the other into an archive."""

    def __init__(self, loaded: Loaded, packer: Packer, manifest: Manifest, notes: list[str]) -> None:
        self._loaded = loaded
        self._config = loaded.config
        self._packer = packer
        self._manifest = manifest
        self._notes = notes

    def add_media(self, keys: set[str], needed: set[str]) -> None:
        """Add the pictures of conversations, each with its media type; without those that are no longer kept."""
        folder = self._config.state_dir / "blobs" / "media"
        lost = 0
        for key in sorted(keys):
            try:
                lost += self._packer.add_path(f"{archive.MEDIA}/{key}", folder / key) != key
                self._packer.add_path(f"{archive.MEDIA}/{key}.type", folder / f"{key}.type")
            except FileNotFoundError:
                lost += key in needed
        if lost:
            self._notes.append(f"{lost} of {len(keys)} pictures: they are missing or damaged in {folder}")

    def add_registries(self, copy: Path) -> None:
        """Add the publications of this gateway's registry, and the pins of all others: neither exists elsewhere."""
        if registry_file().copy(self._config.state_dir / archive.REGISTRIES, copy):
            self._packer.add_path(archive.REGISTRIES, copy)
            copy.unlink()

    def add_notes(self) -> None:
        """Add everybody's private notes; those that no start has moved yet are in the workspaces."""
        root = self._config.state_dir / archive.NOTES
        for place, _, files in os.walk(root):
            inner = Path(archive.NOTES, Path(place).relative_to(root))
            self._packer.add_folder(str(inner), 0o700, Path(place).stat().st_mtime)
            for path in (Path(place, name) for name in sorted(files)):
                with suppress(FileNotFoundError):  # removed since the folder was listed
                    if path.is_file():
                        self._packer.add_path(str(inner / path.name), path)

    def add_approved_files(self, root: BackupRoot) -> None:
        """Add the approved prompt files of a workspace, if it was seen."""
        with suppress(FileNotFoundError):
            place = place_of(self._config.state_dir / archive.PROMPT_FILES, root.path)
            self._packer.add_path(f"{archive.PROMPT_FILES}/{root.name.replace('/', '-')}", place)

    def add_settings(self, *, secrets: bool) -> None:
        """Add the configuration, users.json and, if wanted, the secrets folder."""
        if path := self._loaded.path:
            text = read_text(path, shown_path(path), MAX_FILE_BYTES)
            if not secrets:
                text, self._manifest.config_without = without_secrets(text)
            self._packer.add_bytes(archive.CONFIG, text.encode(), path.stat().st_mtime)
        if self._config.users_path.exists():
            self._packer.add_path(archive.USERS, self._config.users_path)
        self._add_plugins()
        folder = self._config.state_dir / "secrets"
        for file in sorted(folder.iterdir()) if secrets and folder.is_dir() else ():
            if file.is_file():
                self._packer.add_path(f"{archive.SECRETS}/{file.name}", file)

    def _add_plugins(self) -> None:
        """Add the record of plugins, without the packages themselves, and the one-file plugins of the state folder."""
        with suppress(FileNotFoundError):
            self._packer.add_path(archive.PLUGINS, self._config.state_dir / PLUGIN_FOLDER / RECORD)
        for file in plugin_paths(self._config.state_dir, ()):
            if file.is_file():
                self._packer.add_path(f"{archive.TOOLS}/{file.name}", file)

    def add_workspace(self, root: BackupRoot) -> None:
        """Add a folder of the agent as it is while it is read, which other turns may change meanwhile."""
        if root.user:
            self._manifest.own_workspaces[root.name] = root.user
        for place, folders, files, descriptor in os.fwalk(root.path, onerror=self._note_unreadable):
            if place == str(root.path):
                folders[:] = [name for name in folders if not is_ours(name)]
            inner = Path(place).relative_to(root.path)
            found = os.fstat(descriptor)
            self._packer.add_folder(str(Path(root.name, inner)), stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime)
            for name in sorted((*files, *(name for name in folders if _is_link(name, descriptor)))):
                self._add_entry(str(Path(root.name, inner, name)), name, descriptor)

    def _add_entry(self, member: str, name: str, folder: int) -> None:
        try:
            if _is_link(name, folder):
                self._add_link(member, os.readlink(name, dir_fd=folder))
                return
            descriptor = os.open(name, _OPEN, dir_fd=folder)
        except FileNotFoundError:
            return  # removed since the folder was listed
        except OSError as error:
            self._notes.append(f"{as_text(member)}: {error.strerror}")
            return
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode):
                # No more than it has now: it may grow faster than this reads.
                self._packer.add(member, file, stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime, found.st_size)
            else:
                self._notes.append(f"{as_text(member)}: a pipe, a socket or a device")

    def _add_link(self, member: str, target: str) -> None:
        if as_text(member) == member and as_text(target) == target:
            self._manifest.links[member] = target
        else:
            self._notes.append(f"{as_text(member)}: a link whose name is not UTF-8")

    def _note_unreadable(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self._notes.append(f"{error.filename}: {error.strerror}")


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return False
