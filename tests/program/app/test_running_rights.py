"""The rights of a person as `/whoami` has them from the daemon: in words, for admins by the names of tools."""

import asyncio
import json
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.program.app import open_app
from goclaw.program.app.running import describe_rights

ANN, BEN = Actor("telegram:5", "telegram"), Actor("telegram:7", "telegram")


async def test_people_read_words_admins_names_and_a_group_no_budget(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    users = {ANN.key: {"allowedTools": ["read", "write", "exec"]}, BEN.key: {"roles": ["admin"]}}
    (state / "users.json").write_text(json.dumps({"users": users}))
    config = Config.model_validate({"state_dir": state, "limits": {"daily_cost": 2}, "models": {"agent": ["demo"]}})
    async with asyncio.timeout(30), open_app(config) as app:
        ann, ben, group = (
            describe_rights(app, actor, session).splitlines()
            for actor, session in ((ANN, ANN.key), (BEN, BEN.key), (ANN, "telegram:-100"))
        )
    assert ann[0] == "Role: user" and ann[1].startswith("Workspace: ")
    assert ann[2:] == ["I can: read and write files, run commands", "Daily budget: $2.00", "Quiet hours: none"]
    assert [line for line in ben if line.startswith("Tools: agent, ask_user, bg_exec, ")]
    assert group == [line for line in ann if "budget" not in line]
