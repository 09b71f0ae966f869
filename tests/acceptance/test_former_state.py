"""A state folder that an earlier version wrote is taken up where that version was killed.

`former/state-5651ec5.tar.gz` was written by commit 5651ec5: its daemon answered six messages of a person in Telegram,
ran commands and tools, got a rule for good, made a compaction, asked whether `write` may run for the seventh message,
took an eighth one, and was killed with SIGKILL.
"""

import json
import re
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from goclaw.program.ops.upgrade.checkout import unpack
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("takes over the file of an earlier version")]

ARCHIVE = Path(__file__).parent / "former" / "state-5651ec5.tar.gz"
ANN = 5


@pytest.fixture
async def former(folder: Path, telegram: FakeTelegram, model: EchoModel) -> AsyncIterator[Installation]:
    """An installation on the state and the workspace of the earlier version, with the same configuration."""
    unpack(ARCHIVE, folder)
    stricter = {"stricter": {"medium": "ask"}}
    # Telegram counts on: what has an earlier number was taken up before.
    telegram.world.update_ids, telegram.world.message_ids = count(2000), count(500)
    async with installation(folder, telegram, model.url, forks=True, policy=stricter) as made:
        yield made


@pytest.mark.promise("P-history-kept")
@pytest.mark.promise("P-answered-once")
async def test_what_an_earlier_version_left_is_answered_and_everything_before_it_is_there(
    former: Installation, telegram: FakeTelegram
) -> None:
    def texts() -> list[str]:
        return [sent.text for sent in telegram.sent(ANN)]

    private = {"memory/users/telegram:5/tea.md": "Ann hides the tea.", "memory/users/telegram:6/pin.md": "Bob's pin."}
    for path, text in private.items():  # as that version kept them
        (former.workspace / path).parent.mkdir(parents=True)
        (former.workspace / path).write_text(text)
    await former.start(telegram)
    assert former.read("SELECT name FROM steps WHERE state = 'parked'") == [("approve:tool:1:call-m7c5-1",)]
    await telegram.world.say("/approvals", user=ANN, chat=ANN)
    await eventually(lambda: any("m3c5.txt" in text for text in texts()))
    (card, *_), *_ = former.read("SELECT body FROM deliveries WHERE body LIKE '%/approve %' ORDER BY seq DESC")
    [named, *_] = re.findall(r"/approve (\w+)", card)
    # An approval would be void: what was asked rests on the workspace's path, which is another one here.
    await telegram.world.say(f"/deny {named}", user=ANN, chat=ANN)
    await eventually(lambda: any("answer m8c5 (end)" in text for text in texts()))
    assert [re.findall(r"m\dc5", text) for text in texts() if text.startswith("answer")] == [["m7c5"], ["m8c5"]]
    assert not (former.workspace / "m7c5.txt").exists()
    shown = (await former.run("sessions", "export", "telegram:5")).out
    assert all(f"m{number}c5" in shown for number in range(1, 9))
    assert "Compactions: 1" in (await former.run("send", "--session", "telegram:5", "/status")).out
    assert not (former.workspace / "memory/users").exists()
    calls = "".join(json.dumps({"tool": "read", "input": {"path": path}}) + "\n" for path in private)
    shown = (await former.run("tool", "run", "--user", "telegram:5", "--jsonl", stdin=calls)).out
    assert "Ann hides the tea." in shown and "Bob's pin." not in shown and "file not found" in shown
    assert await former.stop() == 0
