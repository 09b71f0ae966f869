"""Audit logs of several state folders in one schema: each is a chain of its own, under a name of its own.

The process that goes on with one writes the file in its folder, and sends it; another one may blank words in the
database's, which the first fetches (`state_files`). The folder blanks its own unsent words, before it sends anything:
facts say which sessions were forgotten, and when.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import bindparam, or_, select

from goclaw.common.auth.audit_chain import (
    BLANKED,
    Blanking,
    blank_files,
    digest_of,
    entry_of,
    lacking,
    number_of,
    without_words,
)
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.files import FileLook
from goclaw.common.health.resources import disk_error
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Database, Statement
from goclaw.durable.store.postgres.beside import read_rows
from goclaw.durable.store.postgres.state_folder import AUDIT, StateFolder, audit_of, is_audit
from goclaw.durable.store.postgres.stored_files import (
    StoredFile,
    StoredFiles,
    has_grown,
    is_plain,
    state_file_pieces,
    stored_file,
)
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MAX_PIECES = 1_000
"""Pieces of a file to which something was added until it is sent as a whole."""
TRIES = 10
"""Tries to send a file that changes on both sides again and again."""
FORGOTTEN = "forgotten"
"""Facts, with a session behind a ":" each: when it was forgotten last. Also the notice that there is a new one."""
RECENT_SECONDS = 2 * 24 * 3600.0
"""Seconds for which the logs of other folders are looked through once a day for what was forgotten: what one of them
has sent at that moment, and has not come back since to blank."""

_PIECES = Statement(
    select(state_file_pieces.c.path, state_file_pieces.c.data)
    .where(or_(*(state_file_pieces.c.path.startswith(bindparam(name)) for name in ("newest", "others"))))
    .order_by(state_file_pieces.c.path, state_file_pieces.c.number)
)


class StateAudits:
    """The audit log of a state folder, and those of others. Implements `store.shared_files.SharedAudits`.

    All methods that wait raise `DiskError` when the database cannot be reached or the folder not be read or written,
    and `StateError` when the data in the database is damaged.
    """

    def __init__(
        self,
        database: Database,
        stored: StoredFiles,
        folder: StateFolder,
        clock: Clock,
        telling: Callable[[str], Iterable[BoundStatement]],
        begin_chain: Callable[[], None],
    ) -> None:
        """Make it of the database and a folder.

        `telling`: returns what tells other processes of a change. `begin_chain`: gives the folder's log another name.
        """
        self.is_due = True
        """Whether sessions may have been forgotten of which this process does not know."""
        self._database = database
        self._settings = Settings(database)
        self._stored = stored
        self._folder = folder
        self._clock = clock
        self._telling = telling
        self._begin_chain = begin_chain
        self._one = asyncio.Lock()
        """Held while files are sent."""
        self._sent: dict[str, str] = {}
        """Hashes of the files by name, as the database has them."""
        self._pieces: dict[str, tuple[int, int]] = {}
        """Bytes and pieces of the files that were sent, for those to which something is added at their end."""
        self._looks: dict[str, FileLook] = {}
        self._heard: set[str] = set()
        """Files that any process has changed."""

    @property
    def chain(self) -> str:
        return self._folder.chain

    def hear(self, name: str) -> None:
        """Hear that a file of some folder's log was changed, or that a session was forgotten (`FORGOTTEN`)."""
        self.is_due |= name == FORGOTTEN
        self._heard.add(name)

    async def begin(self, stored: Iterable[str]) -> None:
        """Send what the folder has; `stored`: the names of all files of the database."""
        self._sent = {name: "" for name in stored if is_audit(name) and self._folder.is_ours(name)}
        await self.send()

    async def send(self) -> None:
        async with self._one:
            await self._blank_forgotten()
            while self._heard:
                name = self._heard.pop()
                if name in self._sent and (entry := await self._stored.get(name)) and entry.sha256 != self._sent[name]:
                    self._looks.pop(name, None)  # another process has changed it in the database
            for name in await asyncio.to_thread(self._due):
                try:
                    await self._send(name)
                except BaseException:
                    self._looks.pop(name, None)
                    self.is_due = True
                    raise

    def _due(self) -> list[str]:
        """Return the names of the files that have changed or gone since they were sent."""
        names = self._folder.audits()
        gone = [name for name in self._sent if name not in names]
        looks = [(name, self._looks.setdefault(name, FileLook(self._folder.place(name)))) for name in names]
        return [*(name for name, look in looks if look.is_due()), *gone]

    async def _send(self, name: str) -> None:
        for _ in range(TRIES):
            with suppress(ConstraintViolated):
                if not self._folder.is_ours(name):
                    return None  # the log has another name since this began
                return await self._send_as_stored(name, await self._stored.get(name))
        raise StateError(f"{name} changes again and again, in {self._folder.path} and in the database")

    async def _send_as_stored(self, name: str, entry: StoredFile | None) -> None:
        """Send a file in the place of a version of it.

        Raises:
            ConstraintViolated: another process has stored another one.
        """
        found, there = await asyncio.to_thread(self._folder.find, name), entry.sha256 if entry else None
        if found and entry and there not in (found[1].sha256, self._sent.get(name)):
            if not await self._adopt(name, await self._stored.data(name, entry)):
                await self._go_apart()
                return
            found = await asyncio.to_thread(self._folder.find, name)
        if found is None:
            self._forget(name)
            if there is not None:
                await self._stored.remove(name, there, *self._telling(name))
        elif found[1].sha256 != there:
            await self._put(name, there, *found)
        else:
            self._sent[name] = there

    async def _put(self, name: str, there: str | None, data: bytes, entry: StoredFile) -> None:
        size, pieces = self._pieces.get(name, (0, MAX_PIECES))
        telling = self._telling(name)
        if there and pieces < MAX_PIECES and await asyncio.to_thread(has_grown, data, size, there):
            await self._stored.append(name, there, entry, pieces, data[size:], *telling)
            pieces += 1
        else:
            pieces = await self._stored.put(name, there, entry, data, *telling)
        self._sent[name], self._pieces[name] = entry.sha256, (len(data), pieces)

    async def _go_apart(self) -> None:
        """Give this folder's log a name of its own: another folder goes on with it under the present one."""
        log.error("another gateway goes on with the audit log of %s, perhaps in a copy of it", self._folder.path)
        for name in list(self._sent):
            self._forget(name)
        await asyncio.to_thread(self._begin_chain)
        for name in await asyncio.to_thread(self._folder.audits):
            await self._send(name)

    def _forget(self, name: str) -> None:
        self._sent.pop(name, None)
        self._pieces.pop(name, None)
        self._looks.pop(name, None)

    async def _blank_forgotten(self) -> None:
        """Blank forgotten words in the folder, if that is due."""
        if not self.is_due:
            return
        self.is_due = False
        try:
            if forgotten := await self._settings.facts(FORGOTTEN):
                await asyncio.to_thread(self._blank, Blanking(forgotten=forgotten))
        except BaseException:
            self.is_due = True
            raise

    async def _adopt(self, name: str, theirs: bytes) -> bool:
        """Blank in the folder the lines that are blanked in a file of the database. False: it has other lines.

        They may be in another file of the folder, if its log was rotated meanwhile.
        """
        entries = {
            number: entry for line in theirs.splitlines() if (number := number_of(line)) and (entry := entry_of(line))
        }
        hashes = {number: digest_of(entry) for number, entry in entries.items()}
        if not await asyncio.to_thread(self._has_lines, hashes, dropped=not name.endswith(".jsonl")):
            return False
        blanked = frozenset(number for number, entry in entries.items() if BLANKED in entry)
        await asyncio.to_thread(self._blank, Blanking(numbers=blanked))
        return True

    def _blank(self, wanted: Blanking) -> None:
        path = self._folder.path / AUDIT
        try:
            if path.parent.is_dir():
                blank_files(path, wanted)
        except OSError as error:
            raise disk_error(error, path, "written") from error

    def _has_lines(self, lines: Mapping[int, str], *, dropped: bool) -> bool:
        """Whether the folder's log goes on from lines, in whichever of its files they are by now.

        Args:
            lines: hashes by number.
            dropped: whether it may be that all of them stood before those that are kept.

        Raises:
            DiskError: it cannot be read.
        """
        path = self._folder.path / AUDIT
        try:
            left, lowest = lacking(path, lines) if path.parent.is_dir() else (set(lines), 0)
        except OSError as error:
            raise disk_error(error, path, "read") from error
        return all(number < lowest for number in left) and (dropped or len(left) < len(lines))

    async def fetch(self) -> None:
        for name, entry in await self._others():
            data, beside = await self._stored.data(name, entry), name.replace(AUDIT, audit_of("first"), 1)
            await asyncio.to_thread(self._folder.write, beside, data, entry)

    async def blank(self, wanted: Blanking) -> int:
        """Blank the words of lines in the audit logs of other folders; returns how many files that changed.

        The process that goes on with one of them blanks its folder: immediately, or when it is back.
        """
        if wanted.sessions:
            # Before the logs are read: a line that comes into one later comes from a process that finds this.
            now = self._clock.now()
            known = (self._settings.learning(f"{FORGOTTEN}:{session}", now) for session in sorted(wanted.sessions))
            await self._database.write(*known, *self._telling(FORGOTTEN), durable=True)
        return sum([await self._blank_stored(name, entry, wanted) for name, entry in await self._others()])

    async def prune(self, before: float) -> Sequence[str]:
        """Remove the audit logs of other folders to which nothing was added since a moment; returns their names.

        Also removes the records of sessions forgotten before it, and blanks recently forgotten words.
        """
        forgotten: Mapping[str, float] = await self._settings.facts(FORGOTTEN)
        for session, at in forgotten.items():
            if at < before:
                await self._settings.unlearn(f"{FORGOTTEN}:{session}", at)
        since = self._clock.now() - RECENT_SECONDS
        if recent := {session: at for session, at in forgotten.items() if at > since}:
            await self.blank(Blanking(forgotten=recent))
        last, found = dict[str, float](), await self._others()
        for name, entry in found:
            last[chain_of(name)] = max(entry.changed_at, last.get(chain_of(name), 0.0))
        over = sorted(chain for chain, at in last.items() if at < before)
        for name, entry in found:
            if chain_of(name) in over:
                await self._stored.remove(name, entry.sha256)
        return over

    async def _others(self) -> Sequence[tuple[str, StoredFile]]:
        """Return the files of other folders' audit logs."""
        stored = await self._stored.all()
        return [(name, entry) for name, entry in stored.items() if is_audit(name) and not self._folder.is_ours(name)]

    async def _blank_stored(self, name: str, entry: StoredFile | None, wanted: Blanking) -> bool:
        """Blank the words of lines in a file of the database; False: it has none of them."""
        while entry is not None:
            try:
                data = await self._stored.data(name, entry)
                less = await asyncio.to_thread(without_words, data, wanted)
                if less == data:
                    return False
                changed, telling = stored_file(less, entry.mode, entry.changed_at), self._telling(name)
                await self._stored.put(name, entry.sha256, changed, less, *telling)
            except ConstraintViolated:  # its process has added a line
                entry = await self._stored.get(name)
            else:
                return True
        return False


