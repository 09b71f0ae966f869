"""Keys as a terminal sends them, to the real client."""

from pathlib import Path

from tests.tui.real_client import open_client, real_stage


async def test_a_burst_of_keys_means_what_it_would_mean_slowly(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        await terminal.until("connected")
        await terminal.type("/unknown thing\r")
        await terminal.until("Answer to")
    assert [inbound.text for inbound in daemon.heard] == ["/unknown thing"]


async def test_what_is_typed_before_the_first_picture_is_not_lost(tmp_path: Path) -> None:
    stage = real_stage(tmp_path)
    async with stage.daemon() as daemon, open_client(tmp_path) as terminal:
        # The cursor goes when the keys are the client's; before, the kernel makes a line break of Enter.
        await terminal.until_written(b"\x1b[?25l")
        await terminal.type("/early bird\rlater")
        await terminal.until("│ later")
        await terminal.until("Answer to")
    assert [inbound.text for inbound in daemon.heard] == ["/early bird"]
