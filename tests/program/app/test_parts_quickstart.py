"""The daemon leaves a quickstart in each workspace that is used, of tools that whoever works there may know of."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.program.app import open_app
from goclaw.tools.toolkit.tool_docs import QUICKSTART

OWNER = Actor("tui:me", "cli", owner=True)
CLI = {"count_lines": {"command": "wc", "description": "Count lines."}}


async def used(folder: Path, users: str = '{"users": {}}', *, key: str = "", **settings: Any) -> Path:
    """The workspace of a daemon in which somebody's tool was about to run."""
    state = folder / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    (state / "users.json").write_text(users)
    given = {"state_dir": state, "models": {"agent": ["demo"]}, "telegram": {"enabled": False}, **settings}
    async with open_app(Config.model_validate(given), SteppedClock()) as app:
        workspace = await app.foundation.environment.workspace(Actor(key, "telegram") if key else OWNER)
        return workspace.root


async def test_it_is_there_when_a_workspace_is_used(tmp_path: Path) -> None:
    text = ((await used(tmp_path, tools={"cli": CLI, "disabled": ["edit"]})) / QUICKSTART).read_text()
    assert "- `read(path" in text and "- `count_lines(args?)`: Count lines." in text
    assert "`edit(" not in text


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert not ((await used(tmp_path, agents={"quickstart": False})) / QUICKSTART).exists()


@pytest.mark.promise("P-quickstart-own")
async def test_it_is_replaced_after_a_restart_and_never_when_it_was_changed(tmp_path: Path) -> None:
    file = (await used(tmp_path)) / QUICKSTART
    assert "count_lines" not in file.read_text()
    await used(tmp_path, tools={"cli": CLI})
    assert "count_lines" in file.read_text()
    file.write_text("Ours.")
    await used(tmp_path)
    assert file.read_text() == "Ours."


@pytest.mark.parametrize(("shared", "told"), [(True, False), (False, True)], ids=["shared", "own workspace"])
async def test_a_tool_of_the_operators_own_is_told_where_everybody_may_use_it(
    shared: bool, told: bool, tmp_path: Path
) -> None:
    own = "" if shared else f', "workspace": "{tmp_path}/guests"'
    users = f'{{"users": {{"telegram:1": {{}}, "telegram:2": {{"allowedTools": ["read"]{own}}}}}}}'
    text = ((await used(tmp_path, users, key="telegram:1", tools={"cli": CLI})) / QUICKSTART).read_text()
    assert ("count_lines" in text) is told
    assert "`exec(" in text
