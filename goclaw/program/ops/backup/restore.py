"""Restoration of a backup: it is checked, made ready next to the present state, and swapped with it.

Nothing of the present state is touched before the whole archive was read, checked and made ready; nothing of it is
ever deleted. Outside the state folder only places are written that this machine's configuration names, or that the
caller allows: a backup may be of any origin.
"""

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import NOT_RESTORED, open_state
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import lies_inside
from goclaw.common.core.plugin_folder import FOLDER as PLUGIN_FOLDER
from goclaw.common.core.plugin_folder import RECORD
from goclaw.common.core.records import record
from goclaw.common.workspace import move_notes
from goclaw.common.workspace.approved_files import place_of
from goclaw.durable.store.open import postgres
from goclaw.durable.store.sqlite.backup import check_database
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.errors import ConfigError, StateError
from goclaw.program.ops.backup import archive
from goclaw.program.ops.backup.archive import Manifest, read_archive, registry_file
from goclaw.program.ops.backup.collect import agent_folders, listed_users
from goclaw.program.ops.backup.settle import Settled, end_open_work, remember_replaced
from goclaw.program.ops.backup.swap import StagedRestore, leftovers, pending, remove, stamp_of, swap
from goclaw.program.ops.backup.trust import KINDS, list_risks, read_key, withhold

Reload = Callable[[Path, Path], Config]
"""The configuration as it would be with another file and another folder of secrets; raises ConfigError."""


_SETTINGS = (archive.CONFIG, archive.USERS, archive.SECRETS, archive.TOOLS, archive.PLUGINS)


def trust_nothing(risks: Mapping[str, Sequence[str]]) -> Collection[str]:
    """Trust no kind of a foreign archive."""
    return ()


@record
class RestoreSelection:
    """Parts to be restored besides the conversations."""

    settings: bool = True
    """Configuration, users.json and secrets."""
    workspace: bool = True
    outside: bool = False
    """Also places outside the state folder that only the backup names."""
    trust: Callable[[Mapping[str, Sequence[str]]], Collection[str]] = trust_nothing
    """From what a foreign archive has of each kind (`trust.list_risks`) to the kinds that are trusted."""


@record
class Restored:
    """The result of a restore."""

    manifest: Manifest
    parts: Sequence[str]
    """Parts that were restored."""
    notes: Sequence[str]
    """Parts that were not, or stayed as they were."""
    settled: Settled
    waiting: int | None
    """Messages of the replaced state that had no answer yet; None when it could not be read."""
    kept: Sequence[Path]
    """Folders that contain the replaced data, under names with `mark` in them."""
    mark: str
    left_off: Mapping[str, Sequence[str]]
    """The parts of the archive that are not in force, by kind."""
    left_off_in: Path | None
    """The folder that keeps it."""


def restore(loaded: Loaded, file: Path, clock: Clock, reload: Reload, wanted: RestoreSelection) -> Restored:
    """Put the content of the archive `file` in place of the present state, which moves aside.

    Raises:
        ConfigError: the configuration in the backup cannot be used.
        StateError: a daemon runs; the archive is damaged, hostile or of a newer GoClaw, or names places that are not
            allowed; the disk is full. Nothing has changed then.
    """
    with open_state(loaded.config):
        for left in leftovers(loaded.config.state_dir):
            remove(left)
        work = _Restoring(loaded, clock.now(), reload, wanted)
        try:
            return work.run(file)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            end = "nothing has changed"
            if pending(loaded.config.state_dir):
                end = "the restore is half done; the next `goclaw` command continues it"
            raise StateError(f"the backup could not be restored: {words}; {end}") from error
        finally:
            if not pending(loaded.config.state_dir):
                work.ready.discard()


