"""What each screen looks like, letter by letter. `GOCLAW_UPDATE_SCREENS=1` writes the files in `screens/` anew."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from goclaw.events import Notice, ToolFinished, ToolStarted
from goclaw.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tests.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Screen, Stage

ANSWER = """# Heading

A paragraph with **bold**, *italic*, `code` and a [link](https://example.org).

- first
- second
  1. nested

> quoted

```python
def add(a, b):
    return a + b
```

| name | size |
|------|-----:|
| one  |   10 |
"""

Act = Callable[[Screen, FakeGateway], Awaitable[str]]


async def rest(screen: Screen, daemon: FakeGateway) -> str:
    return await screen.until("Model: scripted.")


async def cards_open(screen: Screen, daemon: FakeGateway) -> str:
    await screen.press("ctrl+o", "pageup")
    return await screen.until("second line")


async def log_alone(screen: Screen, daemon: FakeGateway) -> str:
    await screen.until("listening")
    await screen.press("ctrl+l")
    return await screen.press("ctrl+l")


async def commands(screen: Screen, daemon: FakeGateway) -> str:
    await screen.type("/")
    return await screen.until("/help")


async def several_lines(screen: Screen, daemon: FakeGateway) -> str:
    await screen.type("one\ntwo\nthree")
    return await screen.until("three")


async def told(screen: Screen, daemon: FakeGateway) -> str:
    daemon.bus.publish(Notice(SESSION, "compaction began"))
    await screen.until("compaction began")
    await screen.type("/status")
    await screen.press("enter")
    return await screen.until("Answer to /status")


async def tool_failed(screen: Screen, daemon: FakeGateway) -> str:
    call = ToolCall("c2", "exec", {"command": "false", "timeout": 5})
    daemon.tell("t2", AssistantMessage("", (call,)))
    daemon.bus.publish(ToolStarted("t2", SESSION, "c2", "exec", call.input))
    daemon.bus.publish(ToolFinished("t2", SESSION, "c2", "exec", '{"error": "no such command"}', True, 1.5))
    return await screen.until("✗ exec")


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
@pytest.mark.parametrize("act", [rest, cards_open, log_alone, commands, several_lines, told, tool_failed])
async def test_screen(tmp_path: Path, act: Act, size: tuple[int, int]) -> None:
    stage = Stage(tmp_path)
    stage.place.log.write_text('{"event": "listening", "level": "info", "path": "/run/goclaw.sock"}\n')
    async with stage.daemon() as daemon:
        daemon.store("t1", UserMessage("What is in the notes?"))
        daemon.store("t1", AssistantMessage("I look.", (ToolCall("c1", "read", {"path": "notes.txt"}),)))
        daemon.store("t1", ToolResult("c1", "read", "first line\nsecond line"))
        daemon.store("t1", AssistantMessage(ANSWER))
        async with stage.terminal(size) as screen:
            if act is not log_alone:
                await screen.until("listening")
            await act(screen, daemon)
            kept = Path(__file__).parent / "screens" / f"{act.__name__}-{size[0]}x{size[1]}.txt"
            if os.environ.get("GOCLAW_UPDATE_SCREENS"):
                await screen.pilot.pause(1.0)
                kept.write_text(f"{screen.text()}\n")
            assert await at_rest(screen, kept.read_text()) == kept.read_text()


async def at_rest(screen: Screen, expected: str) -> str:
    """The screen as soon as it is as expected, or after a time in which it would have become so."""
    try:
        async with asyncio.timeout(PATIENCE):
            while f"{screen.text()}\n" != expected:
                await screen.pilot.pause()
    except TimeoutError:
        pass  # the assertion shows the difference
    return f"{screen.text()}\n"
