"""Private notes of people with workspaces of their own and a shared one: moved at the start, found where they work."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.errors import StateError
from goclaw.program.app import open_environment

HOLDER = """
import sys
from pathlib import Path
from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
with open_state(Config(state_dir=Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""
ANN, BOB = Actor("telegram:5", "telegram"), Actor("telegram:6", "telegram")


def at(folder: Path) -> tuple[Config, Users]:
    """Bob works in a workspace of his own."""
    config = Config.model_validate({"state_dir": folder / "state", "workspace": folder / "work"})
    return config, Users([User(ANN.key), User(BOB.key, workspace=folder / "bob")])


@contextmanager
def running(config: Config) -> Iterator[None]:
    """Another process holds the state folder."""
    config.state_dir.mkdir()
    command = [sys.executable, "-c", HOLDER, str(config.state_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout and holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()


def keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.promise("P-memory-own-notes")
async def test_notes_of_every_configured_workspace_are_found_by_their_person_after_an_upgrade(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, users = at(tmp_path)
    for root, actor in (("work", ANN), ("work", BOB), ("bob", BOB)):
        keep(tmp_path / root / f"memory/users/{actor.key}/tea.md", f"the tea of {actor.key} in {root}")
    async with open_environment(config, users, SteppedClock()) as environment:
        shared, own = await environment.workspace(ANN), await environment.workspace(BOB)
        tea = f"memory/users/{BOB.key}/tea.md"
        assert await own.read_bytes(tea) == b"the tea of telegram:6 in bob"
        assert await own.read_bytes(tea.replace("tea.md", "tea-2.md")) == b"the tea of telegram:6 in work"
        for workspace, actor, count in ((shared, ANN, 1), (own, BOB, 2), (shared, BOB, 0), (own, ANN, 0)):
            found = await environment.memory.search(workspace, actor.key, "tea", 5)
            assert len(found.hits) == count, (workspace.root, actor.key)
    assert "is seen by commands alone" not in caplog.text


async def test_what_lies_in_their_place_later_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, users = at(tmp_path)
    async with open_environment(config, users, SteppedClock()) as environment:
        keep(tmp_path / f"work/memory/users/{ANN.key}/tea.md", "by a command")
        with caplog.at_level(logging.WARNING):
            await environment.workspace(ANN)
    assert "work/memory/users is seen by commands alone: private notes are in the state folder" in caplog.text


async def test_a_daemon_of_an_earlier_version_that_still_runs_is_not_robbed_of_its_notes(tmp_path: Path) -> None:
    config, users = at(tmp_path)
    note = tmp_path / f"work/memory/users/{ANN.key}/tea.md"
    keep(note, "tea")
    with running(config):
        with pytest.raises(StateError, match="runs an older version: `goclaw restart` first"):
            async with open_environment(config, users, SteppedClock()):
                pass
    assert note.read_text() == "tea" and not (config.state_dir / "notes").exists()
