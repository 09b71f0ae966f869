"""`goclaw users add --preset`: the table before, both files or none after, and the difference for one who is listed."""

import errno
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.auth.access import Access
from goclaw.common.auth.presets import PRESETS
from goclaw.common.auth.users import Users
from goclaw.common.config import changing
from goclaw.common.config.load import load_config
from goclaw.common.config.state import open_state
from goclaw.common.core.events import Actor
from goclaw.errors import ConfigError
from goclaw.program.cli import rights
from goclaw.program.cli.program import run
from tests.tables import table


@pytest.fixture
def state(tmp_path: Path, no_keys: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder that the commands use."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def files(state: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(state.iterdir()) if path.is_file()}


def entry(state: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((state / "users.json").read_text())["users"][key]
    return found


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.promise("P-presets")
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_writes_an_entry_and_its_role_and_both_can_be_used(name: str, state: Path) -> None:
    assert run(["users", "add", "telegram:5", "--name", "Cem", "--preset", name, "--yes"]) == 0
    preset = PRESETS[name]
    assert entry(state, "telegram:5")["roles"] == [preset.role] and entry(state, "telegram:5")["name"] == "Cem"
    defined = load_config(None).config.roles
    assert {role: each.model_dump(exclude_unset=True) for role, each in defined.items()} == (
        {preset.role: dict(preset.settings)} if preset.settings else {}
    )
    assert run(["users", "check"]) == run(["config", "check"]) == 0


def test_the_config_file_that_a_preset_makes_is_readable_yaml_with_a_key_a_line(state: Path) -> None:
    assert run(["users", "add", "tui:gus", "--preset", "guest", "--yes"]) == 0
    text = (state / "config.yaml").read_text()
    assert text.splitlines()[:3] == ["roles:", "  guest:", "    tools: []"]
    assert yaml.safe_load(text)["roles"]["guest"]["approves"] == "none"


def test_an_existing_configuration_keeps_every_other_character_and_no_copy_of_it_is_left(state: Path) -> None:
    before = "# ours\nroles:\n  helper: {tools: [read]}  # Kim\nlog_level: DEBUG\n"
    (state / "config.yaml").write_text(before)
    (state / "config.yaml").chmod(0o640)
    assert run(["users", "add", "tui:cem", "--preset", "child", "--yes"]) == 0
    after = (state / "config.yaml").read_text()
    assert [line for line in after.splitlines() if line in before.splitlines()] == before.splitlines()
    assert set(load_config(None).config.roles) == {"helper", "child"}
    assert (state / "config.yaml").stat().st_mode & 0o777 == 0o640
    assert set(files(state)) == {"config.yaml", "users.json"}


@pytest.mark.promise("P-presets")
def test_nothing_is_written_before_a_yes(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["users", "add", "tui:cem", "--preset", "child"]
    for answer in ("", "\n", "n\n", "maybe\n"):
        typed(monkeypatch, answer)
        assert run(command) == 1
        out, err = capsys.readouterr()
        assert "Daily budget" in out and "Write this?" in out
        assert "nothing was written; `--yes` writes without asking" in err
    assert run([*command, "--dry-run"]) == 0
    assert "Write this?" not in capsys.readouterr().out
    assert files(state) == {}
    typed(monkeypatch, "y\n")
    assert run(command) == 0
    assert set(files(state)) == {"config.yaml", "users.json"}


def test_the_table_says_what_the_person_will_be_able_to_do(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "tui:cem", "--name", "Cem", "--preset", "child", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for row in (
        "Cem (tui:cem): child, ",
        "  Asks first   web_fetch, web_search, answered by somebody else\n",
        "  Daily budget $0.50, 500,000 tokens\n",
        "  Quiet hours  20:00-07:00\n",
        "  Workspace    state/people/tui.cem\n",
        "Written to: state/users.json; state/config.yaml: roles.child\n",
    ):
        assert row in out
    assert "exec" not in out


def test_a_person_who_is_listed_is_shown_the_difference(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"tui:ann": {}, "tui:cem": {"name": "Cem", "session": "tui:ann", "timezone": "Europe/Berlin"}}
    (state / "users.json").write_text(json.dumps({"users": entries}))
    assert run(["users", "add", "tui:cem", "--preset", "child", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "  Roles        now   user\n               then  child\n" in out
    assert "  Conversation now   tui:ann\n               then  their own\n" in out
    assert "  As before    writes files\n" in out
    assert "state/users.json: changed tui:cem\n" in out
    assert entry(state, "tui:cem") == {
        "name": "Cem",
        "roles": ["child"],
        "workspace": "people/tui.cem",
        "quietHours": "20:00-07:00",
        "timezone": "Europe/Berlin",
    }
    assert entry(state, "tui:ann") == {}


def test_an_unknown_preset_names_the_four(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "tui:cem", "--preset", "gest"]) == 78
    err = capsys.readouterr().err
    assert "unknown preset `gest`; did you mean `guest`? available: owner, adult, child, guest" in err
    assert files(state) == {}


@table(
    "options",
    [["--preset", "child", "--role", "admin"], ["--yes"], ["--dry-run"]],
    ids=lambda options: options[0] + options[-1],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], state: Path) -> None:
    assert run(["users", "add", "tui:cem", *options]) == 2
    assert files(state) == {}


def test_own_tools_and_a_workspace_go_before_the_presets(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--tool", "read", "--workspace", "shared"]
    assert run(["users", "add", "tui:cem", "--preset", "child", *options, "--yes"]) == 0
    assert entry(state, "tui:cem")["allowedTools"] == ["read"]
    assert "  Tools        read\n" in capsys.readouterr().out
    assert entry(state, "tui:cem")["workspace"] == "shared"


@pytest.mark.promise("P-presets")
def test_a_role_that_is_there_already_stays_and_the_table_shows_what_it_gives(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "roles: {child: {tools: [exec], daily_cost: 9}}\n"
    (state / "config.yaml").write_text(text)
    assert run(["users", "add", "tui:cem", "--preset", "child", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "  Tools        exec\n" in out and "  Daily budget $9.00\n" in out
    [line] = re.findall(
        r"(?m)^roles.child in state/config.yaml differs from the preset and stays unchanged: (.*)$", out
    )
    assert {"tools", "daily_cost"} <= set(line.split(", "))
    assert (state / "config.yaml").read_text() == text


@pytest.mark.promise("P-presets")
def test_a_configuration_that_cannot_be_added_to_leaves_both_files_as_they_were(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(path: Path, content: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (state / "config.yaml").write_text("log_level: DEBUG\n")
    before = files(state)
    monkeypatch.setattr(changing, "replace_file", fill_up)
    assert run(["users", "add", "tui:cem", "--preset", "child", "--yes"]) == 1
    assert "config.yaml was not changed: No space left on device" in capsys.readouterr().err
    assert files(state) == before


@pytest.mark.promise("P-presets")
@pytest.mark.parametrize("config", ["", "log_level: DEBUG\n"], ids=["new", "existing"])
def test_a_role_is_taken_back_when_the_entry_cannot_be_written(config: str, state: Path) -> None:
    if config:
        (state / "config.yaml").write_text(config)
    loaded = load_config(None, may_be_missing=True)
    plans = rights.plan_people(loaded.config, [rights.Wanted("tui:cem", PRESETS["child"])])
    (state / "users.json").write_text('{"users": {"tui:cem": {"roles": ["admin"]}}}')
    before = files(state)
    with pytest.raises(ConfigError, match="tui:cem was changed in the meantime; nothing was written"):
        rights.write(loaded, plans)
    assert files(state) == before


def test_a_running_daemon_needs_no_restart_for_the_role(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = load_config(None, may_be_missing=True).config
    with open_state(before):
        assert run(["users", "add", "tui:cem", "--preset", "child", "--yes"]) == 0
    assert "restart" not in capsys.readouterr().out
    access = Access(Users.read(before.users_path), before)
    assert access.daily_budget("tui:cem").cost == 0.5, "though its configuration lacks the role"
    assert not access.authorize(Actor("tui:cem", "tui"), "tool.use", "exec").allowed


def tool(capsys: pytest.CaptureFixture[str], key: str, name: str, **given: str) -> str:
    """What a tool says to a person."""
    capsys.readouterr()
    run(["tool", "run", name, "--input", json.dumps(given), "--user", key])
    return capsys.readouterr().out


@pytest.mark.promise("P-presets")
def test_a_child_has_files_of_its_own_alone_and_no_commands(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = {"tui:cem": "child", "tui:ben": "adult", "tui:gus": "guest"}
    for key, preset in people.items():
        assert run(["users", "add", key, "--preset", preset, "--yes"]) == 0
    (state / "workspace").mkdir(exist_ok=True)
    (state / "workspace" / "ours.txt").write_text("between us\n")
    for path in ("ours.txt", "shared/ours.txt", "../../workspace/ours.txt", str(state / "workspace" / "ours.txt")):
        assert "between us" not in tool(capsys, "tui:cem", "read", path=path)
        assert '"error"' in tool(capsys, "tui:gus", "read", path=path)
    assert "between us" in tool(capsys, "tui:ben", "read", path="shared/ours.txt")
    tool(capsys, "tui:cem", "write", path="shared/mine.txt", content="x")
    tool(capsys, "tui:cem", "write", path="homework.txt", content="1 + 1 = 2\n")
    assert (state / "people" / "tui.cem" / "homework.txt").read_text() == "1 + 1 = 2\n"
    assert [path.name for path in (state / "workspace").glob("*.txt")] == ["ours.txt"]
    assert "unknown tool: exec" in tool(capsys, "tui:cem", "exec", command="true")
    assert "unknown tool: write" in tool(capsys, "tui:gus", "write", path="a", content="x")
    assert "approval required" in tool(capsys, "tui:cem", "web_search", query="x")
