"""Indexing of transcripts: new messages get into the index, deleted ones out of it.

It runs in parallel to the turns: storing a message only wakes it. A search indexes earlier messages by itself
(`TranscriptIndexer.catch_up`). Progress is the number of the last indexed row, so that after any restart it resumes
where the index ends; deletions made meanwhile show in where the conversations begin.

Of a large backlog the newest messages come first (`index.talk`); the rest follows in larger portions, and each search
says from when to when messages are missing.
"""

import asyncio
import logging
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import AGENT_MARK, PROGRAM_MARK
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, ends_within
from goclaw.durable.store.reading import FeedRow, TranscriptFeed
from goclaw.durable.store.transcripts import NOTICE
from goclaw.memory.chunks import MAX_HEADING
from goclaw.memory.index import talk
from goclaw.memory.index.database import BrokenIndex, IndexFile
from goclaw.memory.index.talk import IndexedRow

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
BACKLOG = 3_000
"""Row numbers between the last indexed and the last stored one from which on the newest messages come first."""
CATCH_UP_SECONDS = 2.0
"""Seconds that a search waits for indexing; longer only when an existing database is new to the index."""

_SENDER = re.compile(r"<context>[^;\n]*; ([^\n]+) via [^;<\n]*")
"""The format of `agent.prompt.envelope`."""


