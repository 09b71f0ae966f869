"""Keys as a terminal sends them, to the real client."""

import termios
from pathlib import Path

import pytest

from tests.acceptance.waiting import eventually
from tests.clients.tui.real_client import open_client, real_stage


async def test_a_burst_of_keys_means_what_it_would_mean_slowly(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        await terminal.until("connected")
        await terminal.type("/unknown thing\r")
        await terminal.until("Answer to")
    assert [inbound.text for inbound in daemon.heard] == ["/unknown thing"]


@pytest.mark.promise("P-terminal-typing")
async def test_keys_typed_before_the_client_has_drawn_are_messages_and_no_line_breaks(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    # The interpreter has not even begun, and the kernel collects lines.
    typed = "/early bird\rzwei Käfer\rlater"
    async with stage.daemon() as daemon, open_client(tmp_path, typed=typed) as terminal:
        await terminal.until("│ later")
        await terminal.until("Answer to")
        assert b"\x1b[?1049h" not in terminal.written.partition(b"early")[0], "the client had drawn already"
        await eventually(lambda: len(daemon.heard) == 2)
        await terminal.type("\x11")
        await terminal.wait()
        local, flow = terminal.modes()
    assert [inbound.text for inbound in daemon.heard] == ["/early bird", "zwei Käfer"]
    assert local & termios.ICANON and local & termios.ECHO and flow & termios.ICRNL, "the terminal is as it was"


async def test_what_is_typed_before_the_first_picture_is_not_lost(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        # The cursor goes when the keys are the client's; before, the kernel makes a line break of Enter.
        await terminal.until_written(b"\x1b[?25l")
        await terminal.type("/early bird\rlater")
        await terminal.until("│ later")
        await terminal.until("Answer to")
    assert [inbound.text for inbound in daemon.heard] == ["/early bird"]
