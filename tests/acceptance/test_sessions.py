"""`goclaw sessions` beside a daemon that runs, and after it: the same words both ways."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def talking(folder: Path, model: EchoModel) -> AsyncIterator[Installation]:
    """A daemon without Telegram that has answered twice."""
    async with installation(folder, None, model.url) as made:
        await made.start()
        for text in ("m1 plain", "m2 run echo hello"):
            assert (await made.run("send", "--session", "tui:me", text)).code == 0
        yield made


async def test_a_conversation_reads_the_same_from_the_daemon_and_from_the_disk(talking: Installation) -> None:
    commands = (
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", "tui:me"),
        ("sessions", "show", "tui:me", "--full", "--limit", "2"),
        ("sessions", "export", "tui:me"),
        ("sessions", "export", "tui:me", "--format", "jsonl"),
        ("sessions", "show", "tui:you"),
    )
    beside = [await talking.run(*command) for command in commands]
    assert [ran.code for ran in beside] == [0, 0, 0, 0, 0, 0, 1]
    assert "did you mean `tui:me`?" in beside[-1].err
    assert "m1 plain" in beside[2].out and "m1 plain" not in beside[3].out
    rows = [json.loads(line) for line in beside[5].out.splitlines()]
    roles = " ".join(row["role"] for row in rows)
    assert roles == "user assistant user assistant tool_use tool_result assistant"
    assert await talking.stop() == 0
    after = [await talking.run(*command) for command in commands]
    assert [(ran.code, ran.out, ran.err) for ran in after] == [(ran.code, ran.out, ran.err) for ran in beside]


async def test_an_export_beside_the_daemon_is_whole_and_takes_nobodys_place(talking: Installation) -> None:
    target = talking.folder / "out.md"
    assert (await talking.run("sessions", "export", "tui:me", str(target))).code == 0
    written = target.read_text()
    assert written.startswith("# Conversation `tui:me`\n") and "**calls** `exec`" in written
    again = await talking.run("sessions", "export", "tui:me", str(target))
    assert again.code == 1 and "exists already" in again.err and target.read_text() == written
