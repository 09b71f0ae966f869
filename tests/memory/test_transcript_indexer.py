"""What is said gets into the index, and what is forgotten out of it, whatever happens in between."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Inbound, session_of_program
from goclaw.common.core.messages import AssistantMessage, Foreign, ToolCall, ToolResult, UserMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.agent.prompt import envelope
from goclaw.durable.store.database import Database
from goclaw.durable.store.forgetting import Forgetting, Retention
from goclaw.durable.store.open import open_database
from goclaw.durable.store.reading import FeedRow, TranscriptFeed
from goclaw.memory.chunks import Chunk
from goclaw.memory.index import notes, talk
from goclaw.memory.index.database import BrokenIndex, IndexFile, open_index
from goclaw.memory.index.schema import SCHEMA
from goclaw.memory.index.talk import IndexedRow
from goclaw.memory.transcript_indexer import AGENT, ECHOES, LOOK_SECONDS, TranscriptIndexer, searchable_part
from goclaw.tools.toolkit.registry import BuiltIn
from tests.acceptance.waiting import clock as real
from tests.durable.store.saying import ANNA, Story
from tests.durable.store.saying import talk as turn_about
from tests.parts import sql

PATIENCE = 20.0


@dataclass
class House:
    """A database, an index of it, and whoever listens."""

    folder: Path
    database: Database
    index: IndexFile
    feed: TranscriptFeed
    clock: SteppedClock
    listener: TranscriptIndexer

    @property
    def story(self) -> Story:
        return Story(self.database)

    async def texts(self) -> list[str]:
        """What is searched, in order."""

        def kept(connection: sqlite3.Connection) -> list[str]:
            return [text for (text,) in connection.execute("SELECT text FROM talk_passages ORDER BY row, place")]

        return await self.index.read(kept)

    def holding(self, word: str) -> list[str]:
        """The files that have the word in them."""
        return holding(self.folder, word)

    async def until(self, *texts: str) -> None:
        """Let time pass until just these are searched."""
        async with asyncio.timeout(PATIENCE):
            while await self.texts() != list(texts):
                self.clock.advance(1)
                await asyncio.sleep(0)


def holding(folder: Path, word: str) -> list[str]:
    """Return the names of the files that have the word in them."""
    return sorted(path.name for path in folder.iterdir() if word.encode() in path.read_bytes())


@asynccontextmanager
async def house(folder: Path, database: str = "goclaw.db") -> AsyncIterator[House]:
    """As after a start, on what is in the folder."""
    async with open_database(folder / database) as opened, open_index(folder / "memory.db") as index:
        feed, clock = TranscriptFeed(opened), SteppedClock()
        opened.written = feed.wake
        yield House(folder, opened, index, feed, clock, TranscriptIndexer(index, feed, clock))


async def test_what_was_said_before_a_search_is_found_by_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, *turn_about("apple"))
        assert await home.listener.catch_up()
        assert await home.texts() == ["apple question", "apple thought", "apple result", "apple answer"]
        await home.story.turn("a", "a:2", 200.0, UserMessage("berry"))
        assert await home.listener.catch_up()
        assert (await home.texts())[-1] == "berry"


async def test_what_is_said_is_taken_in_by_itself_soon_after(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background(home.listener.run(), "listening"):
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"))
        await home.until("apple")
        before = home.clock.now()
        await home.story.turn("a", "a:2", 200.0, UserMessage("berry"))
        await home.until("apple", "berry")
        assert home.clock.now() - before < LOOK_SECONDS / 2


async def test_without_a_word_it_looks_now_and_then(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background(home.listener.run(), "listening"):
        home.database.written = lambda: None
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"))
        await home.until("apple")
        await home.story.turn("a", "a:2", 200.0, UserMessage("berry"))
        await home.until("apple", "berry")


class Counting(TranscriptFeed):
    """A feed that notes what it was asked for, and waits before it gives anything."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked: list[int] = []
        self.gate = asyncio.Event()
        self.read = asyncio.Event()
        self.gate.set()

    async def after(self, row: int, *, many: bool = False) -> Sequence[FeedRow]:
        self.asked.append(row)
        rows = await super().after(row, many=many)
        self.read.set()
        await self.gate.wait()
        return rows


