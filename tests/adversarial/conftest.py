"""What the attacked program stands on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.adversarial.target import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """An installation with one file, and users who may do everything, nothing, and some things."""
    made = Target(tmp_path)
    made.state.mkdir(mode=0o700)
    made.workspace.mkdir()
    made.config.write_text("workspace: work\nstate_dir: state\n")
    (made.workspace / "a.txt").write_text("hello\n")
    users = {
        "telegram:1": {"name": "Ann"},
        "telegram:2": {"allowedTools": []},
        "telegram:3": {"allowedTools": ["read", "no_such_tool", "Exec"]},
        "tui:bob": {"allowedTools": ["read", "exec"]},
    }
    (made.state / "users.json").write_text(json.dumps({"users": users}))
    return made


@pytest.fixture
def cold_target(target: Target) -> Target:
    """The same; each command starts Python anew, as it does for people."""
    return replace(target, cold=True)
