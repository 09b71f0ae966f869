"""Files of the state folder that are in the database, too: users, tokens, private notes, pictures and the like.

The folder has them for those who read and edit files; the database, so that a gateway with an empty folder finds them.
Which files: those that `STATE_PATHS` says, and the media of `store.blobs`. What changes in the folder is sent within a
second, a picture before anything refers to it. At the start both are brought together: a file that changed on one side
since both were last the same is taken from that side. Where it changed on both, or the database has an older one than
then, the database's counts, and the folder's is set aside; but one that cannot be moved, such as a mount of Kubernetes,
counts itself.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from goclaw.core.clock import Clock
from goclaw.core.records import record
from goclaw.core.supervise import background, keep_running
from goclaw.errors import StateError
from goclaw.store.database import Database
from goclaw.store.postgres.state_folder import StateFolder, key_of, of_media
from goclaw.store.postgres.stored_files import StoredFile, StoredFiles, stored_file

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks for files that have changed."""
_NAME = "files of the state folder"
MAX_PIECES = 1_000
"""Pieces of a file to which something was added, such as the audit log, until it is sent as a whole."""


@record
class Settled:
    """The result of bringing folder and database together: numbers of files."""

    sent: int
    fetched: int
    set_aside: int


class StateFiles:
    """The files of one state folder. Implements `store.blobs.SharedMedia`. Made by `open_state_files`."""

    def __init__(self, database: Database, folder: Path, clock: Clock) -> None:
        self._stored = StoredFiles(database)
        self._folder = StateFolder(folder, clock)
        self._clock = clock
        self._same: dict[str, str] = {}
        """Hashes of the files by name, as of when folder and database were the same."""
        self._media: set[str] = set()
        """Keys of the media that the database has."""
        self._pieces: dict[str, tuple[int, int]] = {}
        """Bytes and pieces of the files that were sent, for those to which something is added at their end."""
        self._sending = asyncio.Lock()
        self._is_noted = True
        """Whether the file in which all of this is kept has it as it is now."""

    async def settle(self) -> Settled:
        """Bring folder and database together; see the module for what counts. Media follow (`settle_media`).

        Raises:
            DiskError: the database cannot be reached.
            StateError: the folder cannot be written, or what the database has is damaged.
        """
        self._same, known = await asyncio.to_thread(self._folder.read_notes)
        stored = await self._stored.all()
        self._media = {key for key in map(key_of, stored) if key and all(name in stored for name in of_media(key))}
        gone = (name for key in known - self._media for name in of_media(key))
        await asyncio.to_thread(self._folder.remove, list(gone))  # removed elsewhere, or forgotten
        theirs = {name: entry for name, entry in stored.items() if not key_of(name)}
        ours = await asyncio.to_thread(self._folder.hashes)
        sent = fetched = aside = 0
        for name in sorted(ours.keys() | theirs.keys() | self._same.keys()):
            here, entry, before = ours.get(name), theirs.get(name), self._same.get(name)
            there = entry.sha256 if entry else None
            if here == there:
                self._note(name, here)
            elif there == before or (there is None and here != before):
                await self._send_or_drop(name, here)
                sent += 1
            elif here in (None, before) and not await asyncio.to_thread(self._folder.is_newer, name, entry):
                await self._fetch_or_remove(name, entry)
                fetched += 1
            elif await asyncio.to_thread(self._folder.set_aside, name):
                await self._fetch_or_remove(name, entry)
                aside += 1
            else:
                await self._send(name)
                sent += 1
        self._is_noted = False
        await self._keep_notes()
        return Settled(sent, fetched, aside)

    async def send_changes(self) -> int:
        """Send what has changed in the folder since the last time; returns how many files that were.

        Raises:
            DiskError: the database cannot be reached; what was not sent is sent the next time.
            StateError: the folder has been emptied.
        """
        async with self._sending:
            changed, gone = await asyncio.to_thread(self._folder.changes, dict(self._same))
            for name in changed:
                await self._send(name)
            for name in gone:
                await self._send_or_drop(name, None)
            await self._keep_notes()
            return len(changed) + len(gone)

    async def agree(self, name: str, data: bytes) -> bytes:
        """Store a small file that only its owner may read, unless the database has one of this name: return that one.

        The folder has it then. Raises as `fetch` does.
        """
        async with self._sending:
            made = stored_file(data, 0o600, self._clock.now())
            agreed = await self._stored.put_first(name, made, data) or made
            await self._fetch_or_remove(name, agreed)
            await self._keep_notes()
            return await self._stored.data(name, agreed)

    async def follow(self) -> None:
        """Bring media together, and send what changes in the folder, until cancelled."""
        is_troubled, has_media = False, False
        while True:
            try:
                if not has_media:
                    await self.settle_media()
                await self.send_changes()
                is_troubled, has_media = False, True
            except (StateError, OSError) as error:
                if not is_troubled:
                    log.warning("folder and database do not have the same files yet: %s", error)
                is_troubled = True
            await self._clock.sleep(LOOK_SECONDS)

    async def send_all(self) -> None:
        """Make the database have what the folder has, media too; what it had besides is set aside.

        Raises:
            DiskError: the database cannot be reached.
            StateError: what the database has is damaged, or cannot be set aside.
        """
        ours = await asyncio.to_thread(self._folder.all_hashes)
        theirs = await self._stored.all()
        for name, entry in theirs.items():
            if ours.get(name) != entry.sha256:
                data = await self._stored.data(name, entry)
                await asyncio.to_thread(self._folder.write, self._folder.aside(name), data, entry)
        await self._stored.drop(theirs.keys() - ours.keys())
        for name in sorted(ours):
            if name not in theirs or theirs[name].sha256 != ours[name]:
                await self._send(name)
        self._same = {name: digest for name, digest in ours.items() if not key_of(name)}
        self._media = {key for key in map(key_of, ours) if key}
        self._is_noted = False
        await self._keep_notes()

    async def compare(self) -> int:
        """Return how many files folder and database have.

        Raises:
            DiskError: the database cannot be reached.
            StateError: they do not have the same.
        """
        ours = await asyncio.to_thread(self._folder.all_hashes)
        theirs = {name: each.sha256 for name, each in (await self._stored.all()).items()}
        if different := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
            raise StateError(f"not the same in {self._folder.path} and in the database: {', '.join(different[:5])}")
        return len(ours)

    async def keep(self, key: str) -> None:
        """Store media that the folder has, or note that they were kept anew.

        Raises:
            DiskError: the database cannot be reached.
        """
        if key in self._media:
            await self._stored.stamp(of_media(key), self._clock.now())
            return
        for name in of_media(key):
            await self._send(name)
        self._media.add(key)
        self._is_noted = False

    async def fetch(self, key: str) -> bool:
        """Get media into the folder; False: the database has none.

        Raises:
            DiskError: the database cannot be reached, or the folder not be written.
            StateError: what the database has is damaged.
        """
        for name in of_media(key):
            entry = await self._stored.get(name)
            if entry is None:
                return False
            await self._fetch_or_remove(name, entry)
        return True

    async def drop(self, keys: Iterable[str]) -> None:
        """Remove media.

        Raises:
            DiskError: the database cannot be reached.
        """
        gone = set(keys)
        await self._stored.drop(name for key in gone for name in of_media(key))
        self._media -= gone
        self._is_noted = False

    async def settle_media(self) -> None:
        """Get all media that the folder lacks, and send those that the database lacks.

        Raises:
            DiskError: the database cannot be reached, or the folder not be written.
            StateError: what the database has is damaged.
        """
        ours = await asyncio.to_thread(self._folder.media_keys)
        for key in sorted(self._media - ours):
            if key in self._media:  # else they were removed meanwhile
                await self.fetch(key)
        for key in sorted(ours - self._media):
            if key not in self._media:
                await self.keep(key)

    async def _send(self, name: str) -> None:
        """Store a file as it is now; one that has gone meanwhile is left to the next look."""
        with suppress(FileNotFoundError):
            data, entry = await asyncio.to_thread(self._folder.read, name)
            size, pieces = self._pieces.get(name, (0, MAX_PIECES))
            if pieces < MAX_PIECES and await asyncio.to_thread(_begins, data, size, self._same.get(name)):
                await self._stored.append(name, entry, pieces, data[size:])
                pieces += 1
            else:
                pieces = await self._stored.put(name, entry, data)
            self._note(name, entry.sha256)
            if not key_of(name):
                self._pieces[name] = len(data), pieces

    async def _send_or_drop(self, name: str, here: str | None) -> None:
        if here is not None:
            await self._send(name)
        else:
            await self._stored.drop([name])
            self._note(name, None)

    async def _fetch_or_remove(self, name: str, entry: StoredFile | None) -> None:
        """Let the folder have what the database has."""
        if entry is None:
            await asyncio.to_thread(self._folder.remove, [name])
            self._note(name, None)
        else:
            data = await self._stored.data(name, entry)
            await asyncio.to_thread(self._folder.write, name, data, entry)
            self._note(name, entry.sha256)

    def _note(self, name: str, sha256: str | None) -> None:
        self._pieces.pop(name, None)
        if sha256 is None:
            self._same.pop(name, None)
        elif not key_of(name):
            self._same[name] = sha256
        self._is_noted = False

    async def _keep_notes(self) -> None:
        if not self._is_noted:
            self._is_noted = True
            try:
                await asyncio.to_thread(self._folder.write_notes, dict(self._same), set(self._media))
            except StateError:
                self._is_noted = False
                raise


def _begins(data: bytes, size: int, sha256: str | None) -> bool:
    """Whether a file has only grown since it had this size and this hash."""
    return len(data) > size and hashlib.sha256(memoryview(data)[:size]).hexdigest() == sha256


@asynccontextmanager
async def open_state_files(database: Database, folder: Path, clock: Clock) -> AsyncIterator[StateFiles]:
    """Bring the state folder and the database together, and keep them so until the block ends.

    Raises:
        DiskError: the database cannot be reached.
        StateError: the folder cannot be written, or what the database has is damaged.
    """
    files = StateFiles(database, folder, clock)
    done = await files.settle()
    if done.fetched or done.set_aside:
        log.info("files of the state folder from the database: %d, set aside: %d", done.fetched, done.set_aside)
    async with background(keep_running(_NAME, files.follow, clock), _NAME):
        yield files
    with suppress(StateError):  # they are sent at the next start
        await files.send_changes()
