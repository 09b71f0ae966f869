"""The memory of messages that grow in groups."""

import stat
from pathlib import Path

from goclaw.channels.telegram.state_files import MAX_TURNS, LiveMessageIds


async def test_the_next_daemon_knows_which_message_grew_for_which_turn(tmp_path: Path) -> None:
    grown = LiveMessageIds(tmp_path / "grown.json")
    await grown.remember("telegram:1", 77)
    after = LiveMessageIds(tmp_path / "grown.json")
    assert after.message_of("telegram:1") == 77
    assert after.message_of("telegram:2") is None
    assert stat.S_IMODE((tmp_path / "grown.json").stat().st_mode) == 0o600


async def test_only_the_latest_turns_are_remembered(tmp_path: Path) -> None:
    grown = LiveMessageIds(tmp_path / "grown.json")
    for number in range(MAX_TURNS + 1):
        await grown.remember(f"telegram:{number}", number)
    assert grown.message_of("telegram:0") is None
    assert grown.message_of(f"telegram:{MAX_TURNS}") == MAX_TURNS


async def test_a_file_that_makes_no_sense_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "grown.json").write_bytes(b'{"telegram:1": "soon"')
    grown = LiveMessageIds(tmp_path / "grown.json")
    assert grown.message_of("telegram:1") is None
    await grown.remember("telegram:1", 1)
    assert LiveMessageIds(tmp_path / "grown.json").message_of("telegram:1") == 1


async def test_a_folder_that_cannot_be_written_costs_nothing_now(tmp_path: Path) -> None:
    grown = LiveMessageIds(tmp_path / "missing" / "grown.json")
    await grown.remember("telegram:1", 1)
    assert grown.message_of("telegram:1") == 1


async def test_a_message_that_was_about_to_be_sent_may_stand_there(tmp_path: Path) -> None:
    grown = LiveMessageIds(tmp_path / "grown.json")
    await grown.intend("telegram:1")
    after = LiveMessageIds(tmp_path / "grown.json")
    assert after.is_lost("telegram:1") and after.message_of("telegram:1") is None
    assert not after.is_lost("telegram:2")
    await after.intend("telegram:1", "said")
    await after.intend("telegram:1")
    assert after.is_lost("telegram:1") and after.message_of("telegram:1") is None
    assert after.may_say("telegram:1", "said") and not after.may_say("telegram:1", "more")
    await after.remember("telegram:1", 7)
    assert not after.is_lost("telegram:1")
