"""Many readers of events while many conversations go on: nothing lost, nothing twice, in order."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from tests.gateway.servers.api.calling import Service, service, world_with
from tests.gateway.servers.api.test_events import Event, Stream, following, texts
from tests.harness import Answer
from tests.lanes import repeats

PEOPLE = tuple(User(f"memory:p{number}", f"P{number}") for number in range(repeats(10, 50)))
READERS = 3
"""Of each conversation, beside one that is cut off again and again."""
MESSAGES = 3
TEXT = "An answer in several words."

pytestmark = [pytest.mark.promise("P-api-resume"), pytest.mark.timeout(repeats(60, 300))]


def finished(events: list[Event]) -> int:
    return sum(each.name == "TurnFinished" for each in events)


async def read(stream: Stream) -> list[Event]:
    """Read without a break."""
    seen: list[Event] = []
    while finished(seen) < MESSAGES:
        seen += await stream.until("TurnFinished")
    return seen


async def read_with_breaks(served: Service, user: str, begun: asyncio.Event) -> list[Event]:
    """Read some events at a time, each time from the last one on."""
    async with following(served, user=user) as stream:
        seen = await stream.until("reset")
    begun.set()
    while finished(seen) < MESSAGES:
        async with following(served, seen[-1].id, user=user) as stream:
            for name in ("MessageStored", "TextStreamed", "TurnFinished")[finished(seen) :]:
                seen += await stream.until(name)
                break
    return seen


@pytest.mark.deep
async def test_every_reader_gets_every_event_once_and_in_order(tmp_path: Path) -> None:
    answers = (Answer(TEXT, deltas=4) for _ in range(len(PEOPLE) * MESSAGES))
    world = world_with(tmp_path, *answers, users=PEOPLE)
    async with world.running() as core, service(world, core) as served, AsyncExitStack() as stack:
        readings: dict[str, list[asyncio.Task[list[Event]]]] = {}
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for person in PEOPLE:
            begun = asyncio.Event()
            reading = [tasks.create_task(read_with_breaks(served, person.key, begun))]
            for _ in range(READERS):
                stream = await stack.enter_async_context(following(served, user=person.key))
                reading.append(tasks.create_task(read(stream)))
            readings[person.key] = reading
            await begun.wait()
        for number in range(MESSAGES):
            for person in PEOPLE:
                assert (await served.say(f"Message {number}", str(number), user=person.key)).status == 202
            await core.settled()
        for person in PEOPLE:
            all_seen = [[each for each in await task if each.name != "reset"] for task in readings[person.key]]
            kept = [[each.id for each in seen if each.name != "TextStreamed"] for seen in all_seen]
            assert all(ids == kept[1] for ids in kept), person.key
            for seen in all_seen:
                numbers = [int(each.id.partition(":")[2]) for each in seen]
                assert numbers == sorted(set(numbers)) and texts(seen) == TEXT * MESSAGES
