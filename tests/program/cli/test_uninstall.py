"""`goclaw uninstall` in an environment that it did not make: what it says, and what it leaves alone."""

import os
import sys
from pathlib import Path

import pytest
import typer

from goclaw.common.config.load import load_config
from goclaw.common.config.state import open_state
from goclaw.program.cli.program import run
from goclaw.program.cli.systemd import Manager
from tests.program.cli.fake_systemd import FakeSystemd

Capture = pytest.CaptureFixture[str]


def test_the_service_goes_and_the_data_stay(systemd: FakeSystemd, capsys: Capture) -> None:
    assert run(["service", "install"]) == 0
    config = load_config().config
    with open_state(config):
        pass
    assert run(["uninstall", "--yes"]) == 0
    told = capsys.readouterr()
    assert str(Manager.USER.unit_path) in told.out and not Manager.USER.unit_path.exists()
    assert systemd.calls[-2:] == ["daemon-reload", "reset-failed goclaw.service"]
    assert f"your data stay in {config.state_dir}" in told.err and config.state_dir.is_dir()
    assert Path(sys.prefix).is_dir() and "remove the program itself with `" in told.out


@pytest.mark.promise("P-uninstall")
def test_a_unit_that_is_not_ours_is_neither_listed_nor_touched(systemd: FakeSystemd, capsys: Capture) -> None:
    Manager.USER.unit_path.parent.mkdir(parents=True)
    Manager.USER.unit_path.write_text("[Unit]\nDescription=mine\n")
    assert run(["uninstall", "--yes"]) == 0
    assert str(Manager.USER.unit_path) not in capsys.readouterr().out
    assert Manager.USER.unit_path.read_text() == "[Unit]\nDescription=mine\n"


@pytest.mark.promise("P-uninstall")
@pytest.mark.parametrize("place", ["home", "current folder"])
def test_a_state_folder_around_other_things_is_refused_before_anything_is_asked(
    systemd: FakeSystemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, place: str
) -> None:
    inner = tmp_path / "state" / "inner"
    with open_state(load_config().config):
        inner.mkdir()
    if place == "home":
        monkeypatch.setenv("HOME", str(inner))
    else:
        monkeypatch.chdir(inner)
    monkeypatch.setattr(typer, "confirm", lambda *_: pytest.fail("asked"))
    assert run(["uninstall", "--data"]) == 1
    assert "so it is not removed" in capsys.readouterr().err
    assert os.path.lexists(inner)


@pytest.mark.promise("P-uninstall")
def test_a_backup_that_cannot_be_made_leaves_the_data(
    systemd: FakeSystemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    config = load_config().config
    with open_state(config):
        config.database_path.write_text("no database at all, but long enough to be one" * 100)
    monkeypatch.setattr(typer, "prompt", lambda *_: "state")
    assert run(["uninstall", "--yes", "--data"]) == 1
    assert "goclaw.db" in capsys.readouterr().err
    assert config.database_path.exists() and list(tmp_path.glob("*.tar.gz")) == []


@pytest.mark.promise("P-uninstall")
def test_of_a_checkout_the_last_word_is_no_command_that_is_gone(
    systemd: FakeSystemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with open_state(load_config().config):
        pass
    checkout = tmp_path / "checkout"
    (checkout / ".tools").mkdir(parents=True)
    (checkout / ".tools" / "lock").touch()
    monkeypatch.setattr("goclaw.program.cli.uninstall.checkout_root", lambda: checkout)
    assert run(["uninstall", "--yes"]) == 0
    told = capsys.readouterr().err
    assert "`goclaw" not in told and f"`rm -r {load_config().config.state_dir}` removes them" in told
