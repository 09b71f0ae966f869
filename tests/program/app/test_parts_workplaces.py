"""Workspaces of single persons, as the daemon opens them: made when they are first used, and nothing is moved."""

import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.errors import StateError
from goclaw.program.app import open_environment

ANN, BOB, OWNER = Actor("tui:ann", "tui"), Actor("tui:bob", "tui"), Actor("tui:me", "tui", owner=True)


def config(folder: Path, **settings: Any) -> Config:
    return Config.model_validate({"state_dir": folder / "state", "workspace": folder / "work", **settings})


@pytest.mark.promise("P-workspaces-per-person")
async def test_switching_it_on_makes_folders_moves_nothing_and_says_where_the_files_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    users = Users([User(ANN.key), User(BOB.key)])
    async with open_environment(config(tmp_path), users, SteppedClock()) as environment:
        await (await environment.workspace(ANN)).write_bytes("plan.md", b"as before")
        assert (await environment.workspace(ANN)).root == tmp_path / "work"
    assert not (tmp_path / "state/people").exists()
    before = sorted(path.name for path in (tmp_path / "work").iterdir())
    async with open_environment(config(tmp_path, workspaces="per-person"), users, SteppedClock()) as environment:
        own = await environment.workspace(ANN)
        assert own.root == tmp_path / "state/people/tui.ann" and own.shared == tmp_path / "work"
        assert await own.read_bytes("shared/plan.md") == b"as before"
        assert await (await environment.workspace(OWNER)).read_bytes("plan.md") == b"as before"
        assert (await environment.workspace(ANN, "telegram:-5")).root == tmp_path / "work"
        for folder in (own.root, own.root.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (own.root / "AGENTS.md").exists() and (own.root / "shared").readlink() == tmp_path / "work"
        assert not (tmp_path / "state/people/tui.bob").exists(), "made when it is used"
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == before
    told = f"in {tmp_path / 'state/people'}; older files stay in {tmp_path / 'work'}, which everybody sees as shared/"
    assert caplog.text.count(told) == 1
    async with open_environment(config(tmp_path), users, SteppedClock()) as environment:
        assert (await environment.workspace(ANN)).root == tmp_path / "work", "and back"
    assert (tmp_path / "state/people/tui.ann/AGENTS.md").exists()


async def test_a_change_of_users_json_takes_effect_at_the_next_use(tmp_path: Path) -> None:
    users = Users([User(ANN.key)])
    async with open_environment(config(tmp_path), users, SteppedClock()) as environment:
        assert (await environment.workspace(ANN)).shared is None
        users._users = {ANN.key: User(ANN.key, workspace="own")}
        assert (await environment.workspace(ANN)).shared == tmp_path / "work"
        users._users = {}
        assert (await environment.workspace(ANN)).root == tmp_path / "work"


@pytest.mark.promise("P-workspaces-per-person")
async def test_notes_are_found_in_ones_own_workspace_and_the_shared_one_alone(tmp_path: Path) -> None:
    users = Users([User(ANN.key), User(BOB.key)])
    async with open_environment(config(tmp_path, workspaces="per-person"), users, SteppedClock()) as environment:
        ann, bob = await environment.workspace(ANN), await environment.workspace(BOB)
        await ann.write_bytes("memory/tea.md", b"the tea of Ann")
        await bob.write_bytes("memory/tea.md", b"the tea of Bob")
        await bob.write_bytes("shared/memory/tea.md", b"the tea of all")
        group = await environment.workspace(ANN, "telegram:-5")
        for workspace, actor, found in (
            (ann, ANN, {"memory/tea.md", "shared/memory/tea.md"}),
            (bob, BOB, {"memory/tea.md", "shared/memory/tea.md"}),
            (group, ANN, {"memory/tea.md"}),
        ):
            hits = (await environment.memory.search(workspace, actor.key, "tea", 9)).hits
            assert {hit.path for hit in hits} == found
        hits = (await environment.memory.search(ann, ANN.key, "tea", 9)).hits
        assert {hit.text for hit in hits} == {"the tea of Ann", "the tea of all"}
        await environment.memory.reindex()
        listed = await environment.memory.files(ann, ANN.key)
        assert {"memory/tea.md", "shared/memory/tea.md"} <= {file.path for file in listed}


async def test_a_workspace_that_holds_those_of_others_is_refused_once_there_are_any(tmp_path: Path) -> None:
    people = tmp_path / "state/people"
    wide = User(BOB.key, workspace=people)
    async with open_environment(config(tmp_path), Users([User(ANN.key), wide]), SteppedClock()) as environment:
        assert (await environment.workspace(BOB)).root == people, "a folder of that name is one, as before"
    users = Users([User(ANN.key, workspace="own"), wide])
    async with open_environment(config(tmp_path), users, SteppedClock()) as environment:
        with pytest.raises(StateError, match=f"{people}, lie inside the workspace"):
            await environment.workspace(BOB)


async def test_something_in_the_links_place_is_told_and_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state/people/tui.ann/shared").mkdir(parents=True)
    users = Users([User(ANN.key, workspace="own")])
    async with open_environment(config(tmp_path), users, SteppedClock()) as environment:
        own = await environment.workspace(ANN)
        assert (own.root / "shared").is_dir() and not (own.root / "shared").is_symlink()
    assert "hides the shared folder from commands: rename it" in caplog.text
