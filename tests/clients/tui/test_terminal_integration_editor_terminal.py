"""Ctrl+G in the real client: the editor gets the terminal, and nothing is lost on either side."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Actor
from goclaw.common.core.messages import UserMessage
from tests.clients.tui.fake_daemon import PATIENCE, FakeGateway
from tests.clients.tui.real_client import open_client, real_stage
from tests.terminal import Terminal

CTRL_G = "\x07"
ROWS = 60
"""More pictures than Textual's writer takes without writing them."""


def editor(folder: Path, script: str) -> str:
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


class Asked:
    """Counts how often the client asks for the numbers: it does so for each row that it has dealt with."""

    def __init__(self, daemon: FakeGateway, patch: pytest.MonkeyPatch) -> None:
        self._numbers = daemon.numbers
        self._times = 0
        self._more = asyncio.Event()
        patch.setattr(daemon, "status", self._status)

    async def until(self, times: int) -> None:
        while self._times < times:
            self._more.clear()
            await self._more.wait()

    async def _status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        self._times += 1
        self._more.set()
        return self._numbers


async def typed(terminal: Terminal, text: str) -> None:
    await terminal.type(text)
    await terminal.until(f"│ {text}")


async def test_the_editor_has_the_terminal_and_what_happens_meanwhile_is_shown_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo "the editor is open"; read line; printf " and %s\\nKäse\\n" "$line" >> "$1"'
    stage = real_stage(tmp_path)
    async with (
        asyncio.timeout(2 * PATIENCE),
        stage.daemon() as daemon,
        open_client(tmp_path, EDITOR=editor(tmp_path, script)) as terminal,
    ):
        await terminal.until("connected")
        await typed(terminal, "/begun")
        await terminal.type(CTRL_G)
        await terminal.until("the editor is open")
        before, asked = terminal.text(), Asked(daemon, monkeypatch)
        for number in range(ROWS):
            daemon.tell(f"t{number}", UserMessage(f"message <{number}>"))
            await asked.until(number + 1)
        assert terminal.text() == before, "nothing is painted over the editor"
        await terminal.type("more\r")
        await terminal.until("begun and more")
        await terminal.until(f"message <{ROWS - 1}>")
        await terminal.type("!\r")
        await terminal.until("Answer to /begun and more")
    assert [inbound.text for inbound in daemon.heard] == ["/begun and more\nKäse!"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "words", "left"),
    [
        ("exit 3", "ended with code 3.", "begun"),
        ('echo " and saved" >> "$1"; exit 1', "ended with code 1.", "begun and saved"),
        ('rm "$1"', "Could not run", "begun"),
    ],
)
async def test_an_editor_that_fails_is_named_and_the_input_kept(
    script: str, words: str, left: str, tmp_path: Path
) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon(), open_client(tmp_path, VISUAL=editor(tmp_path, script)) as terminal:
        await terminal.until("connected")
        await typed(terminal, "begun")
        await terminal.type(CTRL_G)
        await terminal.until(words)
        await terminal.until(f"│ {left} ")


@pytest.mark.long
async def test_without_an_editor_the_person_is_told_what_to_set(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon(), open_client(tmp_path, EDITOR="nowhere") as terminal:
        await terminal.until("connected")
        await typed(terminal, "begun")
        await terminal.type(CTRL_G)
        await terminal.until("EDITOR is nowhere")
        await terminal.until("│ begun ")


@pytest.mark.long
async def test_ctrl_c_in_the_editor_leaves_the_client_alone(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    script = 'echo "the editor is open"; read line'
    async with stage.daemon(), open_client(tmp_path, EDITOR=editor(tmp_path, script)) as terminal:
        await terminal.until("connected")
        await typed(terminal, "begun")
        await terminal.type(CTRL_G)
        await terminal.until("the editor is open")
        await terminal.type("\x03")
        await terminal.until("ended with code -2.")
        await terminal.until("│ begun ")


@pytest.mark.long
async def test_the_picture_has_the_size_that_the_terminal_got_meanwhile(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    script = 'echo "the editor is open"; read line'
    async with stage.daemon(), open_client(tmp_path, EDITOR=editor(tmp_path, script)) as terminal:
        await terminal.until("connected")
        await terminal.type(CTRL_G)
        await terminal.until("the editor is open")
        terminal.resize(120, 30)
        await terminal.type("\r")
        await terminal.until(lambda text: "connected" in text and "╮" in text.splitlines()[-4][110:])