class _Restoring:
    """One restore, under the lock of the state folder."""

    def __init__(self, loaded: Loaded, now: float, reload: Reload, wanted: RestoreSelection) -> None:
        self.ready = StagedRestore(now)
        self._loaded = loaded
        self._here = loaded.config
        self._now = now
        self._reload = reload
        self._wanted = wanted
        self._parts: list[str] = []
        self._rows = self._replaced_rows = Path()
        """The database that is restored, where it goes into Postgres, and a copy of what it replaces there."""
        self._notes: list[str] = []
        self._left_off: dict[str, list[str]] = {}
        self._aside: Path | None = None
        """The folder of what stays off, until it is laid ready."""

    def run(self, file: Path) -> Restored:
        """Check everything, lay it ready, then swap."""
        unpacked = self.ready.new_folder(self._here.state_dir / "unpacked")
        manifest = read_archive(file, unpacked)
        _refuse_foreign(file, unpacked, manifest)
        self._check_new_database(unpacked / archive.DATABASE)
        if not archive.verify_seal(manifest, read_key(self._here.state_dir)):
            self._withhold(unpacked, without_config=bool(manifest.config_without and self._loaded.path))
        settled, waiting = self._lay_database(unpacked / archive.DATABASE, manifest)
        self._lay_media(unpacked / archive.MEDIA)
        self._lay_registries(unpacked / archive.REGISTRIES)
        self._lay_notes(unpacked, manifest)
        future, users = self._here, self._here.users_path
        if self._wanted.settings:
            future = self._lay_config(unpacked, manifest)
            users = self._lay_users(unpacked / archive.USERS, future)
            self._lay_secrets(unpacked / archive.SECRETS)
            self._lay_plugins(unpacked)
        else:
            self._notes.append("configuration, users.json and secrets stay unchanged")
        if self._wanted.workspace:
            self._lay_workspaces(unpacked, manifest, future, users)
        kept = self._lay_aside()
        if isinstance(place := self._here.store_place, PostgresPlace):
            # One transaction, and before the files: a restore that is killed between the two is run once more.
            self._replace_rows(place)
        swap(self._here.state_dir, self.ready.moves)
        folders, mark = self.ready.list_replaced_folders(), self.ready.mark
        return Restored(
            manifest,
            self._parts,
            self._notes,
            settled,
            waiting,
            folders,
            mark,
            left_off=self._left_off,
            left_off_in=kept,
        )

    def _check_new_database(self, new: Path) -> None:
        new.chmod(0o600)
        check_database(new)
        # Now and not at the next start: if it cannot be brought up to date, nothing must change.
        migrate(new)

    def _withhold(self, unpacked: Path, *, without_config: bool) -> None:
        """Ask what is trusted of an archive that is not our own, and take out the rest before anything reads it."""
        for name in _SETTINGS if not self._wanted.settings else (archive.CONFIG,) if without_config else ():
            remove(unpacked / name)  # the present ones stay
        risks = list_risks(unpacked, self._loaded)
        trusted = self._wanted.trust(risks) if risks else ()
        self._left_off = {kind: lines for kind, lines in risks.items() if kind not in trusted}
        self._aside = self.ready.new_folder(self._here.state_dir / "unpacked-off")
        withhold(unpacked, self._aside, self._loaded, [kind for kind in KINDS if kind not in trusted])

    def _lay_aside(self) -> Path | None:
        """Make the folder of what stays off ready, if there is anything in it."""
        if self._aside is None or not any(self._aside.iterdir()):
            return None
        place = self._here.state_dir / f"{NOT_RESTORED}{stamp_of(self._now)}"
        self.ready.put(self._aside, place)
        return place

    def _lay_database(self, new: Path, manifest: Manifest) -> tuple[Settled, int | None]:
        old, index = self._here.database_path, self._here.state_dir / "memory.db"
        is_file = not self._here.store
        if isinstance(place := self._here.store_place, PostgresPlace):
            old = new.parent / "replaced.db"  # not there where Postgres has nothing yet
            if postgres().exists(place):
                postgres().copy_to_file(place, old)
        try:
            settled = end_open_work(new, manifest.made_at, self._now)
            waiting = remember_replaced(new, old, self._now)
        except (sqlite3.Error, ValueError) as error:
            raise StateError(f"the database in the backup cannot be used: {error}") from error
        # The logs first: one belongs to the file that it was written for, and to no other.
        for path in (old, index) if is_file else (index,):
            self.ready.empty(path.with_name(f"{path.name}-wal"))
            self.ready.empty(path.with_name(f"{path.name}-shm"))
        # The index is made anew from the files of the workspace.
        self.ready.empty(index)
        if is_file:
            self.ready.put(new, old)
        else:
            self._rows, self._replaced_rows = new, old
        self._parts.append("conversations")
        return settled, waiting

    def _replace_rows(self, place: PostgresPlace) -> None:
        """Put the rows of the backup into Postgres; those that were there are kept as a file of SQLite."""
        kept = self._here.database_path.with_name(f"{self._here.database_path.name}{self.ready.mark}")
        if self._replaced_rows.exists():
            self._replaced_rows.rename(kept)
            self._notes.append(f"the previous data of Postgres are kept in {kept}, a SQLite file")
        try:
            postgres().replace_with_file(place, self._rows, False)
        except BaseException:
            kept.unlink(missing_ok=True)
            raise

    def _lay_media(self, new: Path) -> None:
        _make_private(new)
        pictures = sum(1 for path in new.iterdir() if not path.suffix)
        self.ready.put(new, self._here.state_dir / "blobs" / "media")
        self._parts.append("1 picture" if pictures == 1 else f"{pictures} pictures")

    def _lay_registries(self, new: Path) -> None:
        """Make the registries ready; a backup without registries leaves the present ones."""
        if not new.exists():
            return
        new.chmod(0o600)
        registry_file().check(new)
        place = self._here.state_dir / archive.REGISTRIES
        # As with the logs of the database: of a write that was cut it would undo what another file never had.
        self.ready.empty(place.with_name(f"{place.name}-journal"))
        self.ready.put(new, place)
        self._parts.append("registries")

    def _lay_notes(self, unpacked: Path, manifest: Manifest) -> None:
        """Make private notes ready, those that an earlier version kept in workspaces, too, if they are restored."""
        new = unpacked / archive.NOTES
        if not new.exists() and not self._wanted.workspace:
            return  # the present ones stay
        own = [unpacked / name for name in manifest.own_workspaces]
        move_notes(new, [*own, unpacked / archive.WORKSPACE])
        count = sum(path.is_file() for path in new.rglob("*"))
        self.ready.put(new, self._here.state_dir / archive.NOTES)
        if count:
            self._parts.append("1 private note" if count == 1 else f"{count:,} private notes")

    def _lay_config(self, unpacked: Path, manifest: Manifest) -> Config:
        """Make the configuration ready; return the one that will be in force."""
        new, without = unpacked / archive.CONFIG, ", ".join(manifest.config_without)
        if not new.exists():
            self._notes.append("configuration: the backup has none")
            return self._here
        if without and self._loaded.path:
            self._notes.append(f"{archive.CONFIG} stays unchanged: the one in the backup lacks its secrets ({without})")
            return self._here
        new.chmod(0o600)
        fresh = self.ready.put(new, self._loaded.path or self._here.state_dir / archive.CONFIG)
        try:
            future = self._reload(fresh, unpacked / archive.SECRETS)
        except ConfigError as error:
            if self._left_off and self._aside:
                self._leave_config(fresh, self._aside, error)
                return self._here
            hint = "the configuration in the backup cannot be used here; `--keep-settings` restores the rest"
            raise ConfigError(*error.problems, hint) from error
        if os.path.realpath(future.state_dir) != os.path.realpath(self._here.state_dir):
            raise StateError(
                f"the configuration in the backup names the state folder {future.state_dir}, not "
                f"{self._here.state_dir}: choose one with `--state-dir`, or add `--keep-settings`"
            )
        if future.store != self._here.store:
            raise StateError(
                "the configuration in the backup uses another database (`store`) than the one here: set `store` here "
                "and add `--keep-settings`"
            )
        self._parts.append(archive.CONFIG)
        if without:
            self._notes.append(
                f"secrets: {archive.CONFIG} came without {without}; put them in the environment or in `secrets/`"
            )
        return future

    def _leave_config(self, fresh: Path, aside: Path, error: ConfigError) -> None:
        """Keep the configuration here: that of the backup is nothing without what stays off."""
        self.ready.withdraw(fresh)
        if not (aside / archive.CONFIG).exists():
            fresh.rename(aside / archive.CONFIG)
        self._notes.append(
            f"{archive.CONFIG} stays unchanged: without what stays off it has a fault: {error.problems[0]}"
        )

    def _lay_users(self, new: Path, future: Config) -> Path:
        """Make users.json ready; return the path of the one that will be in force."""
        if not new.exists():
            return future.users_path
        self._refuse_outside(future.users_path)
        new.chmod(0o600)
        self._parts.append(archive.USERS)
        return self.ready.put(new, future.users_path)

    def _lay_secrets(self, new: Path) -> None:
        if new.exists():
            _make_private(new)
            self.ready.put(new, self._here.state_dir / archive.SECRETS)
            self._parts.append("secrets")

    def _lay_plugins(self, unpacked: Path) -> None:
        """Make plugins ready: one-file plugins, and the record of packages, which the next start installs."""
        if (new := unpacked / archive.PLUGINS).exists():
            new.chmod(0o600)
            place = self._here.state_dir / PLUGIN_FOLDER / RECORD
            place.parent.mkdir(mode=0o700, exist_ok=True)
            self.ready.put(new, place)
            self._parts.append("plugins, which the next start installs")
        if (new := unpacked / archive.TOOLS).exists():
            _make_private(new)
            self.ready.put(new, self._here.state_dir / archive.TOOLS)
            self._parts.append("one-file plugins")

    def _lay_workspaces(self, unpacked: Path, manifest: Manifest, future: Config, users: Path) -> None:
        roots, refused = agent_folders(future, listed_users(users)[0])
        self._notes += refused
        places = {root.user: root.path for root in roots}
        for name, user in (("", ""), *manifest.own_workspaces.items()):
            new = unpacked / (name or archive.WORKSPACE)
            if not new.is_dir():
                continue
            if user not in places:
                self._notes.append(f"workspace of {user or 'all'}: it has no folder here")
                continue
            self._refuse_outside(places[user])
            count = len(manifest.within(name or archive.WORKSPACE))
            self.ready.put_folder(new, places[user])
            approved = (name or archive.WORKSPACE).replace("/", "-")
            self._lay_approved_files(unpacked / archive.PROMPT_FILES / approved, places[user])
            self._parts.append(f"workspace {places[user]} ({count:,} {'file' if count == 1 else 'files'})")

    def _lay_approved_files(self, new: Path, workspace: Path) -> None:
        """Make the approved prompt files of a workspace ready; without them the restored files are approved."""
        place = place_of(self._here.state_dir / archive.PROMPT_FILES, workspace)
        if new.is_file():
            place.parent.mkdir(mode=0o700, exist_ok=True)
            new.chmod(0o600)
            self.ready.put(new, place)
        elif place.exists():
            self.ready.empty(place)

    def _refuse_outside(self, place: Path) -> None:
        """Refuse a place that neither lies in the state folder nor is named by the configuration in force here."""
        here, _ = agent_folders(self._here, listed_users(self._here.users_path)[0])
        named = [self._here.users_path, *(root.path for root in here)]
        real = Path(os.path.realpath(place))
        if lies_inside(real, self._here.state_dir) or real in {Path(os.path.realpath(path)) for path in named}:
            return
        if not self._wanted.outside:
            raise StateError(
                f"the backup would write to {place}, which is outside the state folder and not in the configuration "
                "here. Add `--outside` if you trust the backup, or skip that part with `--no-workspace` or "
                "`--keep-settings`. Nothing has changed"
            )


