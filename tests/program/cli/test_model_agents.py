"""`goclaw agents list|describe`: the agents of the configuration, for people and for programs."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.plugin import install, packages

__all__ = ["packages"]

CONFIG = """
agents:
  kinds:
    planner: {description: Plans., exports: {planning: {tools: {create_plan: {description: Make a plan.}}}}}
  routes: [{agent: planner, command: plan}]
"""
LIBRARY = "from goclaw.declare import agent\nIT = agent('librarian', 'Knows words.')\n"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "config.yaml").chmod(0o600)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    return folder


def test_a_line_for_each_agent_those_of_packages_included(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(packages, "library", {"library_agents": LIBRARY}, {"agents.librarian": "library_agents:IT"})
    assert run(["agents", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["main", "librarian        Knows words.", "planner          Plans."]


def test_one_is_described_and_a_slip_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agents", "describe", "planner"]) == 0
    said = capsys.readouterr().out
    assert "Answers /plan" in said and "- create_plan: Make a plan." in said
    assert run(["agents", "describe", "planer"]) == 1
    assert capsys.readouterr().out == "There is no agent planer. Did you mean planner?\n"


def test_programs_get_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agents", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == ["main", "planner"]
    assert run(["agents", "describe", "planner", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == listed[1]
