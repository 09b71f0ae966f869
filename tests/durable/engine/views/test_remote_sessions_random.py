"""Random histories of several processes: whatever happens to them, readers have what was said, once and in order."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.engine.views import remote_sessions
from tests.acceptance.waiting import clock, eventually
from tests.durable.engine.buses import Process, Reader, cut_listener, processes

STEPS = 60
SEEDS = 6


class Session:
    """The session as its owners say it."""

    def __init__(self, chance: random.Random, owner: Process) -> None:
        self.chance = chance
        self.owner = owner
        self.tries = [""]
        """Every beginning of an answer there was, with all that was streamed of it."""
        self.texts: list[str] = []
        self.words = 0
        self.turns = 0

    @property
    def text(self) -> str:
        return self.tries[-1]

    def stream(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.words += 1
            word = f"{self.words} " * self.chance.choice([1, 1, 1, 900])
            self.tries[-1] += word
            self.owner.stream(word)

    async def store(self, *, told: bool = True) -> None:
        if self.text:
            text = self.text
            await self.owner.store(text, told=told)
            self.texts.append(text)
            self.tries.append("")

    async def finish(self) -> None:
        await self.store()
        await self.owner.end()
        self.turns += 1
        await self.owner.begin(f"t{self.turns}")

    async def move(self, to: Process) -> None:
        """Another process takes the session over, in the middle of whatever goes on; some of it may be stored."""
        if self.chance.random() < 0.5:
            await self.store(told=self.chance.random() < 0.5)
        before, turn = self.owner, self.owner.turn
        await to.take()
        self.tries.append("")
        self.owner = to
        await to.begin(turn)
        if before is not to:
            before.remote.on_release("s")

    def is_right(self, reader: Reader) -> None:
        """What stands on a reader's screen at any moment is the beginning of an answer, and its rows are in order."""
        assert any(each.startswith(reader.text) for each in self.tries), reader.text[-200:]
        rows = [row.row for row in reader.rows]
        assert rows == sorted(set(rows)), rows


async def shows(reader: Reader, session: Session) -> None:
    await eventually(lambda: reader.text == session.text and reader.texts == session.texts)


@pytest.mark.promise("P-views-anywhere")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_readers_have_what_was_said_whatever_happens(
    place: PostgresPlace, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_sessions, "RENEW_SECONDS", 0.5)
    chance = random.Random(seed)
    async with processes(place, 3) as made, AsyncExitStack() as rest:
        session = Session(chance, made[0])
        await made[0].take()
        await made[0].begin("t0")
        readers = list[tuple[Reader, AsyncExitStack]]()
        for _ in range(STEPS):
            match chance.choices(
                ["stream", "store", "finish", "join", "leave", "move", "cut", "wait"], [30, 10, 4, 12, 6, 5, 4, 20]
            )[0]:
                case "stream":
                    session.stream()
                case "store":
                    await session.store()
                case "finish":
                    await session.finish()
                case "join":
                    stack = await rest.enter_async_context(AsyncExitStack())
                    reader = Reader(chance.choice(made))
                    reader.check = session.is_right
                    await stack.enter_async_context(reader.reading(chance.choice(["", str(len(readers))])))
                    readers.append((reader, stack))
                case "leave" if readers:
                    _, stack = readers.pop(chance.randrange(len(readers)))
                    await stack.aclose()
                case "move":
                    await session.move(chance.choice(made))
                case "cut":
                    await cut_listener(chance.choice(made))
                case _:
                    await clock.sleep(chance.random() * 0.2)
            await asyncio.sleep(0)
        session.stream()
        for reader, _ in readers:
            await shows(reader, session)
            assert reader.turn == session.owner.turn
