"""The client in terminals with few colours or none, or for people who want none."""

from pathlib import Path

import pytest

from goclaw.common.core.events import Notice, ToolFinished, ToolStarted
from goclaw.common.core.messages import ToolCall, ToolResult
from tests.clients.tui.fake_daemon import SESSION, FakeGateway
from tests.clients.tui.real_client import colours, open_client, real_stage, style_numbers

ANSWER = "# Heading\n\nSome `code` and a [link](http://localhost/).\n\n```python\nprint('x')\n```\n\nthe end"
MOUSE_DRAG = "\x1b[<0;{x};{y}M\x1b[<32;{to};{y}M\x1b[<0;{to};{y}m"


def talk(daemon: FakeGateway) -> None:
    """All that can stand in a conversation."""
    daemon.begin("t1", "a question", sender="telegram:7")
    call = ToolCall("c1", "read", {"path": "x"})
    daemon.answer("t1", "let me look", call)
    daemon.bus.publish(ToolStarted("t1", SESSION, call.id, call.name, call.input))
    daemon.bus.publish(ToolFinished("t1", SESSION, call.id, call.name, "no such file", is_error=True, seconds=0.1))
    daemon.tell("t1", ToolResult(call.id, call.name, "no such file", is_error=True))
    daemon.bus.publish(Notice(SESSION, "a notice", "t1"))
    daemon.stream("t1", *ANSWER)
    daemon.answer("t1", ANSWER)


async def test_with_no_color_not_one_colour_reaches_the_terminal(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path, NO_COLOR="1") as terminal:
        await terminal.until("connected")
        talk(daemon)
        await terminal.until("the end")
        await terminal.type("/s")
        await terminal.until("/status")
        await terminal.type("\x1b\x14\x0c")  # closes the list, light or dark, the next layout
        await terminal.rest(0.3)
    assert colours(terminal.written) == set()
    assert "1" in style_numbers(terminal.written)


@pytest.mark.long
async def test_without_colours_what_they_said_is_said_otherwise(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path, (80, 50), NO_COLOR="1") as terminal:
        await terminal.until("connected")
        talk(daemon)
        await terminal.until("the end")
        await terminal.type("/s")
        await terminal.until("/status")
        chosen, other = terminal.screen.style_of("Show session"), terminal.screen.style_of("Stop the")
        assert "4" in chosen.split(";") and "4" not in other.split(";")
        await terminal.type("\x7f\x7f")
        await terminal.until(lambda screen: "/status" not in screen)
        await terminal.rest(0.3)
        assert "2" in terminal.screen.style_of("a notice").split(";")
        assert "1" in terminal.screen.style_of("✗ read").split(";")
        y = next(at for at, line in enumerate(terminal.screen.lines(), 1) if "the end" in line)
        x = terminal.screen.lines()[y - 1].index("the end") + 1
        await terminal.type(MOUSE_DRAG.format(x=x, y=y, to=x + 6))
        await terminal.rest(0.3)
        assert "7" in terminal.screen.style_of("the end").split(";")


@pytest.mark.long
async def test_an_empty_no_color_is_no_wish(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon(), open_client(tmp_path, NO_COLOR="") as terminal:
        await terminal.until("connected")
    assert len(colours(terminal.written)) > 1


@pytest.mark.long
async def test_the_console_of_linux_gets_no_colour_beyond_its_sixteen(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path, TERM="linux") as terminal:
        await terminal.until("connected")
        talk(daemon)
        await terminal.until("the end")
    assert colours(terminal.written) and not colours(terminal.written) & {"38", "48"}


async def test_a_terminal_that_obeys_nothing_gets_plain_lines(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path, TERM="dumb") as terminal:
        await terminal.until("›")
        talk(daemon)
        await terminal.until("the end")
    assert b"\x1b" not in terminal.written


@pytest.mark.long
async def test_light_and_dark_reach_every_line(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        await terminal.until("connected")
        talk(daemon)
        await terminal.until("the end")
        dark = [terminal.screen.style_of(words) for words in ("Heading", "print", "the end")]
        await terminal.type("\x14")
        await terminal.until_written(b"\x1b[?2026l")
        await terminal.rest(0.5)
        light = [terminal.screen.style_of(words) for words in ("Heading", "print", "the end")]
    assert all(before != after for before, after in zip(dark, light, strict=True))
