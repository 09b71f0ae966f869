"""The database as the rest of the system sees it: statements, and a grouped writer that every store shares.

All writes go through one writer. What waits while a commit runs is committed together with the next one, so that fifty
sessions cost one flush of the disk instead of fifty. While a store cannot be written to, every write fails with a
`DiskError`, and the next one is tried again: nothing has to be restarted.

`store.sqlite` and `store.postgres` have what differs: how a group is committed, a query answered and a fault named.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import BindParameter, ClauseElement, ColumnElement, Dialect, Table, bindparam, insert, select, text
from sqlalchemy.sql.visitors import iterate

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.fencing import Fence
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.dialect import OnConflict
from goclaw.errors import DiskError, DiskFault, StateError

if TYPE_CHECKING:
    from goclaw.common.config.policies import ReplicaSettings
    from goclaw.durable.store.replicas import FolderProbe, SharedVectors, StoreUse
    from goclaw.durable.store.shared_files import SharedFiles
    from goclaw.durable.store.sums import TableSum

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_SIZE = 256
"""Transactions per commit at most; bounds how long one commit can hold the others up."""
RESULTS_AT_ONCE = 16
"""Results handed out in one round of the event loop: what each of them continues there holds up everything else."""


class ConstraintViolated(Exception):
    """A transaction broke a constraint, such as a key that exists: nothing of it is kept."""


class Row(Protocol):
    """A row of a result: its values by position and by the name of their column."""

    def __getitem__(self, key: int | str, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    def keys(self) -> list[str]:
        """Return the names of the columns."""


class Statement:
    """A statement, compiled once for each store. Call it with the values of its parameters."""

    def __init__(self, clause: ClauseElement | str, *, behind: "Statement | None" = None) -> None:
        """Make it of SQLAlchemy's clause, or of SQL with parameters such as `:name`.

        `behind`: notifies other processes, with its values, after the commit; lost if this one ends there.
        """
        self.clause = text(clause) if isinstance(clause, str) else clause
        self.behind = behind
        self._compiled: dict[str, tuple[str, dict[str, Any]]] = {}

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of its parameters."""
        found = (each for each in iterate(self.clause) if isinstance(each, BindParameter) and not each.unique)
        return frozenset(each.key for each in found)

    def compile(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """Return its text and its fixed values; compiled at the first use, which keeps starts quick."""
        if dialect.name not in self._compiled:
            compiled = self.clause.compile(dialect=dialect)
            if "POSTCOMPILE" in str(compiled):
                raise TypeError(f"a list (IN) cannot be compiled once; write it with OR: {compiled}")
            self._compiled[dialect.name] = str(compiled), dict(compiled.params or {})
        return self._compiled[dialect.name]

    def __call__(self, **values: Any) -> "BoundStatement":
        if unknown := values.keys() - self.parameters:
            raise TypeError(f"the statement has no parameter {', '.join(sorted(unknown))}: {self.clause}")
        return BoundStatement(self, values)


@record
class BoundStatement:
    """A statement with the values of its parameters, ready to run."""

    statement: Statement
    values: dict[str, Any]

    def compile(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """Return its text and all its values for a store."""
        text, fixed = self.statement.compile(dialect)
        return text, fixed | self.values


def columns_of(table: Table) -> list[str]:
    """Return the columns of a table for which an INSERT has values: all but the `id`, which the store counts up."""
    return [column.name for column in table.columns if column.name != "id"]


def insert_into(table: Table, *columns: str, ignore_conflict: bool = False) -> Statement:
    """Build an INSERT with one parameter per named column. `ignore_conflict`: leave an existing row unchanged."""
    clause = insert(table).values({column: bindparam(column) for column in columns})
    return Statement(clause.ext(OnConflict()) if ignore_conflict else clause)


def upsert_into(table: Table, key: Sequence[str], *columns: str) -> Statement:
    """Build an INSERT with a parameter per key column and named one; an existing row gets the named ones replaced."""
    clause = insert(table).values({column: bindparam(column) for column in (*key, *columns)})
    return Statement(clause.ext(OnConflict(key, columns)))


def insert_if(table: Table, condition: ColumnElement[bool], *columns: str) -> Statement:
    """Build an INSERT with one parameter per named column, done only where `condition` (it may use them) holds."""
    values = select(*(bindparam(column, type_=table.c[column].type) for column in columns)).where(condition)
    return Statement(insert(table).from_select(list(columns), values))


@record
class StatementResult:
    """The result of one statement in a transaction."""

    rowcount: int
    lastrowid: int
    """The id of the row that an INSERT made; 0 where it made none, or its table has none."""
    rows: Sequence[Row]


@dataclass(slots=True)
class Transaction:
    """Statements that wait to be committed."""

    statements: Sequence[BoundStatement]
    durable: bool
    done: asyncio.Future[list[StatementResult]]
    fence: Fence | None = None
    """Nothing of it is kept once another process has taken this session over; see `common.core.fencing`."""


Outcome = list[StatementResult] | Exception
"""The results of a transaction, or why nothing of it was kept."""


class Database:
    """An open store. Made by `open_database`; a subclass says how it commits and reads."""

    name = ""
    """The kind of the store, in words for people: `SQLite`."""
    kind = ""
    """The kind of the store, as the catalogue has it."""
    is_default = False
    """Whether people need not be told which store it is."""
    is_shared = False
    """Whether other processes may use it at the same time: sessions have owners then (`store.ownership`), and a row can
    become visible after one with a higher number (`TranscriptFeed`)."""
    kept_elsewhere = ""
    """Where deleted text remains outside of the store, in a sentence for people; empty: nowhere."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Transaction] = asyncio.Queue()
        self._settled: deque[tuple[Transaction, Outcome]] = deque()
        """Transactions whose result is still to be handed out."""
        self.salvaged: Salvaged | None = None
        """The salvage of a damaged store that this one replaced at this start."""
        self.trouble: DiskError | None = None
        """Why the last write failed; None when it did not."""
        self._watchers: list[Callable[[DiskError | None], None]] = []
        self.written: Callable[[], None] = lambda: None
        """Called after each commit; must return at once."""
        self.deleted: Callable[[], None] = lambda: None
        """Called where other processes share the store, when something that was said may have been deleted."""

    def write(self, *statements: BoundStatement, durable: bool = False) -> Awaitable[list[StatementResult]]:
        """Run the statements as one transaction and return what each did, once it is committed.

        The transaction is queued immediately, and goes on when its awaiter is cancelled.

        Raises:
            DiskError: the store cannot be written to now. Nothing of the transaction is kept.
            OwnershipLost: another process works on the session for which it is. Nothing of it is kept.
            ConstraintViolated: a constraint refused it. Nothing of it is kept.
            Exception: the driver's error, where the statements cannot be run.
        """
        done: asyncio.Future[list[StatementResult]] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(Transaction(statements, durable, done))
        return done

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        """Run one query on committed data.

        Raises:
            DiskError: the store cannot be read now.
        """
        raise NotImplementedError

    def on_trouble(self, call: Callable[[DiskError | None], None]) -> None:
        """Have `call` called when trouble begins or changes, and with None when it has ended."""
        self._watchers.append(call)

    def clock_of(self, clock: Clock) -> Clock:
        """Return the clock that stamps rows: the database's where processes share the store, else `clock`."""
        return clock

    @property
    def vectors(self) -> "SharedVectors | None":
        """The vectors that the processes share; None where it is one alone."""
        return None

    async def join(self, settings: "ReplicaSettings") -> None:
        """Be one of the processes that use the store, where several may.

        Raises:
            StateError: others are set otherwise, or the store cannot be reached.
        """

    async def use(self) -> "StoreUse | None":
        """Return which processes use the store; None where it is one alone.

        Raises:
            StateError: the store cannot be reached.
        """
        return None

    async def rewrite(self) -> bool:
        """Make deleted rows unreadable in the files of the store. False: it could not be done now; the log says why."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until everything handed in so far is committed, or cannot be."""
        with suppress(DiskError):
            await self.write()

    async def commit_forever(self) -> None:
        """Commit queued transactions; runs alongside everything else (see `open_database`)."""
        while True:
            group = [await self._waiting.get()]
            while len(group) < GROUP_SIZE and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            await self._commit_and_report(group)

    @asynccontextmanager
    async def writing(self, clock: Clock) -> AsyncIterator[None]:
        """Commit what is written while the block runs, and what is left at its end."""
        # Without it every write would wait forever, so any error begins it anew.
        writing = run_with_restarts("the database's writer", self.commit_forever, clock)
        async with background(writing, "database writer"):
            try:
                yield
            finally:
                await self.drain()

    async def commit_group(self, group: Sequence[Transaction]) -> Sequence[Outcome]:
        """Commit a group; a transaction that fails by its own fault is undone alone, and its outcome is the error.

        Raises:
            DiskError: nothing of the group is kept.
        """
        raise NotImplementedError

    async def save_readable(self, trouble: DiskError) -> None:
        """Save what can be saved when trouble begins."""

    async def _commit_and_report(self, group: Sequence[Transaction]) -> None:
        """Commit a group, and have the results of its transactions handed out."""
        outcomes: Sequence[Outcome] = [StateError("the database's writer failed") for _ in group]
        try:
            outcomes = await self.commit_group(group)
            await self._notice(None)
        except DiskError as error:
            outcomes = [DiskError(str(error), error.fault) for _ in group]
            await self._notice(error)
        finally:
            self._queue_outcomes(group, outcomes)
        self.written()

    def _queue_outcomes(self, group: Sequence[Transaction], outcomes: Sequence[Outcome]) -> None:
        is_handing_out = bool(self._settled)
        self._settled.extend(zip(group, outcomes, strict=True))
        if not is_handing_out:
            self._hand_out()

    def _hand_out(self) -> None:
        """Set results in the order of the commits, a few now and the others in later rounds of the loop."""
        for _ in range(min(RESULTS_AT_ONCE, len(self._settled))):
            transaction, outcome = self._settled.popleft()
            if transaction.done.done():
                continue
            if isinstance(outcome, Exception):
                transaction.done.set_exception(outcome)
            else:
                transaction.done.set_result(outcome)
        if self._settled:
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _is_damaged(self) -> bool:
        return self.trouble is not None and self.trouble.fault is DiskFault.DAMAGED

    async def _notice(self, trouble: DiskError | None) -> None:
        """Log once when trouble begins or changes, and when it has ended; however many writes fail in between."""
        before = self.trouble
        if (before and before.fault) == (trouble and trouble.fault) or self._is_damaged():
            return
        self.trouble = trouble
        if trouble is None:
            log.warning("the database can be written to again")
        else:
            log.error("%s", trouble)
            await self.save_readable(trouble)
        for watch in self._watchers:
            watch(trouble)


class Salvaged(Protocol):
    """A damaged store that was set aside."""

    @property
    def summary(self) -> str:
        """Its place and the rows that were kept, in words for people."""


@record
class StorePart:
    """A store other than SQLite, as named in the catalogue."""

    open: Callable[[PostgresPlace, Clock, bool], AbstractAsyncContextManager[Database]]
    """Opens it. The last argument: for this process alone, which is refused while others use it."""
    read: Callable[[PostgresPlace, Sequence[BoundStatement]], list[Sequence[Row]]]
    """Answers queries while a daemon runs, all from one snapshot."""
    exists: Callable[[PostgresPlace], bool]
    """Whether there are tables."""
    examine: Callable[[PostgresPlace], "Examined"]
    probe: Callable[[Database, Callable[[], Mapping[str, Path]], Clock], "FolderProbe"]
    """Whether other gateways see the same folders, given by a name that all know: for a running one."""
    unseen_folders: Callable[[PostgresPlace, Callable[[], Mapping[str, Path]], Clock], Awaitable[Sequence[str]]]
    """The same while gateways run: returns in words which of them does not see a folder."""
    copy_to_file: Callable[[PostgresPlace, Path], "Mapping[str, TableSum]"]
    """Writes all rows of one moment into a new file of SQLite; returns the sum of each table."""
    replace_with_file: Callable[[PostgresPlace, Path, bool], "Mapping[str, TableSum]"]
    """Puts the rows of a file of SQLite in the place of all others, which no daemon may use; returns their sums.
    The last argument: to refuse where there are rows."""
    files: Callable[[Database, Path, Clock], "SharedFiles"]
    """The files of a state folder that an open store has, too."""
    audits: Callable[[PostgresPlace, Path, Path], tuple[str, Mapping[str, Path]]]
    """Writes the audit logs of other state folders than the first below the second; returns the name of the first's,
    and the newest file of each other one."""


@record
class Examined:
    """The result of a look at a store."""

    words: str
    weaknesses: Sequence[tuple[str, str]]
    """The problems that were found, each with its remedy."""
