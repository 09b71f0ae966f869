"""How tests of contexts fill one, watch one, and compare it with what the store has."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Notice
from goclaw.conversation.agent.context.window import Window
from goclaw.llm.base import Request, Usage
from goclaw.llm.scripted import Answer, text_of
from tests.harness import PATIENCE, Core

HERE = "memory:here"
SUMMARY = "Anna wants the report on Friday; the file is report.md; nothing is open."


def reading(*thousands: int) -> list[Answer]:
    """Answers to requests of which the provider counts so many thousand tokens, the answer included."""
    return [Answer(f"answer at {count}", usage=Usage(input=count * 1_000)) for count in thousands]


async def talk(core: Core, *texts: str, chat: str = "here") -> None:
    """Say things and wait for the answer to each."""
    for text in texts:
        await core.say(text, chat=chat)
        await core.settled()


async def window_of(core: Core, session: str = HERE) -> Window:
    """The context as the next request would be made of it."""
    return (await core.sessions.contexts.session(session)).window


async def check_mirrors_the_store(core: Core, session: str = HERE) -> None:
    """A context that grew equals one that is loaded anew."""
    grown = await window_of(core, session)
    loaded = Window.of(*await core.transcripts.context(session), grown.view)
    assert (grown.summary, grown.owed, grown.entries) == (loaded.summary, loaded.owed, loaded.entries)


async def until_asleep(clock: SteppedClock) -> None:
    """Wait until somebody waits for the clock."""
    async with asyncio.timeout(PATIENCE):
        while not clock.sleepers:
            await _let_others_run()


async def _let_others_run() -> None:
    await asyncio.sleep(0)


async def unless_dead(core: Core, work: Coroutine[Any, Any, object]) -> None:
    """Wait for something that never comes when the process dies before."""
    task, death = asyncio.ensure_future(work), asyncio.ensure_future(core.database.dead.wait())
    done, pending = await asyncio.wait({task, death}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    assert done, "neither done nor dead"


def said(request: Request) -> str:
    """All that a request says."""
    return "\n".join(map(text_of, request.messages))


def notices(core: Core) -> list[str]:
    """What was told to who watches, without the sign that a compaction has begun."""
    texts = [event.text for event in core.seen if isinstance(event, Notice)]
    return [text for text in texts if text != "compacting the context"]


@asynccontextmanager
async def until_noticed(core: Core, begin: str) -> AsyncIterator[None]:
    """The block, and then the wait for a notice that begins so."""
    async with core.bus.subscribe(None) as events:
        yield
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                if isinstance(event, Notice) and event.text.startswith(begin):
                    return
    raise AssertionError("the bus ended")