def chain_of(name: str) -> str:
    """Return the name of the audit log that a stored file belongs to."""
    return name.removeprefix("logs/audit").partition(".jsonl")[0].removeprefix("-")


def copy_audits(place: PostgresPlace, state_dir: Path, into: Path) -> tuple[str, Mapping[str, Path]]:
    """Write the audit logs of other folders below a folder, while a daemon may go on with them. Blocks.

    Returns:
        The name of this folder's log, and the newest file of each other one by its name. "" is that of a gateway which
        was the only one.

    Raises:
        StateError: Postgres cannot be used.
        OSError: the folder cannot be written.
    """
    folder = StateFolder(state_dir, RealClock())
    folder.chain = folder.read_notes()[1] or ""
    contents = dict[str, bytes]()
    [rows] = read_rows(place, [_PIECES(newest=AUDIT, others="logs/audit-")])
    for path, data in rows:
        contents[str(path)] = contents.get(str(path), b"") + bytes(data)
    found = dict[str, Path]()
    for name, content in contents.items():
        if is_plain(name) and not folder.is_ours(name):
            newest = into / (chain_of(name) or "first") / Path(AUDIT).name
            newest.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (newest.parent / f"{newest.name}{name.partition('.jsonl')[2]}").write_bytes(content)
            found[chain_of(name)] = newest
    return folder.chain, found
