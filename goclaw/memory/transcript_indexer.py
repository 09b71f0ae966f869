"""Indexing of transcripts: new messages get into the index, deleted ones out of it.

It runs beside the turns: storing a message only wakes it. A search indexes earlier messages by itself
(`TranscriptIndexer.catch_up`). Progress is the number of the last indexed row, so that after any restart it resumes
where the index ends; deletions made meanwhile show in where the conversations begin.
"""

import asyncio
import logging
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from goclaw.core.clock import Clock
from goclaw.core.events import AGENT_MARK, PROGRAM_MARK
from goclaw.core.supervise import background, ends_within
from goclaw.memory.chunks import MAX_HEADING
from goclaw.memory.index import talk
from goclaw.memory.index.database import BrokenIndex, IndexFile
from goclaw.memory.index.talk import IndexedRow
from goclaw.store.reading import FeedRow
from goclaw.store.transcripts import NOTICE

if TYPE_CHECKING:
    from goclaw.store.replicas import SharedVectors

log = logging.getLogger(__name__)

AGENT = "GoClaw"
"""The agent's name as a speaker, also for messages written in GoClaw's name by other parts."""
ECHOES = frozenset(
    (
        "memento",
        "memory_delete",
        "memory_get",
        "memory_list",
        "memory_read",
        "memory_search",
        "memory_write",
        "transcript_search",
    )
)
"""Tools whose results repeat stored text (those with the tag `memory`): indexed, they would hide their own sources."""
LOOK_SECONDS = 300.0
"""Seconds between looks at the transcripts without a notice of new messages."""
GATHER_SECONDS = 15.0
"""Seconds to wait after a notice for further messages: one write takes in many turns, and a search waits for none."""
BREATH_SECONDS = 0.01
"""Seconds between two portions of an existing transcript, left to other tasks."""
CATCH_UP_SECONDS = 2.0
"""Seconds that a search waits for indexing; longer only when an existing database is new to the index."""

_SENDER = re.compile(r"<context>[^;\n]*; ([^\n]+) via [^;<\n]*")
"""The format of `agent.prompt.envelope`."""


class TranscriptSource(Protocol):
    """The transcripts, as `store.reading` reads them."""

    deletions: int
    """Another number whenever something may have been deleted by another gateway."""

    @property
    def vectors(self) -> "SharedVectors | None":
        """The vectors that gateways share; None where there is one alone."""
        ...

    async def after(self, row: int) -> Sequence[FeedRow]:
        """Return the next rows after `row` over all sessions, as many as are convenient at once; empty at the end."""
        ...

    async def extents(self) -> Mapping[str, tuple[int, int]]:
        """Return all sessions, each with its first and its last row."""
        ...

    async def said_at(self, row: int) -> float | None:
        """Return when the row with this number was stored; None if there is no such row."""
        ...

    async def news(self) -> None:
        """Wait until something may have been stored since the last call."""
        ...