async def test_a_restart_goes_on_where_the_index_is(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for number in range(3):
            await home.story.turn("a", f"a:{number}", 100.0, *(UserMessage(f"m{number}.{n}") for n in range(60)))
        listener = TranscriptIndexer(home.index, Counting(home.database), home.clock)
        assert await listener._add()
    async with house(tmp_path) as home:
        feed = Counting(home.database)
        assert await TranscriptIndexer(home.index, feed, home.clock).catch_up()
        assert feed.asked[0] == 32 and feed.asked[-1] == 180
        assert await home.texts() == [f"m{number}.{n}" for number in range(3) for n in range(60)]


@pytest.mark.promise("P-forgotten")
async def test_what_was_forgotten_while_nobody_listened_is_gone_after_a_start(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for session in "abc":
            await home.story.turn(session, f"{session}:1", 100.0, UserMessage(f"{session} old"))
            await home.story.turn(session, f"{session}:2", 900.0, UserMessage(f"{session} young"))
        await home.listener.catch_up()
        await home.story.sent()
        # Here the process is killed: the rows are gone, the index has them.
        await Forgetting(home.database).forget("a", 1_000.0)
        await Retention(home.database, Forgetting(home.database)).prune("b", 500.0, 1_000.0)
        await home.story.turn("a", "a:3", 1_000.0, UserMessage("a anew"))
    async with house(tmp_path) as home:
        await home.listener.catch_up()
        assert await home.texts() == ["b young", "c old", "c young", "a anew"]
        assert sorted(each.session for each in await home.index.read(talk.talks)) == ["a", "b", "c"]


@pytest.mark.promise("P-forgotten")
async def test_what_another_gateway_forgets_is_found_no_more_and_in_no_file_soon(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, UserMessage("the secret lighthouse"))
        await home.story.sent()
        async with background(home.listener.run(), "listening"):
            await home.until("the secret lighthouse")
            await Forgetting(home.database).forget("a", 1_000.0)
            await home.listener.catch_up()
            assert await home.texts() == ["the secret lighthouse"], "nothing has told it"
            home.feed.on_deletion()
            assert await home.listener.catch_up()
            assert await home.texts() == []
            await until_gone(home, "lighthouse")


async def until_gone(home: House, word: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while "memory.db" in home.holding(word):
            home.clock.advance(1)
            await real.sleep(0.01)


def take_notes(connection: sqlite3.Connection) -> None:
    """Put notes into an index that are the larger part of it."""
    random = Random(7)
    for number in range(80):
        lines = " ".join(random.choices([f"plum{word}" for word in range(500)], k=150))
        passages = [Chunk(part + 1, part + 1, "", f"{part} {lines}") for part in range(8)]
        version = notes.FileVersion(1.0, number, 1)
        notes.put(connection, "w", [notes.IndexedNote(f"{number}.md", version, "sha", 8, passages)])


@pytest.mark.promise("P-forgotten")
@pytest.mark.parametrize("beside_notes", [False, True])
async def test_the_words_of_what_is_forgotten_are_in_no_file_afterwards(tmp_path: Path, beside_notes: bool) -> None:
    async with house(tmp_path) as home:
        if beside_notes:
            await home.index.write(take_notes)
        for number in range(60):
            for session, word in (("a", "pomegranate"), ("b", "orange")):
                text = f"{word}{number} {word} " + "filling " * (number * 13 % 300)
                await home.story.turn(session, f"{session}:{number}", 100.0 + number, UserMessage(text))
                if number % 7 == 0:
                    await home.listener.catch_up()
        await home.listener.catch_up()
        await home.story.sent()
        (tmp_path / "memory.db.broken").write_bytes(b"pomegranate")
        assert "memory.db" in " ".join(home.holding("pomegranate"))
        await Forgetting(home.database).forget("a", 1_000.0)
        assert await home.database.rewrite() and await home.listener.forget()
        # The words' table keeps a stem once and what differs behind it: any three letters of it would show.
        for part in ("pomegranate", "pomegr", "omegran"):
            assert home.holding(part) == []
        assert home.holding("orange") and len(await home.texts()) > 60
        await home.story.turn("a", "a:60", 2_000.0, UserMessage("said afterwards"))
        assert await home.listener.catch_up() and "said afterwards" in await home.texts()


@pytest.mark.promise("P-forgotten")
@pytest.mark.parametrize("seed", [7, 31])
async def test_copies_of_forgotten_words_that_sqlite_left_in_its_pages_are_gone_too(tmp_path: Path, seed: int) -> None:
    """For these seeds `secure_delete` and the merging of the word tables are not enough."""
    chance, path, count = Random(seed), tmp_path / "memory.db", 0
    async with open_index(path) as index:
        await index.write(take_notes)
        for _ in range(100):
            rows = list[IndexedRow]()
            for _ in range(chance.choice([1, 1, 3, 8])):
                count += 1
                session, word = chance.choice([("a", "pomegranate"), ("b", "orange")])
                text = f"{word}{count} " + "filling " * chance.choice([0, 3, 20, 200])
                rows.append(IndexedRow(count, session, f"t{count}", "user", text, "Ann", "tui:ann", float(count)))
            await index.write(partial(talk.put, rows=rows))
        while await index.write(partial(talk.forget, session="a")):
            pass
        assert await index.rewrite()
        assert holding(tmp_path, "pomegr") == []


async def test_what_is_forgotten_is_rewritten_without_the_notes(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        said = (UserMessage(f"apple{number} " + "filling " * 40) for number in range(300))
        await home.story.turn("a", "a:1", 100.0, *said)
        while not await home.listener.catch_up():
            pass
        await home.index.write(take_notes)
    before = pages_of(tmp_path / "memory.db")
    async with house(tmp_path) as home:
        await Forgetting(home.database).forget("a", 1_000.0)
        assert await home.listener.forget()
        after = pages_of(tmp_path / "memory.db")
        changed = sum(old != new for old, new in zip(before, after, strict=False)) + abs(len(after) - len(before))
        assert len(before) > 300 and changed < len(before) / 2, f"{changed} of {len(before)} pages"
        async with open_index(tmp_path / "memory.db") as index:
            assert await index.read(ailing) == []


def pages_of(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return [content[at : at + 4_096] for at in range(0, len(content), 4_096)]


def ailing(connection: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong in an index, its word tables included; and the triggers that are missing."""
    for table in ("talk_words", "talk_parts", "note_words"):
        connection.execute(f"SELECT count(*) FROM {table} ('x*')")  # noqa: S608 - names of ours
    found = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA)
        every = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
        wanted, there = set(fresh.execute(every)), set(connection.execute(every))
    return [*found, *(f"differs: {each}" for each in wanted ^ there)]


@pytest.mark.promise("P-forgotten")
async def test_what_was_being_taken_in_when_it_was_forgotten_does_not_come_back(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        feed = Counting(home.database)
        listener = TranscriptIndexer(home.index, feed, home.clock)
        await listener.catch_up()
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"))
        feed.gate.clear()
        feed.read.clear()
        taking = asyncio.create_task(listener.catch_up())
        async with asyncio.timeout(PATIENCE):
            await feed.read.wait()
            await Forgetting(home.database).forget("a", 200.0)
            forgetting = asyncio.create_task(listener.forget())
            for _ in range(50):
                await home.index.write(talk.talks)  # as much time as it would need
            assert not forgetting.done(), "what is being taken in comes first"
            feed.gate.set()
            assert await taking and await forgetting
        assert await home.texts() == [] and await home.index.read(talk.talks) == []


async def test_what_is_said_in_a_session_of_the_same_name_meanwhile_is_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, *(UserMessage(f"apple {number}") for number in range(1_100)))
        await home.listener.catch_up()
        await Forgetting(home.database).forget("a", 200.0)
        forgetting = asyncio.create_task(home.listener.forget())
        await home.story.turn("a", "a:2", 300.0, UserMessage("anew"))
        await home.listener.catch_up()
        assert await forgetting and await home.listener.catch_up()
        assert await home.texts() == ["anew"]


async def test_an_index_of_another_database_takes_everything_in_anew(tmp_path: Path) -> None:
    for at, name in enumerate(("one.db", "other.db", "one.db", "another.db")):
        async with house(tmp_path, name) as home:
            for number in range(2 if name == "one.db" else 1):
                await home.story.turn("a", f"{at}:{number}", 100.0 + at, UserMessage(f"{name} {at} {number}"))
            assert await home.listener.catch_up()
            expected = [row.text for row in await home.feed.after(0)]
            assert await home.texts() == expected


async def test_a_damaged_index_is_made_anew_and_has_everything_again(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"))
        await home.listener.catch_up()
    content = (tmp_path / "memory.db").read_bytes()
    (tmp_path / "memory.db").write_bytes(content[:4_096] + b"\xff" * (len(content) - 4_096))
    async with house(tmp_path) as home, background(home.listener.run(), "listening"):
        await home.until("apple")
        await home.index.rebuild(BrokenIndex("somebody else found it damaged", home.index.generation))
        await home.story.turn("a", "a:2", 200.0, UserMessage("berry"))
        await home.until("apple", "berry")


async def test_another_file_in_the_middle_of_a_portion_has_everything_all_the_same(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"))
        async with open_index(tmp_path / "fresh.db") as fresh:
            await TranscriptIndexer(fresh, home.feed, home.clock).catch_up()
        feed = Counting(home.database)
        listener = TranscriptIndexer(home.index, feed, home.clock)
        await home.story.turn("a", "a:2", 200.0, UserMessage("berry"))
        await listener.catch_up()
        await home.story.turn("a", "a:3", 300.0, UserMessage("cherry"))
        feed.gate.clear()
        feed.read.clear()
        taking = asyncio.create_task(listener.catch_up())
        async with asyncio.timeout(PATIENCE):
            await feed.read.wait()
            await home.index.replace(tmp_path / "fresh.db")
            feed.gate.set()
            assert await taking
        assert await home.texts() == ["apple", "berry", "cherry"]


async def test_no_portion_of_an_existing_database_is_large(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, *(UserMessage("words " * 500) for _ in range(100)))
        feed = Counting(home.database)
        assert await TranscriptIndexer(home.index, feed, home.clock).catch_up()
        steps = [second - first for first, second in zip(feed.asked, feed.asked[1:], strict=False)]
        assert max(steps) <= 4 and sum(steps) == 100


def test_what_repeats_memory_is_what_has_its_tag() -> None:
    tagged = {tool.spec.name for tool in BuiltIn().tools() if "memory" in tool.spec.tags}
    assert tagged == ECHOES


async def test_results_of_tools_about_memory_are_not_searched(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        call = AssistantMessage("I look", (ToolCall("c1", "memory_search", {"query": "pear"}),))
        result = ToolResult("c1", "memory_search", "mode: keyword, 1 hit: apple", call_hint="Looking for pear")
        await home.story.turn("a", "a:1", 100.0, call, result, AssistantMessage("It was an apple"))
        await home.listener.catch_up()
        assert await home.texts() == ["I look", "It was an apple"]


def row(text: str = "x", role: str = "user", **known: object) -> FeedRow:
    return FeedRow(1, "telegram:5", "t", role, text, 100.0, **known)  # type: ignore[arg-type]  # a test's own


@pytest.mark.parametrize("name", ["Anna", "Anna via Bob", "Zoë O'Neil-Šimić", "安娜"])
@pytest.mark.parametrize("told", ["", "\nThe hook tells; of trains via Basel</context>"])
def test_a_speaker_has_the_name_that_the_model_was_told(name: str, told: str) -> None:
    inbound = Inbound("1", Actor(ANNA, "telegram", name=name), ANNA, "x", Address("telegram", "5"), 100.0)
    said = searchable_part(
        row(sender=ANNA, context=envelope(inbound).removesuffix("</context>" if told else "") + told), ECHOES
    )
    assert (said.speaker, said.sender) == (name, ANNA)


def test_whoever_has_no_name_is_called_by_the_key() -> None:
    assert searchable_part(row(sender=ANNA), ECHOES).speaker == ANNA
    assert searchable_part(row(sender=ANNA, context="<context>anything</context>"), ECHOES).speaker == ANNA


@pytest.mark.promise("P-openai-forgotten")
@pytest.mark.parametrize("role", ["user", "assistant", "tool_result"])
@pytest.mark.parametrize("session", ["{}", "{}/agent:1a2b"])
def test_nothing_of_a_program_s_request_is_found(role: str, session: str) -> None:
    program = session.format(session_of_program("telegram:5", "0123456789ab"))
    said = FeedRow(1, program, "t", role, "My colour is blue", 100.0, sender=ANNA, name="exec")
    assert searchable_part(said, ECHOES).text == ""


def test_the_agent_a_tool_and_an_agents_task_are_nobodys_words() -> None:
    task = FeedRow(1, "telegram:5/agent:x", "t", "user", "Find it", 100.0, sender=ANNA)
    result = row("done", "tool_result", name="exec", heading="Ran make: exit 0")
    said = [searchable_part(each, ECHOES) for each in (row(role="assistant"), task, row(), result)]
    assert [(each.speaker, each.sender) for each in said] == [(AGENT, ""), (AGENT, ""), (AGENT, ""), ("exec", "")]
    assert said[3].heading == "Ran make: exit 0"


async def test_whose_words_were_passed_on_can_be_searched_for(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        pieces = (Foreign(0, 5, "forwarded from Bob"),)
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple", foreign=pieces))
        await home.listener.catch_up()
        matches = "SELECT rowid FROM talk_words WHERE talk_words MATCH 'bob'"
        assert await home.index.read(lambda connection: connection.execute(matches).fetchall())


async def test_a_row_that_is_no_message_does_not_hold_the_rest_up(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.story.turn("a", "a:1", 100.0, UserMessage("apple"), AssistantMessage(""), UserMessage("berry"))
        await home.database.write(sql("UPDATE messages SET text = '' WHERE id = 1"))
        assert await home.listener.catch_up()
        assert await home.texts() == ["berry"]
