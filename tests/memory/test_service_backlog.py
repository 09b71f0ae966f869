"""Conversations whose messages are many and not indexed yet: the newest are found first, and a gap is said."""

import asyncio
from pathlib import Path

import pytest

from goclaw.memory.base import TranscriptQuery
from goclaw.memory.transcript_indexer import BACKLOG
from tests.memory.test_service import Home, Transcripts, at_home

SESSIONS = ("tui:anna", "tui:bob")
MANY = 2 * BACKLOG
FIRST_SECOND = 1_750_000_000.0


def much_said() -> Transcripts:
    said = Transcripts()
    for number in range(1, MANY + 1):
        said.say(f"apple{number}", session=SESSIONS[number % 2])
    return said


async def found(home: Home, query: str) -> list[int]:
    """The rows of what is found."""
    return [quote.row for quote in (await home.memory.search_transcripts(TranscriptQuery(query, SESSIONS), 50)).quotes]


async def indexed(home: Home) -> None:
    """Let the background work do everything."""
    async with asyncio.timeout(60):
        while (await home.memory.status()).passages < MANY:
            home.clock.advance(1)
            await asyncio.sleep(0)


async def test_the_newest_messages_are_found_at_once_and_those_that_are_missing_are_said(tmp_path: Path) -> None:
    async with at_home(tmp_path, said=much_said()) as home:
        assert await found(home, f"apple{MANY}") == [MANY]
        assert await found(home, f"apple{BACKLOG}") == []
        begin, end = (await home.memory.search_transcripts(TranscriptQuery("apple7", SESSIONS), 5)).missing or (0, 0)
        assert begin < FIRST_SECOND + BACKLOG < end < FIRST_SECOND + MANY
        home.said.say("the newest of all")
        assert await found(home, "newest of all") == [MANY + 1]
        (line,) = (await home.memory.status()).details
        assert line.startswith("conversations are being indexed (") and line.endswith("UTC cannot be found yet")


async def test_a_backlog_is_indexed_to_its_end_over_restarts_and_nothing_is_found_twice(tmp_path: Path) -> None:
    said = much_said()
    async with at_home(tmp_path, said=said) as home:
        await found(home, "apple1")
    async with at_home(tmp_path, said=said) as home:
        home.clock.advance(3)
        await indexed(home)
        status = await home.memory.status()
        assert (status.conversations, status.passages, status.details) == (2, MANY, ())
        for number in (1_234, BACKLOG, MANY):
            heard = await home.memory.search_transcripts(TranscriptQuery(f"apple{number}", SESSIONS), 50)
            assert ([quote.row for quote in heard.quotes], heard.missing) == ([number], None)


async def test_a_command_line_that_works_alone_indexes_everything_itself(tmp_path: Path) -> None:
    async with at_home(tmp_path, said=much_said(), alone=True) as home:
        assert await found(home, f"apple{BACKLOG}") == [BACKLOG]
        assert (await home.memory.status()).details == ()


@pytest.mark.promise("P-forgotten")
async def test_a_session_that_is_forgotten_while_a_backlog_is_indexed_is_in_no_part_of_the_index(
    tmp_path: Path,
) -> None:
    async with at_home(tmp_path, said=much_said()) as home:
        assert await found(home, f"apple{MANY}") == [MANY]
        home.said.rows = [row for row in home.said.rows if row.session == SESSIONS[1]]
        assert await home.memory.forget()
        assert await found(home, f"apple{MANY}") == [] and await found(home, f"apple{MANY - 1}") == [MANY - 1]
        assert not [path for path in home.index.parent.iterdir() if f"apple{MANY}".encode() in path.read_bytes()]


async def test_messages_that_were_deleted_are_found_no_more_before_they_are_out_of_the_index(tmp_path: Path) -> None:
    async with at_home(tmp_path, said=much_said(), alone=True) as home:
        assert (await found(home, "apple5"))[0] == 5
        home.said.rows = home.said.rows[MANY // 2 :]
        home.said.deletions += 1
        assert 5 not in await found(home, "apple5") and await found(home, f"apple{MANY}") == [MANY]
