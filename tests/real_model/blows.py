"""What happens to a local server: killed in mid-answer, paused, still loading, with a smaller window than was said."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.acceptance.daemon import Ran
from tests.acceptance.waiting import clock
from tests.real_model.gateway import SHORT_ANSWER, Stage, stage
from tests.real_model.server import CODER, real_server
from tests.real_model.talk import saying

WINDOW = 8_192
SMALL, SAID_TO_BE = 4_096, 32_768
OVERFLOWING = 40
"""Turns of `saying` at most; with their answers they have 190 tokens each, so a window of 4,096 overflows before."""
AFTERWARDS = 3
"""Turns that must go well once it has overflowed."""
PAUSE_SECONDS = 20.0
BEGIN_SECONDS = 300.0
"""Until an answer begins, on two busy cores."""
ASKED = "Count from 1 to 40 in words, in one line and without a tool."
PLAIN = "Answer with one word and without a tool: which colour has the sky?"


async def strike(folder: Path) -> dict[str, Any]:
    """Deal every blow; return how long each took and what failed."""
    began = clock.monotonic()
    rows = []
    async with real_server(CODER, WINDOW, folder / "server.log") as server:
        async with stage(folder / "home", server, max_output=SHORT_ANSWER) as play:
            await play.send(PLAIN)
            for blow in (kill, pause, load):
                rows.append(await _deal(blow, play))
            play.line.save(folder / "exchanges")
    rows.append(await overflow(folder / "overflow"))
    problems = [f"{row['blow']}: {line}" for row in rows for line in row["problems"]]
    return {"blows": rows, "seconds": round(clock.monotonic() - began), "problems": problems}


async def kill(play: Stage) -> Ran:
    """kill -9 when the answer has begun; it is started again at once, as a service manager does."""
    async with asyncio.TaskGroup() as group:
        answering = group.create_task(play.send(ASKED))
        await _begun(play)
        await play.server.kill()
        await play.server.start()
    return answering.result()


async def pause(play: Stage) -> Ran:
    """Stop the process when the answer has begun, and let it go on."""
    async with asyncio.TaskGroup() as group:
        answering = group.create_task(play.send(ASKED))
        await _begun(play)
        play.server.pause()
        try:
            await clock.sleep(PAUSE_SECONDS)
        finally:
            play.server.resume()
    return answering.result()


async def load(play: Stage) -> Ran:
    """Say something while the model is being loaded: the server answers 503."""
    await play.server.kill()
    await play.server.spawn()
    return await play.send(ASKED)


async def overflow(folder: Path) -> dict[str, Any]:
    """Talk until the window is full of a server that hides it and has an eighth of what the configuration says."""
    problems, began = list[str](), clock.monotonic()
    turn = after = 0
    async with real_server(CODER, SMALL, folder.with_suffix(".log")) as server:
        async with stage(folder, server, hides_window=True, max_output=SHORT_ANSWER, context_window=SAID_TO_BE) as play:
            while turn < OVERFLOWING and after < AFTERWARDS:
                turn += 1
                problems += _shortcomings(await play.send(saying(turn)), f"turn {turn}")
                after += bool(play.line.invalid)
            refused = len(play.line.invalid)
            play.line.save(folder / "exchanges")
    if not refused:
        problems.append("the window never overflowed: nothing was tried")
    seconds = round(clock.monotonic() - began)
    return {"blow": "overflow", "seconds": seconds, "turns": turn, "refused": refused, "problems": problems}


async def _deal(blow: Callable[[Stage], Awaitable[Ran]], play: Stage) -> dict[str, Any]:
    began, before = clock.monotonic(), len(play.line.chats)
    play.line.began.clear()
    problems = _shortcomings(await blow(play), "the answer")
    requests = len(play.line.chats) - before
    problems += _shortcomings(await play.send(PLAIN), "the next answer")
    seconds = round(clock.monotonic() - began)
    return {"blow": blow.__name__, "seconds": seconds, "requests": requests, "problems": problems}


async def _begun(play: Stage) -> None:
    async with asyncio.timeout(BEGIN_SECONDS):
        await play.line.began.wait()


def _shortcomings(said: Ran, what: str) -> list[str]:
    words = (said.out + said.err).strip()
    return [] if said.code == 0 and said.out.strip() else [f"{what} ended with {said.code}: {words[-300:]}"]
