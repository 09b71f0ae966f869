"""The part of a state folder that is in the database, too: documents, the audit log, pictures.

What another gateway changes comes into the folder immediately: it is told by a notice. See `documents`, `state_audits`
and `state_media` for the three kinds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from goclaw.common.config.state import SHARED_FILES
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, run_with_restarts, set_within
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.postgres.database import require_postgres
from goclaw.durable.store.postgres.documents import TOPIC, Documents, Effect
from goclaw.durable.store.postgres.state_audits import FORGOTTEN, StateAudits
from goclaw.durable.store.postgres.state_folder import StateFolder, is_audit, is_document
from goclaw.durable.store.postgres.state_media import StateMedia, whole
from goclaw.durable.store.postgres.stored_files import StoredFiles
from goclaw.errors import StateError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.8
"""Between two looks at the folder; as often as `auth.users` looks."""
_NAME, _OF_MEDIA = "files of the state folder", "pictures and files of conversations"


class StateFiles:
    """The files of one state folder. Implements `store.shared_files.SharedFiles`.

    All methods that wait raise `DiskError` when the database cannot be reached, and `StateError` when the folder cannot
    be written or the data in the database is damaged.
    """

    def __init__(self, database: Database, folder: Path, clock: Clock) -> None:
        schema = require_postgres(database)
        self._notices = schema.notices
        self._stored = StoredFiles(database)
        self._folder = StateFolder(folder, clock)
        self._clock = clock
        self._documents = Documents(schema.place, self._folder)
        self.media = StateMedia(self._stored, self._folder, clock, self._telling)
        begin_chain = self._documents.begin_chain
        self.audits = StateAudits(database, self._stored, self._folder, clock, self._telling, begin_chain)
        self._is_outdated = False
        """Whether documents or media may have changed."""
        self._news = asyncio.Event()
        self._followers: list[Callable[[], Awaitable[None]]] = []

    def on_copy(self, call: Callable[[], Awaitable[None]]) -> None:
        self._followers.append(call)

    async def begin(self) -> None:
        """Bring folder and database together: see `Documents.begin`. Media follow (`StateMedia.sync`)."""
        was_used = await asyncio.to_thread((self._folder.path / SHARED_FILES).exists)
        done = await asyncio.to_thread(self._documents.begin)
        for trouble in done.troubles.values():
            raise trouble
        if done.copied:
            counts = done.number(Effect.COPIED), done.number(Effect.SET_ASIDE)
            log.info("files of the state folder from the database: %d, set aside: %d", *counts)
        stored = await self._stored.all()
        await self.media.begin(stored, is_known=was_used)
        await self.audits.begin(stored)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["StateFiles"]:
        """Bring folder and database together, and follow the database's changes until the block ends."""
        await self.begin()
        self.listen()
        async with background(run_with_restarts(_NAME, self.follow, self._clock), _NAME):
            yield self
        with suppress(StateError, OSError):  # it is sent at the next start
            await self.audits.send()

    async def copy(self, name: str) -> None:
        """Bring the copy of one document up to date now, because the next action depends on it."""
        entry = await self._stored.get(name)
        if (entry.sha256 if entry else None) != (await asyncio.to_thread(self._documents.known)).get(name):
            await self._copy({name})

    async def follow_news(self) -> None:
        """Bring up to date what other processes have changed, and copies that were edited; or do so the next time."""
        is_outdated, self._is_outdated = self._is_outdated, False
        try:
            due = await asyncio.to_thread(self._documents.edited)
            if is_outdated:
                media = set(self.media.keys)
                stored = await self._stored.all()
                await self.media.remove_gone(media - whole(stored))
                theirs = {name: entry.sha256 for name, entry in stored.items() if is_document(name)}
                known = await asyncio.to_thread(self._documents.known)
                due |= {name for name, _ in theirs.items() ^ known.items()}
            await self._copy(due)
        except BaseException:
            self._is_outdated = True
            raise

    async def _copy(self, names: set[str]) -> None:
        if not names:
            return
        done = await asyncio.to_thread(self._documents.copy, names)
        if done.copied:
            for call in self._followers:
                await call()
        for trouble in done.troubles.values():
            raise trouble

    def listen(self) -> None:
        """Hear of what other processes change, for `follow`."""
        self._notices.subscribe(TOPIC, self._on_notice, self._miss)

    async def follow(self) -> None:
        """Bring media together, and meanwhile what changes on either side, until cancelled."""
        is_troubled = False
        async with background(run_with_restarts(_OF_MEDIA, self.media.sync, self._clock), _OF_MEDIA):
            while True:
                trouble: Exception | None = None
                for part in (self.follow_news, self.audits.send):
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
        """
        ours = await asyncio.to_thread(self._folder.hashes)
        theirs = {name: each for name, each in (await self._stored.all()).items() if self._folder.is_ours(name)}
        for name, entry in theirs.items():
            if ours.get(name) != entry.sha256:
                data = await self._stored.data(name, entry)
                await asyncio.to_thread(self._folder.write, self._folder.aside(name), data, entry)
                await self._stored.remove(name, entry.sha256, *self._telling(name))
        for name in sorted(name for name in ours if name not in theirs or theirs[name].sha256 != ours[name]):
            data, entry = await asyncio.to_thread(self._folder.read, name)
            await self._stored.put(name, None, entry, data, *self._telling(name))
        documents = {name: sha256 for name, sha256 in ours.items() if is_document(name)}
        await asyncio.to_thread(self._folder.write_notes, documents, self._folder.chain)

    async def compare(self) -> int:
        """Return how many files folder and database have.

        Raises:
            DiskError: the database cannot be reached.
            StateError: they do not have the same.
        """
        ours, stored = await asyncio.to_thread(self._folder.hashes), await self._stored.all()
        theirs = {name: each.sha256 for name, each in stored.items() if self._folder.is_ours(name)}
        if different := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
            raise StateError(f"not the same in {self._folder.path} and in the database: {', '.join(different[:5])}")
        return len(ours)

    def _on_notice(self, name: str) -> None:
        if name == FORGOTTEN or is_audit(name):
            self.audits.hear(name)
        else:
            self._is_outdated = True
        self._news.set()

    def _miss(self) -> None:
        self._is_outdated = self.audits.is_due = True
        self._news.set()

    def _telling(self, name: str) -> list[BoundStatement]:
        return [self._notices.notice_for(TOPIC, name)]
