"""`goclaw users set|remove|waiting` and invitations, on the command line without a daemon."""

import io
import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run


@pytest.fixture
def state(tmp_path: Path, no_keys: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with two people of one name."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    people: dict[str, dict[str, object]] = {
        "tui:ann": {"roles": ["admin"]},
        "tui:cem": {"name": "Cem"},
        "tui:c2": {"name": "Bo"},
        "tui:c3": {"name": "Bo"},
    }
    (folder / "users.json").write_text(json.dumps({"users": people}))
    return folder


def listed(state: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((state / "users.json").read_text())["users"]
    return found


def test_somebody_gets_another_preset_by_name_or_key(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "set", "cem", "--preset", "child", "--yes"]) == 0
    assert listed(state)["tui:cem"]["roles"] == ["child"] and listed(state)["tui:cem"]["name"] == "Cem"
    assert "  Roles        now   user\n               then  child\n" in capsys.readouterr().out
    assert run(["users", "set", "tui:c2", "--preset", "guest", "--name", "Bob", "--yes"]) == 0
    assert listed(state)["tui:c2"]["name"] == "Bob"


def test_who_is_not_one_listed_person_is_not_changed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listed(state)
    assert run(["users", "set", "Bo", "--preset", "child", "--yes"]) == 78
    assert "Bo is the name of tui:c2, tui:c3: name the key" in capsys.readouterr().err
    assert run(["users", "remove", "Eve", "--yes"]) == 78
    assert "Eve is not listed; see `goclaw users list`" in capsys.readouterr().err
    assert listed(state) == before


def test_somebody_is_removed_after_a_yes(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["users", "remove", "Cem"]) == 1
    assert "tui:cem" in listed(state)
    assert run(["users", "remove", "Cem", "--yes"]) == 0
    assert list(listed(state)) == ["tui:ann", "tui:c2", "tui:c3"]


@pytest.mark.promise("P-strangers-ignored")
def test_an_invitation_is_made_listed_and_revoked(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "waiting"]) == 0
    assert capsys.readouterr().out == "Nobody is waiting.\n"
    assert run(["users", "add", "--invite", "child", "Dora"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Dora is invited as child: no commands")
    code = said.split()[-1]
    assert run(["users", "waiting"]) == 0
    assert capsys.readouterr().out == f"{code}  Dora, invited as child, 7 days left\n"
    assert run(["users", "remove", code.lower()]) == 0
    assert run(["users", "remove", code]) == 78
    assert "there is no such invitation" in capsys.readouterr().err
    assert "Dora" not in (state / "users.json").read_text()


@pytest.mark.promise("P-strangers-ignored")
def test_nobody_is_invited_as_an_owner(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "--invite", "owner", "Eve"]) == 78
    assert "a code makes nobody an admin; choose one of: adult, child, guest" in capsys.readouterr().err
