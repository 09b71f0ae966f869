"""Audit logs of several state folders in one schema: each is a chain of its own, under a name of its own.

The process that goes on with one writes the file in its folder, and sends it; another one may blank words in the
database's, which the first fetches (`state_files`). The folder blanks its own unsent words, before it sends anything:
facts say which sessions were forgotten, and when.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sqlalchemy import bindparam, or_, select

from goclaw.common.auth.audit_chain import BLANKED, Blanking, digest_of, entry_of, number_of, without_words
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock, RealClock
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Database, Statement
from goclaw.durable.store.postgres.beside import read
from goclaw.durable.store.postgres.state_folder import AUDIT, StateFolder, audit_of
from goclaw.durable.store.postgres.state_merge import is_audit
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles, is_plain, state_file_pieces, stored_file
from goclaw.durable.store.settings import Settings

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
    """The audit logs of other folders, and their relation to this folder's."""

    def __init__(
        self,
        database: Database,
        stored: StoredFiles,
        folder: StateFolder,
        clock: Clock,
        telling: Callable[[str], Iterable[BoundStatement]],
    ) -> None:
        """`telling`: returns what tells other processes of a change."""
        self.is_due = True
        """Whether sessions may have been forgotten of which this process does not know."""
        self._database = database
        self._settings = Settings(database)
        self._stored = stored
        self._folder = folder
        self._clock = clock
        self._telling = telling

    async def blank_forgotten(self) -> None:
        """Blank forgotten words in the folder, if that is due.

        Raises:
            DiskError: the database cannot be reached, or the folder not be written.
        """
        if not self.is_due:
            return
        self.is_due = False
        try:
            if forgotten := await self._settings.facts(FORGOTTEN):
                await asyncio.to_thread(self._folder.blank, Blanking(forgotten=forgotten))
        except BaseException:
            self.is_due = True
            raise

    async def adopt(self, name: str, theirs: bytes) -> bool:
        """Blank in the folder the lines that are blanked in a file of the database. False: it has other lines.

        They may be in another file of the folder, if its log was rotated meanwhile.

        Raises:
            DiskError: the folder cannot be read or written.
        """
        entries = {
            number: entry for line in theirs.splitlines() if (number := number_of(line)) and (entry := entry_of(line))
        }
        hashes = {number: digest_of(entry) for number, entry in entries.items()}
        if not await asyncio.to_thread(self._folder.has_lines, hashes, dropped=not name.endswith(".jsonl")):
            return False
        blanked = frozenset(number for number, entry in entries.items() if BLANKED in entry)
        await asyncio.to_thread(self._folder.blank, Blanking(numbers=blanked))
        return True

    async def fetch(self) -> None:
        """Get the audit logs of other folders, each under its own name.

        Raises:
            DiskError: the database cannot be reached, or the folder not be written.
            StateError: the data in the database is damaged.
        """
        for name, entry in (await self._stored.all()).items():
            if is_audit(name) and not self._folder.is_ours(name):
                data, beside = await self._stored.data(name, entry), name.replace(AUDIT, audit_of("first"), 1)
                await asyncio.to_thread(self._folder.write, beside, data, entry)

    async def blank(self, wanted: Blanking) -> int:
        """Blank the words of lines in the audit logs of other folders; returns how many files that changed.

        The process that goes on with one of them fetches it, and blanks its unsent words: immediately, or when it is
        back.

        Raises:
            DiskError: the database cannot be reached.
            StateError: the data in the database is damaged.
        """
        if wanted.sessions:
            # Before the logs are read: a line that comes into one later comes from a process that finds this.
            now = self._clock.now()
            known = (self._settings.learning(f"{FORGOTTEN}:{session}", now) for session in sorted(wanted.sessions))
            await self._database.write(*known, *self._telling(FORGOTTEN), durable=True)
        return await blank_audits(self._stored, self._folder.is_ours, wanted, self._telling)

    async def prune(self, before: float) -> Sequence[str]:
        """Remove the audit logs of other folders to which nothing was added since a moment; returns their names.

        Also removes the records of sessions forgotten before it, and blanks recently forgotten words.

        Raises:
            DiskError: the database cannot be reached.
            StateError: the data in the database is damaged.
        """
        forgotten: Mapping[str, float] = await self._settings.facts(FORGOTTEN)
        for session, at in forgotten.items():
            if at < before:
                await self._settings.unlearn(f"{FORGOTTEN}:{session}", at)
        since = self._clock.now() - RECENT_SECONDS
        if recent := {session: at for session, at in forgotten.items() if at > since}:
            await blank_audits(self._stored, self._folder.is_ours, Blanking(forgotten=recent), self._telling)
        return await prune_audits(self._stored, self._folder.is_ours, before)


def chain_of(name: str) -> str:
    """Return the name of the audit log that a stored file belongs to."""
    return name.removeprefix("logs/audit").partition(".jsonl")[0].removeprefix("-")


async def blank_audits(
    stored: StoredFiles,
    is_ours: Callable[[str], bool],
    wanted: Blanking,
    telling: Callable[[str], Iterable[BoundStatement]],
) -> int:
    """Blank the words of lines in the audit logs that are not this folder's; returns how many files that changed.

    Raises:
        DiskError: the database cannot be reached.
        StateError: the data in the database is damaged.
    """
    changed = 0
    for name, entry in (await stored.all()).items():
        if is_audit(name) and not is_ours(name):
            changed += await _blank(stored, name, entry, wanted, telling)
    return changed


async def _blank(
    stored: StoredFiles,
    name: str,
    entry: StoredFile | None,
    wanted: Blanking,
    telling: Callable[[str], Iterable[BoundStatement]],
) -> bool:
    while entry is not None:
        try:
            data = await stored.data(name, entry)
            less = await asyncio.to_thread(without_words, data, wanted)
            if less == data:
                return False
            await stored.put(name, entry.sha256, stored_file(less, entry.mode, entry.changed_at), less, *telling(name))
        except ConstraintViolated:  # its process has added a line
            entry = await stored.get(name)
        else:
            return True
    return False


async def prune_audits(stored: StoredFiles, is_ours: Callable[[str], bool], before: float) -> Sequence[str]:
    """Remove the audit logs of other folders to which nothing was added since a moment; returns their names.

    Raises:
        DiskError: the database cannot be reached.
    """
    found = {name: each for name, each in (await stored.all()).items() if is_audit(name) and not is_ours(name)}
    last = dict[str, float]()
    for name, entry in found.items():
        last[chain_of(name)] = max(entry.changed_at, last.get(chain_of(name), 0.0))
    over = sorted(chain for chain, at in last.items() if at < before)
    for name, entry in found.items():
        if chain_of(name) in over:
            await stored.remove(name, entry.sha256)
    return over


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
    _, _, chain = folder.read_notes()
    folder.chain = chain or ""
    contents = dict[str, bytes]()
    [rows] = read(place, [_PIECES(newest=AUDIT, others="logs/audit-")])
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