def _refuse_foreign(file: Path, unpacked: Path, manifest: Manifest) -> None:
    """Refuse an archive that is whole but holds other things than a backup does, or in other places.

    Raises:
        StateError: it does.
    """
    files = {archive.DATABASE, archive.REGISTRIES, archive.CONFIG, archive.USERS, archive.PLUGINS}
    folders = {archive.MEDIA, archive.NOTES, archive.PROMPT_FILES, archive.SECRETS, archive.TOOLS}
    folders |= {archive.WORKSPACE, archive.WORKSPACES}
    odd = [path.name for path in unpacked.iterdir() if path.name not in (folders if path.is_dir() else files)]
    # A link may be anything that the agent could have made itself: an entry of a workspace, never a workspace.
    odd += [name for name in manifest.links if not _is_entry_of_workspace(name)]
    odd += [name for name in manifest.own_workspaces if Path(name).parts[:-1] != (archive.WORKSPACES,)]
    if odd or not (unpacked / archive.DATABASE).is_file():
        what = f"it contains {odd[0][:200]!r}" if odd else "it contains no database"
        raise StateError(f"{file}: not a GoClaw backup: {what}")


def _is_entry_of_workspace(name: str) -> bool:
    top, *rest = Path(name).parts
    return len(rest) >= {archive.WORKSPACE: 1, archive.WORKSPACES: 2}.get(top, len(rest) + 1)


def _make_private(folder: Path) -> None:
    """Make the folder if it is missing, and close it and its files to other users."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600 if path.is_file() else 0o700)
