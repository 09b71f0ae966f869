"""`goclaw open`: where a file of the workspace is, shown only where that lets nothing act."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run

ACTING = ("page.html", "drawing.svg", "run.sh", "tool.desktop", "app.exe", "plain")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a workspace, and a browser that writes down what it is started with."""
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "work" / "out").mkdir(parents=True)
    (tmp_path / "work" / "out" / "sales.csv").write_text("May,3\n")
    given = {"state_dir": str(tmp_path / "state"), "workspace": str(tmp_path / "work")}
    (tmp_path / "config.yaml").write_text(json.dumps(given))
    (tmp_path / "state" / "users.json").write_text(json.dumps({"users": {"tui:bob": {"workspace": "own"}}}))
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/started\n')
    browser.chmod(0o700)
    monkeypatch.setenv("GOCLAW_CONFIG", str(tmp_path / "config.yaml"))
    for name in ("GOCLAW_STATE_DIR", "GOCLAW_WORKSPACE", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    return tmp_path


def started(home: Path) -> str:
    path = home / "started"
    return path.read_text() if path.exists() else ""


def test_a_document_is_shown_and_its_place_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["open", "out/sales.csv"]) == 0
    assert capsys.readouterr().out.strip() == str(home / "work" / "out" / "sales.csv")
    assert started(home).strip() == (home / "work" / "out" / "sales.csv").as_uri()


def test_without_a_screen_or_on_request_it_is_only_printed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["open", "--no-open", "out/sales.csv"]) == 0
    monkeypatch.delenv("BROWSER")
    assert run(["open", "out/sales.csv"]) == 0
    assert capsys.readouterr().out.count("sales.csv") == 2 and started(home) == ""


@pytest.mark.parametrize("name", ACTING)
def test_what_could_act_is_never_opened(home: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "work" / name).write_text("<script>")
    assert run(["open", name]) == 0
    said = capsys.readouterr()
    assert said.out.strip().endswith(name) and "is not opened from here" in said.err
    assert started(home) == ""


@pytest.mark.parametrize(
    "path", ["../config.yaml", "/etc/passwd", "link.txt", "out", "missing.csv", "state/users.json"]
)
def test_nothing_outside_the_workspace_is_found(home: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "work" / "link.txt").symlink_to(home / "config.yaml")
    (home / "work" / "state").symlink_to(home / "state")
    assert run(["open", path]) == 1
    assert capsys.readouterr().out == "" and started(home) == ""


def test_each_person_has_their_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = home / "state" / "people" / "tui.bob"
    own.mkdir(parents=True)
    (own / "plan.txt").write_text("x")
    assert run(["open", "--user", "tui:bob", "plan.txt"]) == 0
    assert capsys.readouterr().out.strip() == str(own / "plan.txt")
    assert run(["open", "plan.txt"]) == 1
