"""A test whether gateways see the same folders: one puts a file into each of its own, and the others look for it.

Asked and answered by notices. The file has a random name, so that no cache of a network's file system knows it, and is
removed at the end.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import orjson
import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, finish_despite_cancel, run_with_restarts, set_within
from goclaw.durable.store.database import BoundStatement, Database, Row, Statement
from goclaw.durable.store.postgres.beside import exists
from goclaw.durable.store.postgres.connecting import application_name, connect
from goclaw.durable.store.postgres.database import require_postgres
from goclaw.durable.store.postgres.faults import store_error
from goclaw.durable.store.postgres.notices import Notices
from goclaw.durable.store.postgres.replicas import ALL, SERVER, use_of
from goclaw.durable.store.postgres.sending import bind
from goclaw.durable.store.replicas import Replica
from goclaw.errors import StateError

log = logging.getLogger(__name__)

ASKED, SEEN = "foldersasked", "foldersseen"
"""Topics of the questions and of the answers."""
ANSWER_SECONDS = 3.0
"""Seconds for the other gateways to answer."""
MAX_FOLDERS = 50
"""Folders in one question, which has to fit into a notice."""
MAX_NAMES = 7_500
"""Bytes of their names there (`notices.MAX_BYTES`), and in an answer."""
MAX_QUESTIONS = 20
"""Questions that wait for an answer; more are dropped, and their askers say that nothing was answered."""
_CONNECTED = Statement(
    """
SELECT r.id FROM replicas r WHERE EXISTS (
    SELECT 1 FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'goclaw ' || r.id || ' %'
)"""
)
"""A gateway that was killed a moment ago has been seen, but has no connection, and does not answer."""
_TOKEN = re.compile(r"[0-9a-f]{16}")

Folders = Callable[[], Mapping[str, Path]]
"""Returns the folders that all gateways have to see, by a name that all know: a user's key, or "" for the workspace."""


class FolderProbe:
    """Asks and answers. Implements `store.replicas.FolderProbe`."""

    def __init__(
        self,
        notices: Notices,
        read: Callable[[BoundStatement], Awaitable[Sequence[Row]]],
        write: Callable[[BoundStatement], Awaitable[object]],
        folders: Folders,
        clock: Clock,
        replica: str = "",
    ) -> None:
        """`read` answers a query, `write` commits a statement; `replica`: which gateway this is; empty: none."""
        self._notices = notices
        self._read = read
        self._write = write
        self._folders = folders
        self._clock = clock
        self._replica = replica
        self._listens = asyncio.Event()
        self._questions: asyncio.Queue[str] = asyncio.Queue(MAX_QUESTIONS)
        self._answers: dict[str, dict[str, list[str]]] = {}
        """By the question's token and the gateway: the folders in which it saw no file."""
        self._news = asyncio.Event()
        notices.subscribe(SEEN, self._receive_answer, self._listens.set)
        if replica:
            notices.subscribe(ASKED, self._receive_question, self._listens.set)

    async def run(self) -> None:
        while True:
            question = orjson.loads(await self._questions.get())
            token, names = str(question["token"]), [str(name) for name in question["folders"]]
            if not _TOKEN.fullmatch(token):
                continue
            unseen = await asyncio.to_thread(_without, _file(token), names, self._folders())
            answer = {"token": token, "replica": self._replica, "unseen": unseen}
            await self._write(self._notices.notice_for(SEEN, orjson.dumps(answer).decode()))

    async def unseen(self) -> list[str]:
        others = await self._others()
        if not others or not await set_within(self._listens, self._clock, ANSWER_SECONDS):
            return []
        token = secrets.token_hex(8)
        answers = self._answers[token] = {}
        try:
            folders = await asyncio.to_thread(_distinct, self._folders())
            async with _laid(folders, _file(token)) as names:
                question = orjson.dumps({"token": token, "folders": names}).decode()
                await self._write(self._notices.notice_for(ASKED, question))
                await self._wait_for({each.id for each in others}, answers)
            return list(_words(others, answers, folders))
        finally:
            del self._answers[token]

    async def _others(self) -> Sequence[Replica]:
        connected = {row["id"] for row in await self._read(_CONNECTED())}
        [server] = await self._read(SERVER())
        replicas = use_of(await self._read(ALL()), server, self._replica).replicas
        return [each for each in replicas if each.id in connected and each.lives and not each.is_own]

    async def _wait_for(self, others: set[str], answers: Mapping[str, list[str]]) -> None:
        deadline = self._clock.monotonic() + ANSWER_SECONDS
        while others - answers.keys() and (left := deadline - self._clock.monotonic()) > 0:
            self._news.clear()
            await set_within(self._news, self._clock, left)

    def _receive_question(self, payload: str) -> None:
        with suppress(asyncio.QueueFull):
            self._questions.put_nowait(payload)

    def _receive_answer(self, payload: str) -> None:
        answer = orjson.loads(payload)
        if (known := self._answers.get(answer["token"])) is not None:
            known[answer["replica"]] = answer["unseen"]
            self._news.set()


