"""`goclaw declare`: a one-file plugin is begun, checked and talked to without a daemon."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.program.ops.plugins.conftest import state
from tests.tools.toolkit.one_file import TOOL, own, put

__all__ = ["state"]

SCRIPT = [
    {"calls": [{"id": "c1", "name": "add_note", "input": {"text": "milk"}}]},
    {"calls": [{"id": "c2", "name": "read_notes", "input": {}}]},
    {"text": "Noted.", "when": '["milk"]'},
    {"text": "There is nothing.", "when": "[]"},
]


@pytest.fixture(autouse=True)
def _here(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_keys: None) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(state))
    monkeypatch.chdir(own(tmp_path / "mine"))


@pytest.mark.promise("P-plugins-one-file")
def test_declare_check_prints_every_fault_and_has_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = own(tmp_path / "mine")
    good = put(folder / "good.py", TOOL.format(name="garden", says="x"))
    bad = put(folder / "bad.py", "import nothing_of_that_name\n\nnot_defined()\n")
    assert run(["declare", "check", str(good)]) == 0
    assert capsys.readouterr().err == "goclaw: 1 file checked, no faults\n"
    assert run(["declare", "check", str(good), str(bad)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["bad.py:1:1", "bad.py:3:1"]
    assert run(["declare", "check", "--json", str(bad)]) == 1
    assert [(each["line"], each["column"]) for each in json.loads(capsys.readouterr().out)] == [(1, 1), (3, 1)]
    assert run(["declare", "check", "missing.py"]) == 1
    assert "No such file" in capsys.readouterr().out


def test_a_new_file_passes_its_check_and_its_agent_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["declare", "new", "keeper"]) == 0
    assert run(["declare", "check", "keeper.py"]) == 0
    Path("script.json").write_text(json.dumps(SCRIPT))
    capsys.readouterr()
    assert run(["declare", "run", "keeper.py", "--model", "scripted:script.json", "--approve", "Remember", "milk"]) == 0
    output = capsys.readouterr()
    assert output.out == "Noted.\n" and "called add_note" in output.err and 'Note "milk"?' in output.err
    run(["declare", "new", "forgetful"])
    assert run(["declare", "run", "forgetful.py", "--model", "scripted:script.json", "Remember milk"]) == 0
    output = capsys.readouterr()
    assert output.out == "There is nothing.\n" and "denied; `--approve` says yes beforehand" in output.err


def test_the_model_is_that_of_the_configuration(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["declare", "new", "keeper"])
    assert run(["declare", "run", "keeper.py", "--model", "demo", "/tool read_notes {}"]) == 0
    assert "read_notes returned" in capsys.readouterr().out
    Path("script.json").write_text('[{"error": "rejected"}]')
    put(state / "config.yaml", f"models: {{agent: 'scripted:{Path.cwd()}/script.json'}}\n", 0o600)
    assert run(["declare", "run", "keeper.py", "Hello"]) == 1


def test_what_stands_in_the_way_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(["declare", "new", "keeper"])
    assert run(["declare", "new", "keeper"]) == 78
    assert "keeper.py is there already" in capsys.readouterr().err
    assert run(["declare", "new", "My Keeper"]) == 2
    assert run(["declare", "run", "keeper.py", "--agent", "nobody", "Hello"]) == 78
    assert "has no agent nobody: choose one with --agent: keeper" in capsys.readouterr().err
    put(Path("garden.py"), TOOL.format(name="garden", says="x"))
    assert run(["declare", "run", "garden.py", "Hello"]) == 78
    assert "declare one with agent(…)" in capsys.readouterr().err
    put(Path("garden.py"), "1 / 0")
    assert run(["declare", "run", "garden.py", "Hello"]) == 1
    assert capsys.readouterr().out.startswith("garden.py:1:1: ZeroDivisionError: division by zero\n")
