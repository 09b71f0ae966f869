"""Copying from the client, as the terminal around it sees it."""

import asyncio
import shlex
import shutil
from base64 import b64encode
from pathlib import Path

import pytest

from goclaw.clients.tui.terminal_integration import MAX_COPY
from tests.clients.tui.fake_daemon import SESSION, Stage
from tests.clients.tui.real_client import GOCLAW, environment_of, open_client, real_stage
from tests.terminal import Terminal, open_terminal

TEXT = "wörds to keep"
COPY = f"52;c;{b64encode(TEXT.encode()).decode()}"
SELECT_LINE = "\x1b[1;2H"
"""Shift+Home."""


async def select_and_copy(terminal: Terminal) -> None:
    """Select the line in the input, and when that is to be seen copy it."""
    rest = TEXT[1:]  # the cursor goes to the first letter
    before = terminal.screen.style_of(rest)
    await terminal.type(SELECT_LINE)
    await terminal.until(lambda _: terminal.screen.style_of(rest) != before)
    await terminal.type("\x03")


@pytest.mark.promise("P-terminal-ctrl-c")
async def test_ctrl_c_hands_what_is_selected_to_the_terminal(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon(), open_client(tmp_path) as terminal:
        await terminal.until("connected")
        await terminal.type(TEXT)
        await terminal.until(TEXT)
        await select_and_copy(terminal)
        await terminal.until("Copied.")
    assert [command for command in terminal.screen.commands if command.startswith("52;")] == [COPY]


@pytest.mark.promise("P-terminal-ctrl-c")
async def test_words_of_the_conversation_are_copied_as_they_stand(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        daemon.begin("t1", "hello")
        daemon.stream("t1", "Not this. ", f"**{TEXT}**\n\n", "- and *this*\n- not that")
        daemon.answer("t1", f"Not this. **{TEXT}**\n\n- and *this*\n- not that")
        await terminal.until("not that")
        await terminal.rest(0.3)
        first, last = place_of(terminal, TEXT), place_of(terminal, "this\n")
        before = terminal.screen.style_of(TEXT)
        await terminal.type(f"\x1b[<0;{first}M\x1b[<32;{last}M\x1b[<0;{last}m")
        await terminal.until(lambda _: terminal.screen.style_of(TEXT) != before)
        await terminal.type("\x03")
        await terminal.until("Copied.")
    text = f"{TEXT}\n\n• and t"
    assert f"52;c;{b64encode(text.encode()).decode()}" in terminal.screen.commands


def place_of(terminal: Terminal, words: str) -> str:
    """Column and row of the first letter, as the mouse tells them."""
    for row, line in enumerate(terminal.screen.lines(), 1):
        found = f"{line.split('│')[0].rstrip()}\n".find(words)
        if found >= 0:
            return f"{found + 1};{row}"
    raise AssertionError(f"{words!r} is not on the screen:\n{terminal.text()}")


@pytest.mark.screen
async def test_more_than_terminals_take_is_refused_in_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.daemon(), stage.terminal() as screen:
        screen.terminal.copy_to_clipboard("x" * MAX_COPY)
        assert len(screen.terminal.clipboard) == MAX_COPY
        screen.terminal.copy_to_clipboard("y" * (MAX_COPY + 1))
        await screen.until("Not copied")
        assert "y" not in screen.terminal.clipboard


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_inside_tmux_as_it_comes_the_outer_terminal_gets_the_copy(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    client = shlex.join([*GOCLAW, "tui", "--session", SESSION])
    async with (
        stage.daemon(),
        open_terminal([*tmux, "new-session", client], environment_of(tmp_path), folder=tmp_path) as terminal,
    ):
        try:
            await terminal.until_written(b"connected")
            await terminal.type(TEXT)
            await terminal.until_written(TEXT.encode())
            await terminal.type(SELECT_LINE)
            # Between the cursor, on the first letter, and the rest of what is selected their looks change.
            await terminal.until_written(b"m" + TEXT[1:].encode())
            await terminal.type("\x03")
            # tmux says `52;;…`, which is the same clipboard.
            await terminal.until_written(COPY.removeprefix("52;c;").encode())
        finally:
            await (await asyncio.create_subprocess_exec(*tmux, "kill-server")).wait()


async def test_where_tmux_is_gone_the_terminal_itself_is_asked(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon(), open_client(tmp_path, TMUX=f"{tmp_path}/gone,1,0") as terminal:
        await terminal.until("connected")
        await terminal.type(TEXT)
        await terminal.until(TEXT)
        await select_and_copy(terminal)
        await terminal.until("Copied.")
        await terminal.until_written(COPY.encode())
