"""Documents: users.json, access tokens, private notes and the like are in the database, under their path in the folder.

Which files: those that `STATE_PATHS` says. The state folder of each gateway has a copy of each for those who read
files. A document changes in a block of `change` alone: the copy is up to date then, and the database has what the
block made of it when that ends. No other gateway changes the document meanwhile.

An edit of a copy does not count while a gateway runs: it is set aside, and the database's comes back. At the start
(`begin`) the folder may have edits of the time before, also of a former version: they are sent where the document is
still the edited one, and set aside elsewhere. A copy that cannot be moved, such as a mount of Kubernetes, counts.

Everything here blocks. One process at a time works on the copies: it holds the lock of the state folder.
"""

import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

import psycopg
from psycopg import errors

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.files import Writer, file_version, only_writer
from goclaw.common.core.records import record
from goclaw.durable.store.file_writer import WriterPart
from goclaw.durable.store.postgres.beside import SCHEMA, connect
from goclaw.durable.store.postgres.connecting import PostgresRow
from goclaw.durable.store.postgres.notices import TELL
from goclaw.durable.store.postgres.sending import bind
from goclaw.durable.store.postgres.state_folder import StateFolder, is_document
from goclaw.durable.store.postgres.stored_files import (
    LIST,
    LOCK_ENTRY,
    PIECES,
    StoredFile,
    data_of,
    entry_of,
    put_statements,
    remove_statements,
)
from goclaw.errors import StateError

log = logging.getLogger(__name__)

TOPIC = "files"
"""Topic of the notices that a file of the database has changed, with its name."""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 2))"
"""One writer at a time for a document that does not exist yet: there is no row to lock."""

Connection = psycopg.Connection[PostgresRow]


class Effect(StrEnum):
    """The effect of bringing a document and its copy together."""

    NONE = "none"
    SENT = "sent"
    COPIED = "copied"
    SET_ASIDE = "set aside"


@record
class Brought:
    """The effects on documents, and the failures."""

    effects: Mapping[str, Effect]
    troubles: Mapping[str, Exception]
    """Of documents that could not be brought together. They hold up no other."""

    def number(self, effect: Effect) -> int:
        """Return how many documents it was."""
        return list(self.effects.values()).count(effect)

    @property
    def copied(self) -> bool:
        """Whether a copy has changed."""
        return bool({Effect.COPIED, Effect.SET_ASIDE} & set(self.effects.values()))