class TranscriptIndexer:
    """A background task that brings the conversations of an index in line with the transcripts.

    Its methods raise `BrokenIndex` when the index is damaged; the caller rebuilds it (`IndexFile.rebuild`) and calls
    again. They raise `StateError` when the disk refuses.
    """

    def __init__(self, index: IndexFile, feed: TranscriptFeed, clock: Clock, echoes: Collection[str] = ECHOES) -> None:
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
        """`TranscriptFeed.deletions` at that time."""
        self._seen = 0
        self._newest = 0
        """The last row of the newest messages, while a backlog is indexed; else 0."""
        self._portions = 0
        """Portions that followed each other: after two there may be a backlog."""
        self.deleted: dict[str, int] = {}
        """Sessions with deleted rows that are still in the index, each with the first row that is left."""
        self._leftovers = False
        """Whether deleted words may still be in the file."""

    async def catch_up(self, *, alone: bool = False) -> bool:
        """Index the messages stored before the call; of a large backlog only the newest, unless nothing else will.

        Returns whether all are indexed.
        """
        began = self._clock.monotonic()
        await self._follow_deletions()
        while await self._add_newest() or (await self._work() if alone or not self._newest else await self._purge()):
            if self._clock.monotonic() - began > CATCH_UP_SECONDS:
                return False
        return not self._newest

    async def fill(self) -> None:
        """Index everything, for an index that no search uses yet."""
        while await self._add():
            await self._clock.sleep(0)

    async def forget(self) -> bool:
        """Remove deleted messages from every file of the index; return False if that is impossible now."""
        await self._compare()
        while await self._purge():
            pass
        self._leftovers = not await self._index.rewrite()
        return not self._leftovers

    async def run(self) -> None:
        """Index new rows forever; a damaged index is rebuilt."""
        while True:
            try:
                await self._listen()
            except BrokenIndex as error:
                await self._index.rebuild(error)

    async def _listen(self) -> None:
        while True:
            while await self._work():
                await self._clock.sleep(BREATH_SECONDS)
            if self._leftovers:
                self._leftovers = not await self._index.rewrite()
            async with background(self._feed.news(), "waiting for messages") as news:
                await ends_within(news, self._clock, LOOK_SECONDS)
            await self._clock.sleep(GATHER_SECONDS)

    async def _work(self) -> bool:
        """Do a portion of everything that waits; return False if nothing did."""
        await self._follow_deletions()
        newest = await self._add_newest()
        added = await self._add()
        ended = not newest and not added and bool(self._newest) and await self._end_newest()
        return await self._purge() or newest or added or ended

    async def _follow_deletions(self) -> None:
        if self._compared != self._index.generation or self._deletions != self._feed.deletions:
            await self._compare()

    async def _add(self) -> bool:
        """Index the next portion, in the order of rows; return False if there was none."""
        await self._follow_deletions()
        async with self._lock:
            rows = await self._feed.after(self._seen, many=bool(self._newest))
            self._portions = self._portions + 1 if rows else 0
            if not rows:
                return False
            said = [searchable_part(row, self._echoes) for row in rows]
            if await self._index.write(partial(self._put, said=said, newest=False)):
                self._seen = rows[-1].row
            return True

    async def _add_newest(self) -> bool:
        """Index the next portion of the newest messages, if there is a backlog; return False if there was none."""
        async with self._lock:
            if not self._newest:
                end = await self._feed.end() if self._portions > 1 else 0
                if end - self._seen <= BACKLOG:
                    return False
                at = await self._feed.time_of(end - BACKLOG // 2)
                begin = partial(talk.index_newest, row=end - BACKLOG // 2, at=at or self._clock.now())
                await self._index.write(begin)
                self._newest = end - BACKLOG // 2
            rows = await self._feed.after(max(self._newest, self._seen), many=True)
            if not rows:
                return False
            said = [searchable_part(row, self._echoes) for row in rows]
            if await self._index.write(partial(self._put, said=said, newest=True)):
                self._newest = rows[-1].row
            return True

    async def _end_newest(self) -> bool:
        """Delete the newest messages in portions, once the backlog is indexed: they are in the index twice."""
        async with self._lock:
            if not (more := await self._index.write(talk.end_newest)):
                self._newest = 0
            return more

    def _put(self, connection: sqlite3.Connection, said: Sequence[IndexedRow], *, newest: bool) -> bool:
        # A rebuilt file may have replaced the one that was read, and lack earlier rows.
        if self._compared != self._index.generation:
            return False
        talk.put(connection, said, newest=newest)
        return True

    async def _compare(self) -> None:
        """Find passages that are no longer in the transcripts."""
        generation, self._deletions = self._index.generation, self._feed.deletions
        async with self._lock:
            known = await self._index.read(_load_known)
            self._seen, self._newest = known.seen, known.newest
            # Queried last: rows stored meanwhile must not look like another database's.
            there = await self._feed.extents()
            at = await self._feed.time_of(self._seen)
            strange = _of_another_database(self._seen, known.extents, there) or at not in (None, known.seen_at)
            if strange:
                log.warning("the memory index is of another database: it takes all conversations in anew")
                for session in {*known.extents, *known.newest_extents}:
                    while await self._index.write(partial(talk.forget, session=session)):
                        pass
                await self._index.write(talk.restart)
                self._seen = self._newest = 0
            self._compared = generation
        if strange:
            self._leftovers = True
            return
        for extents in (known.extents, known.newest_extents):
            # Up to the last known row: later messages may reuse the name of a deleted session.
            gone = {session: last + 1 for session, (_, last) in extents.items() if session not in there}
            cut = {session: there[session][0] for session, (first, _) in extents.items() if session in there}
            cut = {session: first for session, first in cut.items() if first > extents[session][0]}
            for session, before in (gone | cut).items():
                self.deleted[session] = max(before, self.deleted.get(session, 0))

    async def _purge(self) -> bool:
        """Remove the next portion of deleted passages; return False if there was none."""
        async with self._lock:
            for session, before in self.deleted.items():
                if not await self._index.write(partial(talk.forget, session=session, before_row=before)):
                    del self.deleted[session]
                    self._leftovers = True
                return True
        return False


@record
class _Known:
    """The rows of the transcripts that an index holds."""

    seen: int
    seen_at: float
    newest: int
    extents: Mapping[str, tuple[int, int]]
    newest_extents: Mapping[str, tuple[int, int]]


def _load_known(connection: sqlite3.Connection) -> _Known:
    return _Known(
        talk.highest_row(connection),
        talk.seen_at(connection),
        talk.newest_seen(connection),
        talk.extents(connection),
        talk.extents(connection, newest=True),
    )


def searchable_part(row: FeedRow, echoes: Collection[str]) -> IndexedRow:
    """Return the searchable part of a row; its text may be empty."""
    text, speaker, sender, heading = row.text, AGENT, "", ""
    match row.role:
        case _ if PROGRAM_MARK in row.session or row.role == NOTICE:
            text = ""
        # An agent's instructions come from the user or agent that started it.
        case "user" if row.sender and AGENT_MARK not in row.session:
            found = _SENDER.match(row.context)
            sender, speaker = row.sender, found[1] if found else row.sender
            heading = row.heading
        case "tool_result" if row.name in echoes:
            text = ""
        case "tool_result":
            speaker, heading = row.name, row.heading
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