def _file(token: str) -> str:
    return f".goclaw-probe-{token}"


def _distinct(folders: Mapping[str, Path]) -> dict[str, Path]:
    """Return each folder that there is once, with the first of its names: as many as a question can be about."""
    found: dict[Path, str] = {}
    for name, folder in folders.items():
        if folder.is_dir():
            found.setdefault(folder.resolve(), name)
    fitting, left = dict[str, Path](), MAX_NAMES
    for folder, name in list(found.items())[:MAX_FOLDERS]:
        left -= len(orjson.dumps(name)) + 1
        if left >= 0:
            fitting[name] = folder
    return fitting


def _without(file: str, names: Sequence[str], folders: Mapping[str, Path]) -> list[str]:
    """Return the names of the folders that do not have the file."""
    return [name for name in names if name not in folders or not (folders[name] / file).is_file()]


@asynccontextmanager
async def _laid(folders: Mapping[str, Path], file: str) -> AsyncIterator[list[str]]:
    """Put an empty file into each folder, and remove it at the end; yields the names of those that took one."""
    try:
        yield await finish_despite_cancel(asyncio.to_thread(_lay, folders, file), "laying files")
    finally:
        await asyncio.to_thread(_remove, folders.values(), file)


def _lay(folders: Mapping[str, Path], file: str) -> list[str]:
    taken = []
    for name, folder in folders.items():
        try:
            (folder / file).touch(0o644, exist_ok=False)
            taken.append(name)
        except OSError as error:
            log.debug("no file can be put into %s: %s", folder, error.strerror)
    return taken


def _remove(folders: Iterable[Path], file: str) -> None:
    for folder in folders:
        with suppress(OSError):
            (folder / file).unlink(missing_ok=True)


def _words(others: Sequence[Replica], answers: Mapping[str, list[str]], folders: Mapping[str, Path]) -> Iterator[str]:
    for other in others:
        if other.id not in answers:
            yield f"the gateway {other.name} did not say within {ANSWER_SECONDS:g} s whether it sees the same folders"
            continue
        for name in answers[other.id]:
            yield f"the gateway {other.name} does not see the same folder as {folders[name]} here"


def open_probe(database: Database, folders: Folders, clock: Clock) -> FolderProbe:
    """Return the probe of a running gateway, which answers the others, too."""
    schema = require_postgres(database)
    return FolderProbe(schema.notices, schema.read, schema.write, folders, clock, schema.replica)


async def unseen_folders(place: PostgresPlace, folders: Folders, clock: Clock) -> list[str]:
    """Ask the running gateways from outside: see `FolderProbe.unseen`.

    Raises:
        StateError: Postgres cannot be used.
    """
    if not await asyncio.to_thread(exists, place):
        return []
    name = application_name("beside")
    try:
        async with await connect(place, name) as connection:

            async def execute(statement: BoundStatement) -> Sequence[Row]:
                return await (await connection.execute(*bind(statement))).fetchall()

            notices = Notices(place, name)
            probe = FolderProbe(notices, execute, execute, folders, clock)
            async with background(run_with_restarts("notices", notices.run, clock), "notices"):
                return await probe.unseen()
    except (psycopg.Error, OSError) as error:
        raise StateError(str(store_error(error, place.shown, "read"))) from error
