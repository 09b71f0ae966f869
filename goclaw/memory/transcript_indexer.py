"""Listens to the conversations: what is said gets into the index, and what was forgotten out of it.

Beside the turns, never in their way: whoever stores a message only leaves word. A search takes in what was said before
it by itself (`TranscriptIndexer.catch_up`). What was taken in is known by the number of its row, so that a restart,
however it came, goes on where the index is; what was deleted meanwhile is seen from where the conversations begin.
"""

import asyncio
import logging
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from goclaw.clock import Clock
from goclaw.events import AGENT_MARK
from goclaw.memory.chunks import MAX_HEADING
from goclaw.memory.index import talk
from goclaw.memory.index.database import BrokenIndex, IndexFile
from goclaw.memory.index.talk import IndexedRow
from goclaw.store.feed import FeedRow
from goclaw.supervise import background, ends_within

log = logging.getLogger(__name__)

AGENT = "GoClaw"
"""How the agent is called as a speaker, and whoever else writes in GoClaw's name."""
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
"""Tools whose results repeat what stands elsewhere (those with the tag `memory`): found again, they would crowd out
what they were made of."""
LOOK_SECONDS = 300.0
"""How often the listener looks although nobody has left word."""
GATHER_SECONDS = 0.5
"""How long it waits after a word for what comes along with it."""
BREATH_SECONDS = 0.01
"""Between two portions of an existing transcript: the index is made in the background, and others work."""
CATCH_UP_SECONDS = 2.0
"""What a search waits at most for what is not in the index yet; longer only when an existing database is new to it."""

_SENDER = re.compile(r"<context>[^;\n]*; ([^\n]+) via [^;<\n]*")
"""As `agent.prompt.envelope` writes it."""


class TranscriptSource(Protocol):
    """The transcripts, as `store.feed` reads them."""

    async def after(self, row: int) -> Sequence[FeedRow]:
        """The next rows after `row` over all sessions, as many as are convenient at once; none at the end."""
        ...

    async def extents(self) -> Mapping[str, tuple[int, int]]:
        """The sessions that there are, each with its first and its last row."""
        ...

    async def said_at(self, row: int) -> float | None:
        """When the row with this number was said; None: there is none."""
        ...

    async def news(self) -> None:
        """Wait until something may have been stored since this was asked last."""
        ...


class TranscriptIndexer:
    """Brings the talk of an index in line with the transcripts.

    Its methods raise `BrokenIndex` when the index is damaged; whoever makes it anew (`IndexFile.rebuild`) calls again.
    They raise `StateError` when the disk refuses.
    """

    def __init__(
        self, index: IndexFile, feed: TranscriptSource, clock: Clock, echoes: Collection[str] = ECHOES
    ) -> None:
        self._index = index
        self._feed = feed
        self._clock = clock
        self._echoes = echoes
        self._lock = asyncio.Lock()
        """Around reading a portion of the transcripts and writing it down: what is deleted in between must not come."""
        self._compared: int | None = None
        """The generation of the index that was compared with the transcripts."""
        self._seen = 0
        self._leftovers = False
        """Something was deleted whose words may still be in the file."""

    async def catch_up(self) -> bool:
        """Take in what was said before the call; False: there is too much of it to wait for."""
        began = self._clock.monotonic()
        while await self._take_in():
            if self._clock.monotonic() - began > CATCH_UP_SECONDS:
                return False
        return True

    async def forget(self) -> bool:
        """Have nothing of what has gone from the transcripts in any file of the index; False: it could not be done."""
        await self._compare()
        return await self._index.rewrite()

    async def run(self) -> None:
        """Listen for ever; a damaged index is made anew."""
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
        """Take in the next portion; False: there was none."""
        if self._compared != self._index.generation:
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
        # Another file may have taken the place of the one that was read: it may lack what came before.
        if self._compared != self._index.generation:
            return False
        talk.put(connection, said)
        return True

    async def _compare(self) -> bool:
        """Drop what is no longer in the transcripts; returns whether there was anything of the kind."""
        generation = self._index.generation
        async with self._lock:
            self._seen, seen_at, known = await self._index.read(_known)
            # Asked for last: what is stored meanwhile must not look like what another database has.
            there = await self._feed.extents()
            at = await self._feed.said_at(self._seen)
            strange = _of_another_database(self._seen, known, there) or at not in (None, seen_at)
            if strange:
                log.warning("the memory index is of another database: it takes all conversations in anew")
                await self._begin_anew(known)
            self._compared = generation
        if strange:
            return True
        # Up to the last row that was known: what is said from now on may have the name of a session that is gone.
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
    """What is searched of a row; without text: nothing."""
    text, speaker, sender, heading = row.text, AGENT, "", ""
    match row.role:
        # What an agent is told to do, it is told by the one who started it.
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
    """Whether there is a session that cannot be if these are the transcripts that the index was made of.

    Rows are never used twice and never come back: one that the index has is there or was forgotten with all before it.
    """
    return any(
        last <= seen if session not in known else first < known[session][0] or last < known[session][1]
        for session, (first, last) in there.items()
    )
