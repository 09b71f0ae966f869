"""What `@` offers in a terminal before a real daemon: the person's own workspace, and nothing without the right."""

from pathlib import Path

import pytest

from goclaw.clients.tui.client import attach
from goclaw.common.core.wire import AskFiles, FilesReply
from tests.acceptance.daemon import installation

pytestmark = [pytest.mark.slow]


async def offered(state: Path, session: str, begun: str) -> list[str]:
    async with attach(state / "goclaw.sock", session) as client:
        return (await client.answer(AskFiles(begun), FilesReply)).paths


@pytest.mark.promise("P-tools-per-user")
async def test_files_are_offered_from_the_workspace_of_the_person_and_only_to_who_may_read(folder: Path) -> None:
    async with installation(folder, None, forks=True) as made:
        own = folder / "own"
        own.mkdir()
        (own / "my notes.md").touch()
        made.write_users(
            {"tui:writer": {"allowedTools": ["write"]}, "tui:reader": {"allowedTools": ["read"], "workspace": str(own)}}
        )
        await made.start()
        (made.workspace / "shared").mkdir(parents=True)
        (made.workspace / "shared" / "notes.md").touch()

        assert await offered(made.state, "tui:owner", "no") == ["shared/notes.md"]
        assert await offered(made.state, "tui:reader", "no") == ["my notes.md"]
        assert await offered(made.state, "tui:writer", "no") == []
