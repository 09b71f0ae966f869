"""Pictures and files of conversations that are in the database, too; a part of `state_files`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from goclaw.common.core.clock import Clock
from goclaw.durable.store.database import BoundStatement, ConstraintViolated
from goclaw.durable.store.postgres.state_folder import StateFolder, key_of, of_media
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles


class StateMedia:
    """The media of one state folder. Implements `store.shared_files.SharedMedia`.

    All methods that wait raise `DiskError` when the database cannot be reached or the folder not be written, and
    `StateError` when the data in the database is damaged.
    """

    def __init__(
        self,
        stored: StoredFiles,
        folder: StateFolder,
        clock: Clock,
        telling: Callable[[str], Iterable[BoundStatement]],
    ) -> None:
        """`telling`: returns what tells other processes of a change."""
        self.keys: set[str] = set()
        """Those that the database has, as far as this process knows."""
        self._stored = stored
        self._folder = folder
        self._clock = clock
        self._telling = telling

    async def begin(self, stored: Mapping[str, StoredFile], *, is_known: bool) -> None:
        """Begin with what is stored.

        `is_known`: the folder was used with the database before: what only the folder has was removed elsewhere, and
        goes.
        """
        self.keys = whole(stored)
        if is_known:
            await asyncio.to_thread(self._remove, self._folder.media_keys() - self.keys)

    async def retain(self, key: str) -> None:
        if key in self.keys and await self._stored.stamp(of_media(key), self._clock.now()):
            return
        # All of it before: that others removed the same may be heard meanwhile, and the folder lacks it then.
        files = {name: await asyncio.to_thread(self._folder.read, name) for name in of_media(key)}
        while not await self._put(files):
            pass
        self.keys.add(key)

    async def _put(self, files: Mapping[str, tuple[bytes, StoredFile]]) -> bool:
        """Store media; False: those that another process had stored were removed meanwhile."""
        is_new = True
        for name, (data, entry) in files.items():
            try:
                await self._stored.put(name, None, entry, data)
            except ConstraintViolated:
                is_new = False
        return is_new or await self._stored.stamp(list(files), self._clock.now())

    async def fetch(self, key: str) -> bool:
        for name in of_media(key):
            if (entry := await self._stored.get(name)) is None:
                return False
            try:
                data = await self._stored.data(name, entry)
            except ConstraintViolated:  # removed meanwhile
                return False
            await asyncio.to_thread(self._folder.write, name, data, entry)
        self.keys.add(key)
        return True

    async def old(self, until: float) -> set[str]:
        return {key for key in map(key_of, await self._stored.old(until)) if key}

    async def drop(self, keys: Iterable[str], until: float) -> None:
        gone = set(keys)
        await self._stored.drop((of_media(key)[::-1] for key in gone), until, self._telling)
        self.keys -= gone

    async def sync(self) -> None:
        ours = await asyncio.to_thread(self._folder.media_keys)
        for key in sorted(self.keys - ours):
            if key in self.keys:  # else they were removed meanwhile
                await self.fetch(key)
        for key in sorted(ours - self.keys):
            if key not in self.keys:
                await self.retain(key)

    async def remove_gone(self, keys: set[str]) -> None:
        """Remove media from the folder that the database has no more."""
        await asyncio.to_thread(self._remove, keys)
        self.keys -= keys

    def _remove(self, keys: set[str]) -> None:
        self._folder.remove(name for key in keys for name in of_media(key))


def whole(stored: Mapping[str, StoredFile]) -> set[str]:
    """Return the keys of media that are stored completely."""
    return {key for key in map(key_of, stored) if key and all(name in stored for name in of_media(key))}
