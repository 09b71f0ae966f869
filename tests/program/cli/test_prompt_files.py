"""`goclaw prompt-files list|approve`: what differs from its approved text, and the operator's yes."""

import asyncio
import json
from pathlib import Path

import pytest

from goclaw.common.auth.audit import read_audit
from goclaw.common.auth.shared_workspaces import approved_files
from goclaw.common.auth.users import Users, login_name
from goclaw.common.config.load import load_config
from goclaw.common.core.clock import RealClock
from goclaw.common.workspace import ApprovedFiles
from goclaw.program.cli.program import run

pytestmark = pytest.mark.promise("P-prompt-approved")


class Stage:
    """A state folder, and a workspace of two people whose AGENTS.md was seen."""

    def __init__(self, folder: Path) -> None:
        self.state, self.root = folder / "state", folder / "work"
        self.state.mkdir(mode=0o700)
        self.root.mkdir()
        (self.state / "config.yaml").write_text(f"workspace: {self.root}\n")
        (self.state / "config.yaml").chmod(0o600)
        (self.state / "users.json").write_text(json.dumps({"users": {"telegram:1": {}, "telegram:2": {}}}))
        self.write("Be kind.\n")
        assert self.used() == "Be kind."

    def write(self, text: str) -> None:
        (self.root / "AGENTS.md").write_text(text)

    @property
    def approved(self) -> ApprovedFiles:
        config = load_config(environ={"GOCLAW_STATE_DIR": str(self.state)}).config
        return approved_files(config, Users.read(config.users_path), RealClock())

    def used(self) -> str:
        """Return the text of AGENTS.md in a prompt now."""
        content = {"AGENTS.md": (self.root / "AGENTS.md").read_bytes()}
        return asyncio.run(self.approved.texts_to_use(self.root, content)).texts.get("AGENTS.md", "")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    return Stage(tmp_path)


def test_a_change_is_listed_with_its_diff_and_approved(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prompt-files", "list"]) == 0
    assert "all prompt files match" in capsys.readouterr().err
    stage.write("Be brief.\n")
    assert run(["prompt-files", "list"]) == 0
    assert f"{stage.root}/AGENTS.md\n@@ -1 +1 @@\n-Be kind.\n+Be brief.\n" in capsys.readouterr().out
    run(["config", "check"])
    assert f"{stage.root}/AGENTS.md has changed" in "".join(capsys.readouterr())
    assert stage.used() == "Be kind."
    assert run(["prompt-files", "approve", "AGENTS.md", "--yes"]) == 0
    assert stage.used() == "Be brief."
    [entry] = [each for each in read_audit(stage.state / "logs" / "audit.jsonl") if "prompt_file" in each["action"]]
    assert (entry["action"], entry["actor"]) == ("prompt_file.approve", f"tui:{login_name()}")


def test_a_refused_text_is_listed_and_can_be_approved(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.write("Be brief.\n")
    assert stage.used() == "Be kind."
    assert all(stage.approved.refuse(change) for change in stage.approved.waiting())
    assert run(["prompt-files", "list"]) == 0
    assert "+Be brief." in capsys.readouterr().out
    assert run(["prompt-files", "approve", f"{stage.root}/AGENTS.md", "--yes"]) == 0
    assert stage.used() == "Be brief."


def test_nothing_is_approved_without_a_yes_or_a_change(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["prompt-files", "approve", "--yes"]) == 1
    assert "nothing to approve" in capsys.readouterr().err
    stage.write("Be brief.\n")
    assert run(["prompt-files", "approve", "SOUL.md", "--yes"]) == 1
    monkeypatch.setattr("typer.confirm", lambda text: False)
    assert run(["prompt-files", "approve"]) == 1
    assert stage.used() == "Be kind."


def test_a_workspace_that_is_gone_is_named(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    (stage.root / "AGENTS.md").unlink()
    stage.root.rmdir()
    assert run(["prompt-files", "list"]) == 0
    assert str(stage.root) in capsys.readouterr().err
