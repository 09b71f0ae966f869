"""Files of the state folder that are in the database, too: users, tokens, private notes, pictures and the like.

The folder has them for those who read and edit files; the database, so that every gateway finds them. Which files:
those that `STATE_PATHS` says, and the media of `store.blobs`. What changes in the folder is sent within a second, a
picture before anything refers to it, and fetched by the other processes immediately.

A file that changed on one side since both were last the same is taken from that side. Where it changed on both it is
merged (`state_merge`); where it cannot be, or the database has an older one than then, the database's counts, and the
folder's is set aside; but one that cannot be moved, such as a mount of Kubernetes, counts itself. The audit log of a
folder is its own: several of them are in the database, each under another name.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from goclaw.common.auth.audit_chain import Blanking
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, keep_running, set_within
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Database
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.state_audits import FORGOTTEN, StateAudits
from goclaw.durable.store.postgres.state_folder import AUDIT, StateFolder, key_of, of_media
from goclaw.durable.store.postgres.state_media import StateMedia, whole
from goclaw.durable.store.postgres.state_merge import is_audit, is_mergeable, merged
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles, has_grown, stored_file
from goclaw.errors import DiskError, DiskFault, StateError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.8
"""Between two looks for files that have changed; as often as `auth.users` looks."""
_NAME, _OF_MEDIA = "files of the state folder", "pictures and files of conversations"
TOPIC = "files"
"""Topic of the notices that a file of the database has changed, with its name."""
MAX_PIECES = 1_000
"""Pieces of a file to which something was added, such as the audit log, until it is sent as a whole."""
TRIES = 10
"""Tries to bring a file together that is changed on both sides again and again."""


@record
class Settled:
    """The result of bringing folder and database together: numbers of files."""

    sent: int
    fetched: int
    set_aside: int


class _Moved(Exception):
    """A file has changed in the folder while it was brought together."""


class StateFiles:
    """The files of one state folder. Implements `store.shared_files.SharedFiles`. Made by `open_state_files`."""

    def __init__(self, database: Database, folder: Path, clock: Clock) -> None:
        self._stored = StoredFiles(database)
        self._notices = database.notices if isinstance(database, PostgresDatabase) else None
        self._folder = StateFolder(folder, clock)
        self._clock = clock
        self._same: dict[str, str] = {}
        """Hashes of the files by name, as of when folder and database were the same."""
        self._before: dict[str, bytes] = {}
        """Contents of files at that time, for files whose versions can be merged."""
        self._media = StateMedia(self._stored, self._folder, clock, self._telling, self._change)
        self._audits = StateAudits(database, self._stored, self._folder, clock, self._telling)
        self._pieces: dict[str, tuple[int, int]] = {}
        """Bytes and pieces of the files that were sent, for those to which something is added at their end."""
        self._one = asyncio.Lock()
        """Held while files are brought together."""
        self._is_noted = True
        """Whether the file in which all of this is kept has it as it is now."""
        self._heard: set[str] = set()
        """Files that other processes have changed, or this one."""
        self._has_missed = False
        self._news = asyncio.Event()
        self._followers: list[Callable[[], Awaitable[None]]] = []

    @property
    def chain(self) -> str:
        """The name of this folder's audit log; empty for that of a gateway which was the only one."""
        return self._folder.chain

    def on_fetch(self, call: Callable[[], Awaitable[None]]) -> None:
        """Have `call` called whenever files of the folder were replaced while it runs."""
        self._followers.append(call)

    async def settle(self) -> Settled:
        """Bring folder and database together; see the module for what counts. Media follow (`settle_media`).

        Raises:
            DiskError: the database cannot be reached.
            StateError: the folder cannot be written, or the data in the database is damaged.
        """
        async with self._one:
            self._same, self._media.keys, chain = await asyncio.to_thread(self._folder.read_notes)
            # The notes of an older GoClaw have no name: one gateway used the database, and its log had none.
            self._folder.chain = chain if chain is not None else "" if AUDIT in self._same else secrets.token_hex(4)
            await self._audits.blank_forgotten()
            stored = await self._stored.all()
            await self._media.take(self._media.keys, stored)
            theirs = {name: each.sha256 for name, each in stored.items() if self._is_followed(name)}
            ours = await asyncio.to_thread(self._folder.hashes)
            names = sorted(ours.keys() | theirs.keys() | self._same.keys())
            same = {name for name in names if ours.get(name) == theirs.get(name) == self._same.get(name)}
            due = [name for name in names if name not in same or is_mergeable(name)]
            done, troubles = await self._settle_all(due, begins=True)
            self._is_noted = False
            await self._keep_notes()
        for trouble in troubles.values():
            raise trouble
        return Settled(done.count("sent"), done.count("fetched"), done.count("set aside"))

    async def send_changes(self) -> int:
        """Send the files that changed in the folder since the last time; returns how many.

        Raises:
            DiskError: the database cannot be reached; unsent files are sent the next time.
            StateError: the folder has been emptied.
        """
        async with self._one:
            await self._audits.blank_forgotten()
            changed, gone = await asyncio.to_thread(self._folder.changes, dict(self._same))
            done, troubles = await self._settle_all([*changed, *gone])
            await self._keep_notes()
        await self._tell_followers(done)
        for trouble in troubles.values():
            raise trouble
        return len(done)

    async def fetch_changes(self) -> None:
        """Fetch what other processes have changed, as far as this one was told.

        Raises:
            DiskError: the database cannot be reached; it is fetched the next time.
            StateError: the folder cannot be written, or the data in the database is damaged.
        """
        if not self._heard and not self._has_missed:
            return
        async with self._one:
            heard, self._heard = self._heard, set()
            missed, self._has_missed = self._has_missed, False
            try:
                await self._audits.blank_forgotten()
                names = await self._changed_elsewhere() if missed else heard
                for key in filter(None, map(key_of, names)):
                    await self._media.fetch_removal(key)
                done, troubles = await self._settle_all(sorted(filter(self._is_followed, names)))
                self._heard |= troubles.keys()
                await self._keep_notes()
            except BaseException:
                self._has_missed = self._audits.is_due = True
                raise
        await self._tell_followers(done)
        for trouble in troubles.values():
            raise trouble

    async def settle_file(self, name: str) -> None:
        """Bring one file together now, because the next action depends on it.

        Raises:
            DiskError: the database cannot be reached.
            StateError: the folder cannot be written, or the data in the database is damaged.
        """
        async with self._one:
            if name in self._same and await asyncio.to_thread(self._folder.hash_of, name) is None:
                return  # it was removed, or all of the folder: `send_changes` tells which
            done = await self._settle(name)
            await self._keep_notes()
        await self._tell_followers([done])

    async def agree(self, name: str, data: bytes) -> bytes:
        """Store a small file that only its owner may read, unless the database has one of this name: return that one.

        The folder has it then. Raises as `fetch` does.
        """
        async with self._one:
            entry = stored_file(data, 0o600, self._clock.now())
            try:
                await self._stored.put(name, None, entry, data, *self._telling(name))
            except ConstraintViolated:  # another process was the first
                entry = await self._stored.get(name) or entry
            await self._settle(name)
            await self._keep_notes()
            return await self._stored.data(name, entry)

    def listen(self) -> None:
        """Hear of what other processes change, for `follow`."""
        if self._notices is not None:
            self._notices.hear(TOPIC, self._hear, self._miss)

    async def follow(self) -> None:
        """Bring media together, and meanwhile what changes on either side, until cancelled."""
        async with background(keep_running(_OF_MEDIA, self.settle_media, self._clock), _OF_MEDIA):
            await self._follow_changes()

    async def _follow_changes(self) -> None:
        is_troubled = False
        while True:
            trouble: Exception | None = None
            for part in (self.fetch_changes, self.send_changes):
                try:
                    await part()
                except (StateError, OSError) as error:
                    trouble = trouble or error
            if trouble is not None:
                if not is_troubled:
                    log.warning("folder and database do not have the same files yet: %s", trouble)
                await self._clock.sleep(LOOK_SECONDS)
            is_troubled = trouble is not None
            await set_within(self._news, self._clock, LOOK_SECONDS)
            self._news.clear()

    async def send_all(self) -> None:
        """Make the database equal to the folder, media too; its other files are set aside.

        Audit logs of other folders stay as they are.

        Raises:
            DiskError: the database cannot be reached.
            StateError: the data in the database is damaged, or cannot be set aside.
        """
        ours = await asyncio.to_thread(self._folder.all_hashes)
        theirs = {name: each for name, each in (await self._stored.all()).items() if self._folder.is_ours(name)}
        for name, entry in theirs.items():
            if ours.get(name) != entry.sha256:
                data = await self._stored.data(name, entry)
                await asyncio.to_thread(self._folder.write, self._folder.aside(name), data, entry)
                if name not in ours:
                    await self._stored.remove(name, entry.sha256, *self._telling(name))
        for name in sorted(ours):
            if name not in theirs or theirs[name].sha256 != ours[name]:
                self._same[name] = theirs[name].sha256 if name in theirs else ""
                await self._send(name)
        self._same = {name: digest for name, digest in ours.items() if not key_of(name)}
        self._media.keys = {key for key in map(key_of, ours) if key}
        self._is_noted = False
        await self._keep_notes()

    async def compare(self) -> int:
        """Return how many files folder and database have.

        Raises:
            DiskError: the database cannot be reached.
            StateError: they do not have the same.
        """
        ours, stored = await asyncio.to_thread(self._folder.all_hashes), await self._stored.all()
        theirs = {name: each.sha256 for name, each in stored.items() if self._folder.is_ours(name)}
        if different := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
            raise StateError(f"not the same in {self._folder.path} and in the database: {', '.join(different[:5])}")
        return len(ours)

    async def keep(self, key: str) -> None:
        await self._media.keep(key)

    async def fetch(self, key: str) -> bool:
        return await self._media.fetch(key)

    async def old(self, until: float) -> set[str]:
        return await self._media.old(until)

    async def drop(self, keys: Iterable[str], until: float) -> None:
        await self._media.drop(keys, until)

    async def fetch_audits(self) -> None:
        await self._audits.fetch()

    async def blank_audits(self, wanted: Blanking) -> int:
        return await self._audits.blank(wanted)

    async def prune_audits(self, before: float) -> Sequence[str]:
        return await self._audits.prune(before)

    async def settle_media(self) -> None:
        """Get all media that the folder lacks, and send those that the database lacks; raises as `settle` does."""
        await self._media.settle()

    def _change(self) -> None:
        self._is_noted = False

    def _hear(self, name: str) -> None:
        self._heard.add(name)
        self._audits.is_due |= name == FORGOTTEN
        self._news.set()

    def _miss(self) -> None:
        self._has_missed = self._audits.is_due = True
        self._news.set()

    async def _tell_followers(self, done: Iterable[str]) -> None:
        if {"fetched", "merged", "set aside"} & set(done):
            for call in self._followers:
                await call()

    def _telling(self, name: str) -> list[BoundStatement]:
        return [self._notices.told(TOPIC, name)] if self._notices is not None else []

    def _is_followed(self, name: str) -> bool:
        """Whether a stored file belongs into the folder from the start: media come when they are asked for."""
        return not key_of(name) and self._folder.is_ours(name)

    async def _changed_elsewhere(self) -> set[str]:
        """Return the names of changed files and vanished media that this process was not notified of."""
        stored = await self._stored.all()
        theirs = {name: each.sha256 for name, each in stored.items() if self._is_followed(name)}
        changed = {name for name, sha256 in theirs.items() if sha256 != self._same.get(name)}
        gone = {name for key in self._media.keys - whole(stored) for name in of_media(key)}
        return changed | gone | (self._same.keys() - stored.keys())

    async def _settle_all(
        self, names: Iterable[str], *, begins: bool = False
    ) -> tuple[list[str], dict[str, Exception]]:
        """Bring files together; returns the changes, and the failures with reasons: these hold up no other.

        Raises:
            DiskError: the database cannot be reached.
        """
        done, troubles = list[str](), dict[str, Exception]()
        for name in names:
            if is_audit(name) and not self._folder.is_ours(name):
                continue  # the log has another name since this began
            try:
                done.append(await self._settle(name, begins=begins))
            except (StateError, OSError) as error:
                if isinstance(error, DiskError) and error.fault is DiskFault.UNREACHABLE:
                    self._audits.is_due = True
                    raise
                troubles[name] = error
        return done, troubles

    async def _settle(self, name: str, *, begins: bool = False) -> str:
        """Bring a file together; returns the change. `begins`: nothing is known of what happened before.

        Raises:
            DiskError: the database cannot be reached, or the folder not be written.
            StateError: the data in the database is damaged, or the file changes all the time.
        """
        for _ in range(TRIES):
            with suppress(ConstraintViolated, _Moved, FileNotFoundError):
                return await self._settle_as_seen(name, begins=begins)
        raise StateError(f"{name} changes again and again, in {self._folder.path} and in the database")

    async def _settle_as_seen(self, name: str, *, begins: bool) -> str:
        """Do what `_settle` does, if neither side changes meanwhile.

        Raises:
            ConstraintViolated, _Moved, FileNotFoundError: one has.
        """
        here, before = await asyncio.to_thread(self._folder.hash_of, name), self._same.get(name)
        entry = await self._stored.get(name)
        there = entry.sha256 if entry else None
        if here == there == before and not begins:
            return ""
        if here == there:
            self._note(name, here, await asyncio.to_thread(self._folder.base_of, name))
            return ""
        if there == before or (there is None and here != before):
            await self._send_or_remove(name, here, there)
            return "sent"
        is_newer = begins and await asyncio.to_thread(self._folder.is_newer, name, entry)
        if (is_newer or here != before) and await self._goes_on(name, entry):
            return "sent"
        if here in (None, before) and not is_newer:
            await self._fetch(name, here, entry)
            return "fetched"
        if entry is not None and here is not None:
            # Made on both sides since they were the same: before there was nothing.
            is_new = not begins and name not in self._same
            if await self._merge(name, here, entry, b"{}" if is_new else self._before.get(name)):
                return "merged"
        if is_audit(name):
            await self._begin_chain()
            return "sent"
        if await asyncio.to_thread(self._folder.set_aside, name):
            await self._fetch(name, None, entry)
            return "set aside"
        await self._send_or_remove(name, here, there)
        return "sent"

    async def _merge(self, name: str, here: str, entry: StoredFile, before: bytes | None) -> bool:
        """Make one of both versions. False: they cannot be merged."""
        ours, _ = await asyncio.to_thread(self._folder.read, name)
        theirs = await self._stored.data(name, entry)
        both = merged(name, before, ours, theirs)
        if both is None:
            return False
        if not await asyncio.to_thread(self._folder.exchange, name, here, both, entry):
            raise _Moved
        log.info("%s was changed here and by another process: both changes are in it now", name)
        self._note(name, entry.sha256, theirs)
        if hashlib.sha256(both).hexdigest() != entry.sha256:
            await self._send(name)
        return True

    async def _goes_on(self, name: str, entry: StoredFile | None) -> bool:
        """Store a file of the audit log in place of one; the folder has that one's lines, here or in another file."""
        if entry is None or not is_audit(name):
            return False
        if not await self._audits.adopt(name, await self._stored.data(name, entry)):
            return False
        await self._send_or_remove(name, await asyncio.to_thread(self._folder.hash_of, name), entry.sha256)
        return True

    async def _begin_chain(self) -> None:
        """Store the audit log of this folder under a name of its own: another folder goes on with it under this one."""
        log.error("another gateway goes on with the audit log of %s, perhaps in a copy of it", self._folder.path)
        for name in [name for name in self._same if is_audit(name)]:
            self._note(name, None)
        self._folder.chain = secrets.token_hex(4)
        for name in [name for name in await asyncio.to_thread(self._folder.hashes) if is_audit(name)]:
            await self._send(name)

    async def _send(self, name: str) -> None:
        """Store a file as it is now, in the place of the version that was the same last.

        Raises:
            ConstraintViolated: another process has stored another one.
            FileNotFoundError: it has gone.
        """
        data, entry = await asyncio.to_thread(self._folder.read, name)
        size, pieces = self._pieces.get(name, (0, MAX_PIECES))
        known, telling = self._same.get(name) or None, self._telling(name)
        if known and pieces < MAX_PIECES and await asyncio.to_thread(has_grown, data, size, known):
            await self._stored.append(name, known, entry, pieces, data[size:], *telling)
            pieces += 1
        else:
            pieces = await self._stored.put(name, known, entry, data, *telling)
        self._note(name, entry.sha256, data)
        if not key_of(name):
            self._pieces[name] = len(data), pieces

    async def _send_or_remove(self, name: str, here: str | None, there: str | None) -> None:
        if there is None:
            self._same.pop(name, None)
        else:
            self._same[name] = there
        if here is not None:
            await self._send(name)
        elif there is not None:
            await self._stored.remove(name, there, *self._telling(name))
            self._note(name, None)

    async def _fetch(self, name: str, here: str | None, entry: StoredFile | None) -> None:
        """Copy the database's version to the folder.

        Raises:
            _Moved: the folder's file is not the one that was seen.
        """
        data = await self._stored.data(name, entry) if entry else None
        if not await asyncio.to_thread(self._folder.exchange, name, here, data, entry):
            raise _Moved
        self._note(name, entry.sha256 if entry else None, data)

    def _note(self, name: str, sha256: str | None, data: bytes | None = None) -> None:
        """Note that folder and database have the same."""
        self._pieces.pop(name, None)
        self._before.pop(name, None)
        if sha256 is None:
            self._same.pop(name, None)
        elif not key_of(name):
            self._same[name] = sha256
            if data is not None and is_mergeable(name):
                self._before[name] = data
        self._is_noted = False

    async def _keep_notes(self) -> None:
        if not self._is_noted:
            self._is_noted = True
            try:
                await asyncio.to_thread(self._folder.write_notes, dict(self._same), set(self._media.keys))
            except StateError:
                self._is_noted = False
                raise


@asynccontextmanager
async def open_state_files(database: Database, folder: Path, clock: Clock) -> AsyncIterator[StateFiles]:
    """Bring the state folder and the database together, and keep them so until the block ends.

    Raises:
        DiskError: the database cannot be reached.
        StateError: the folder cannot be written, or the data in the database is damaged.
    """
    files = StateFiles(database, folder, clock)
    done = await files.settle()
    if done.fetched or done.set_aside:
        log.info("files of the state folder from the database: %d, set aside: %d", done.fetched, done.set_aside)
    files.listen()
    async with background(keep_running(_NAME, files.follow, clock), _NAME):
        yield files
    with suppress(StateError, OSError):  # they are sent at the next start
        await files.send_changes()