class Documents:
    """The documents of a schema, and their copies in a state folder."""

    def __init__(self, place: PostgresPlace, folder: StateFolder) -> None:
        self._place = place
        self._folder = folder
        self._known: dict[str, str] = {}
        """Hashes of the copies, as they were made or sent."""
        self._chain: str | None = None
        """The name of the folder's audit log; None: it has none yet."""
        self._versions: dict[str, tuple[int, ...]] = {}
        """Versions of the files that are known to be those copies."""

    @contextmanager
    def change(self, path: Path) -> Iterator[None]:
        """Change the document at `path` in the block; implements `core.files.Writer`.

        Raises:
            DiskError: the database cannot be reached; the copy is as it was.
            StateError: the data in the database is damaged, or a gateway of a former version changed it meanwhile.
            OSError: the folder cannot be used.
        """
        name = self._folder.document_at(path)
        if not name:
            with only_writer(path.parent):
                yield
            return
        with self._open() as connection:
            if connection is None:  # the first start sends it
                yield
                return
            with ExitStack() as undo:
                with connection.transaction():
                    entry = self._lock(connection, name)
                    self._bring(connection, name, entry, begins=False)
                    undo.callback(self._put_back, name, self._folder.find(name))
                    yield
                    self._send(connection, name, entry)
                undo.pop_all()

    def begin(self) -> Brought:
        """Bring all documents and copies together; edits of copies count where the document is still the edited one.

        Raises:
            DiskError: the database cannot be reached.
            StateError: the folder cannot be used.
        """
        with self._open() as connection:
            self._chain = self._folder.chain = secrets.token_hex(4) if self._chain is None else self._chain
            if connection is None:
                return Brought({}, {})
            rows = connection.execute(*bind(LIST())).fetchall()
            theirs = {name: str(row["sha256"]) for row in rows if is_document(name := str(row["path"]))}
            if not theirs:
                self._known = {}  # the folder was used with another database
            ours = {name: copy[1].sha256 for name in self._folder.documents() if (copy := self._folder.find(name))}
            names = ours.keys() | theirs.keys() | self._known.keys()
            due = {name for name in names if not ours.get(name) == theirs.get(name) == self._known.get(name)}
            return self._bring_all(connection, due, begins=True)

    def copy(self, names: Collection[str]) -> Brought:
        """Bring the copies of documents up to date; raises as `begin`."""
        with self._open() as connection:
            return self._bring_all(connection, names, begins=False) if connection else Brought({}, {})

    def known(self) -> Mapping[str, str]:
        """Return the hashes of the copies, as they were made or sent; raises `StateError`."""
        return self._folder.read_notes()[0]

    def edited(self) -> set[str]:
        """Return the documents of which the folder's copy was edited or removed; raises `StateError`."""
        found = set()
        for name, sha256 in self.known().items():
            version = file_version(self._folder.place(name))
            if version and version == self._versions.get(name):
                continue
            copy = self._folder.find(name)
            if copy is not None and copy[1].sha256 == sha256:
                self._versions[name] = version
            else:
                found.add(name)
        return found

    def begin_chain(self) -> None:
        """Give the folder's audit log another name."""
        with only_writer(self._folder.path):
            self._folder.chain = secrets.token_hex(4)
            self._folder.write_notes(self.known(), self._folder.chain)

    @contextmanager
    def _open(self) -> Iterator[Connection | None]:
        """Hold the lock of the folder, connected; None: the schema was never used."""
        with only_writer(self._folder.path):
            self._known, self._chain = self._folder.read_notes()
            before = dict(self._known), self._chain
            try:
                with connect(self._place, writes=True) as connection:
                    has_tables = connection.execute(SCHEMA, (self._place.schema,)).fetchone() is not None
                    yield connection if has_tables else None
            finally:
                if (self._known, self._chain) != before:
                    self._folder.write_notes(self._known, self._chain)

    def _lock(self, connection: Connection, name: str) -> StoredFile | None:
        connection.execute(_LOCK, (f"goclaw:{self._place.schema}:{name}",))
        row = connection.execute(*bind(LOCK_ENTRY(name=name))).fetchone()
        return entry_of(row) if row else None

    def _bring_all(self, connection: Connection, names: Iterable[str], *, begins: bool) -> Brought:
        effects, troubles = dict[str, Effect](), dict[str, Exception]()
        for name in sorted(names):
            try:
                with connection.transaction():
                    effects[name] = self._bring(connection, name, self._lock(connection, name), begins=begins)
            except (StateError, OSError) as error:
                troubles[name] = error
        return Brought(effects, troubles)

    def _bring(self, connection: Connection, name: str, entry: StoredFile | None, *, begins: bool) -> Effect:
        """Bring a document and its copy together; the document is locked."""
        copy, known = self._folder.find(name), self._known.get(name)
        here, there = copy[1].sha256 if copy else None, entry.sha256 if entry else None
        if here == there:
            self._note(name, here)
            return Effect.NONE
        if here != known and begins and there in (known, None):
            self._send(connection, name, entry)
            return Effect.SENT
        if there is None and known is None:
            return Effect.NONE  # one that nobody has sent yet
        is_newer = begins and copy is not None and entry is not None and copy[1].changed_at > entry.changed_at
        effect = Effect.COPIED
        if here is not None and (here != known or is_newer):
            if not self._folder.set_aside(name):
                self._send(connection, name, entry)
                return Effect.SENT
            effect = Effect.SET_ASIDE
        if entry is None:
            self._folder.remove([name])
        else:
            self._folder.write(
                name, data_of(name, entry, connection.execute(*bind(PIECES(name=name))).fetchall()), entry
            )
        self._note(name, there)
        return effect

    def _send(self, connection: Connection, name: str, entry: StoredFile | None) -> None:
        """Store the copy in place of the document `entry`, or remove that; nothing where they are the same."""
        copy, there = self._folder.find(name), entry.sha256 if entry else None
        here = copy[1].sha256 if copy else None
        if here != there:
            statements = put_statements(name, there, copy[1], copy[0]) if copy else remove_statements(name, there or "")
            try:
                with connection.transaction():  # on its own: one that is refused ends no other
                    for statement in (*statements, TELL(topic=TOPIC, payload=name)):
                        connection.execute(*bind(statement))
            except errors.UniqueViolation as error:
                raise StateError(f"{name} was changed by another gateway at this moment: try again") from error
        self._note(name, here)

    def _put_back(self, name: str, before: tuple[bytes, StoredFile] | None) -> None:
        now = self._folder.find(name)
        if (now and now[1].sha256) == (before and before[1].sha256):
            return
        if before is None:
            self._folder.remove([name])
        else:
            self._folder.write(name, *before)
        self._note(name, before[1].sha256 if before else None)

    def _note(self, name: str, sha256: str | None) -> None:
        self._versions.pop(name, None)
        if sha256 is None:
            self._known.pop(name, None)
        else:
            self._known[name] = sha256


def writer_of(place: PostgresPlace, folder: Path) -> Writer:
    """Return what changes the documents of a schema, and their copies in a state folder."""
    return Documents(place, StateFolder(folder, RealClock())).change


PART = WriterPart(writer_of)
"""The part that `DOCUMENTS` of the catalogue names."""
