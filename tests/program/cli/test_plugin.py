"""`goclaw plugin`: what it prints, and when what changed is in force; a start restores what is due."""

import json
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.common.core.plugin_folder import FOLDER, RECORD, InstalledPlugin, PluginRecord, read_record, write_record
from goclaw.program.cli.base import Options
from goclaw.program.cli.loading import load_for
from goclaw.program.cli.program import run
from tests.program.ops.plugins.conftest import state
from tests.program.ops.plugins.projects import project
from tests.tools.toolkit.one_file import TOOL, own, put

__all__ = ["state"]

pytestmark = [pytest.mark.promise("P-plugins-stay"), pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _here(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_keys: None) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(state))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_plugin_is_added_listed_and_removed(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = project(tmp_path / "garden")
    assert run(["plugin", "list"]) == 0
    assert "no plugin was added" in capsys.readouterr().err
    with open_state(Config(state_dir=state)):  # as a daemon does
        assert run(["plugin", "add", "./garden"]) == 0
    output = capsys.readouterr()
    assert output.out == "added garden-tools 1.0: tools.garden\n"
    assert output.err == "goclaw: `goclaw restart` makes the running daemon use it\n"
    assert run(["plugin", "list"]) == 0
    assert capsys.readouterr().out == f"garden-tools 1.0: tools.garden\n  from {source}\n"
    assert run(["plugin", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["source"], listed["fault"]) == ("garden-tools", str(source), "")
    assert run(["tool", "run", "garden"]) == 0
    assert capsys.readouterr().out == "from a package\n"
    assert run(["plugin", "remove", "garden-tools"]) == 0
    output = capsys.readouterr()
    assert output.out == "removed garden-tools 1.0\n" and "the next start of the daemon uses it" in output.err
    assert run(["plugin", "remove", "garden-tools"]) == 1
    assert capsys.readouterr().err == "goclaw: there is no plugin garden-tools; installed: none\n"


def test_files_with_tools_are_listed_too(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(own(state / "tools") / "garden.py", TOOL)
    assert run(["plugin", "list"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(f"{file}\n  one file; `goclaw declare check ") and output.err == ""
    assert run(["plugin", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"file": str(file)}]


def recorded(state: Path, source: Path) -> None:
    """A record of another Python, whose folder is gone: as after an upgrade."""
    (state / FOLDER).mkdir(mode=0o700)
    plugin = InstalledPlugin("garden-tools", str(source), "1.0", str(source), parts=("tools.garden",))
    write_record(state, PluginRecord("site-of-before", "another Python", (plugin,)))


@pytest.mark.slow
def test_a_start_restores_what_was_installed_for_another_python(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(state, project(tmp_path / "garden"))
    assert run(["plugin", "list"]) == 0
    assert "other packages of GoClaw or another Python" in capsys.readouterr().out
    loaded = load_for(Options(), restoring=True)
    assert loaded.packaged.faults == {}
    assert "restoring plugins" in capsys.readouterr().err
    assert run(["tool", "run", "garden"]) == 0
    assert capsys.readouterr().out == "from a package\n"
    load_for(Options(), restoring=True)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.promise("P-plugins-stop-nothing")
def test_a_plugin_that_cannot_be_restored_is_left_out_and_stops_no_start(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(state, tmp_path / "gone")
    loaded = load_for(Options(), restoring=True)
    ((what, why),) = loaded.packaged.faults.items()
    assert what == "plugin garden-tools" and str(tmp_path / "gone") in why and "tries again" in why
    assert f"warning: {what}: {why}" in capsys.readouterr().err
    assert run(["plugin", "restore"]) == 1
    assert [plugin.name for plugin in read_record(state).plugins] == ["garden-tools"]


@pytest.mark.promise("P-plugins-stop-nothing")
def test_a_broken_record_is_named_and_stops_no_command(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / FOLDER).mkdir(mode=0o700)
    for content in ("{", "[]", '{"plugins": [{"nothing": 1}]}', '{"plugins": [], "folder": "../elsewhere"}'):
        (state / FOLDER / RECORD).write_text(content)
        assert run(["plugin", "list"]) == 1
        assert f"{state / FOLDER / RECORD}: " in capsys.readouterr().err
        assert list(load_for(Options()).packaged.faults) == [f"plugin {RECORD}"]