class TranscriptIndexer:
    """A background task that brings the conversations of an index in line with the transcripts.

    Its methods raise `BrokenIndex` when the index is damaged; the caller rebuilds it (`IndexFile.rebuild`) and calls
    again. They raise `StateError` when the disk refuses.
    """

    def __init__(
        self, index: IndexFile, feed: TranscriptSource, clock: Clock, echoes: Collection[str] = ECHOES
    ) -> None:
        self._index = index
        self._feed = feed
        self._clock = clock
        self._echoes = echoes
        self._lock = asyncio.Lock()
        """Held from reading a portion of the transcripts until it is written: rows deleted meanwhile must not be added.
        """
        self._compared: int | None = None
        """The generation of the index that was compared with the transcripts."""
        self._deletions = 0
        """`TranscriptSource.deletions` at that time."""
        self._seen = 0
        self._leftovers = False
        """Whether deleted words may still be in the file."""

    async def catch_up(self) -> bool:
        """Index the messages stored before the call; return False if there are too many to wait for."""
        began = self._clock.monotonic()
        while await self._take_in():
            if self._clock.monotonic() - began > CATCH_UP_SECONDS:
                return False
        return True

    async def forget(self) -> bool:
        """Remove deleted messages from every file of the index; return False if that is impossible now."""
        await self._compare()
        return await self._index.rewrite()

    async def run(self) -> None:
        """Index new rows forever; a damaged index is rebuilt."""
        while True:
            try:
                await self._listen()
            except BrokenIndex as error:
                await self._index.rebuild(error)

    async def _listen(self) -> None:
        while True:
            while await self._take_in():
                await self._clock.sleep(BREATH_SECONDS)
            if self._leftovers:
                self._leftovers = not await self._index.rewrite()
            async with background(self._feed.news(), "waiting for messages") as news:
                await ends_within(news, self._clock, LOOK_SECONDS)
            await self._clock.sleep(GATHER_SECONDS)

    async def _take_in(self) -> bool:
        """Index the next portion; return False if there was none."""
        if self._compared != self._index.generation or self._deletions != self._feed.deletions:
            self._leftovers |= await self._compare()
        async with self._lock:
            rows = await self._feed.after(self._seen)
            if not rows:
                return False
            said = [said_of(row, self._echoes) for row in rows]
            if await self._index.write(partial(self._put, said=said)):
                self._seen = rows[-1].row
            return True

    def _put(self, connection: sqlite3.Connection, said: Sequence[IndexedRow]) -> bool:
        # A rebuilt file may have replaced the one that was read, and lack earlier rows.
        if self._compared != self._index.generation:
            return False
        talk.put(connection, said)
        return True

    async def _compare(self) -> bool:
        """Delete what is no longer in the transcripts; return whether there was anything to delete."""
        generation, self._deletions = self._index.generation, self._feed.deletions
        async with self._lock:
            self._seen, seen_at, known = await self._index.read(_known)
            # Queried last: rows stored meanwhile must not look like another database's.
            there = await self._feed.extents()
            at = await self._feed.said_at(self._seen)
            strange = _of_another_database(self._seen, known, there) or at not in (None, seen_at)
            if strange:
                log.warning("the memory index is of another database: it takes all conversations in anew")
                await self._begin_anew(known)
            self._compared = generation
        if strange:
            return True
        # Up to the last known row: later messages may reuse the name of a deleted session.
        gone = {session: last + 1 for session, (_, last) in known.items() if session not in there}
        cut = {session: there[session][0] for session in known if session in there}
        vanished = gone | {session: first for session, first in cut.items() if first > known[session][0]}
        for session, before in vanished.items():
            while await self._drop(session, before):
                pass
        return bool(vanished)

    async def _drop(self, session: str, before: int) -> bool:
        async with self._lock:
            return await self._index.write(lambda connection: talk.forget(connection, session, before))

    async def _begin_anew(self, known: Collection[str]) -> None:
        for session in known:
            while await self._index.write(partial(talk.forget, session=session)):
                pass
        await self._index.write(talk.begin_anew)
        self._seen = 0


def _known(connection: sqlite3.Connection) -> tuple[int, float, dict[str, tuple[int, int]]]:
    return talk.seen(connection), talk.seen_at(connection), talk.extents(connection)


def said_of(row: FeedRow, echoes: Collection[str]) -> IndexedRow:
    """Return the searchable part of a row; its text may be empty."""
    text, speaker, sender, heading = row.text, AGENT, "", ""
    match row.role:
        case _ if PROGRAM_MARK in row.session or row.role == NOTICE:
            text = ""
        # An agent's instructions come from the user or agent that started it.
        case "user" if row.sender and AGENT_MARK not in row.session:
            found = _SENDER.match(row.context)
            sender, speaker = row.sender, found[1] if found else row.sender
            heading = "; ".join(row.origins)
        case "tool_result" if row.name in echoes:
            text = ""
        case "tool_result":
            speaker, heading = row.name, ": ".join(filter(None, (row.call_hint, row.hint)))
    return IndexedRow(
        row.row, row.session, row.turn, row.role, text, speaker, sender, row.at, heading=heading[:MAX_HEADING]
    )


def _of_another_database(seen: int, known: Mapping[str, tuple[int, int]], there: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether any session proves that the index was made from another database.

    Rows are never reused: an indexed one is in the transcripts, or was deleted with all before it.
    """
    return any(
        last <= seen if session not in known else first < known[session][0] or last < known[session][1]
        for session, (first, last) in there.items()
    )
