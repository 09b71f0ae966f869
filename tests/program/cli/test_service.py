"""`goclaw service`: a unit that is ours, holds no secret, and goes away as it came."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.program.cli.program import run
from goclaw.program.cli.systemd import MARK
from tests.program.cli.fake_systemd import FakeSystemd

Capture = pytest.CaptureFixture[str]
SECRET = "sk-abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def unit(systemd: FakeSystemd, tmp_path: Path) -> Path:
    """Where the unit belongs."""
    return tmp_path / ".config" / "systemd" / "user" / "goclaw.service"


def setting(unit: Path, name: str) -> str:
    """The value of a key of the unit that stands there once."""
    (value,) = [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{name}=")]
    return value


def test_install_writes_the_unit_and_starts_it(systemd: FakeSystemd, unit: Path, tmp_path: Path) -> None:
    assert run(["service", "install"]) == 0
    assert systemd.calls == ["daemon-reload", "enable --now goclaw.service"]
    assert unit.read_text().startswith(MARK)
    assert setting(unit, "Type") == "notify" and setting(unit, "KillMode") == "mixed"
    assert setting(unit, "RestartPreventExitStatus") == "78"
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    assert setting(unit, "ExecStart") == f"{python} -P -m goclaw gateway"
    assert setting(unit, "Environment") == f"GOCLAW_STATE_DIR={tmp_path / 'state'}"
    assert not unit.with_suffix(".new").exists()


def test_the_unit_names_the_configuration_that_was_named(systemd: FakeSystemd, unit: Path, tmp_path: Path) -> None:
    config = tmp_path / "my 50% $config.yaml"
    config.write_text("log_level: DEBUG\n")
    assert run(["--config", str(config), "service", "install"]) == 0
    assert f'--config "{tmp_path}/my 50%% $$config.yaml" gateway' in setting(unit, "ExecStart")


def test_it_lies_where_xdg_config_home_says(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert run(["service", "install"]) == 0
    assert (tmp_path / "xdg" / "systemd" / "user" / "goclaw.service").exists() and not unit.exists()
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert run(["service", "install"]) == 0
    assert unit.exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("folder", ["state", "a state\\ 50% \"of\" $5 'it'"])
def test_systemd_finds_nothing_wrong_with_the_unit(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / folder))
    assert run(["service", "install"]) == 0
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.promise("P-service")
def test_the_environment_is_not_copied_and_what_the_service_will_miss_is_named(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_API_KEY", "GOCLAW_PROVIDERS__GROQ__API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@proxy:8080")
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "openai_api_key").write_text("another")
    (secrets / "openai_api_key").chmod(0o600)
    systemd.gives(ANTHROPIC_API_KEY="x", PATH="/usr/bin")
    assert run(["service", "install"]) == 0
    said = capsys.readouterr().err
    named = "set in this shell, but invisible to the service: GOCLAW_PROVIDERS__GROQ__API_KEY, HTTPS_PROXY, "
    assert f"{named}OPENROUTER_API_KEY\n" in said
    assert str(secrets) in said and "`goclaw setup`" in said
    assert SECRET not in unit.read_text() + said


def test_without_a_session_it_says_what_to_do(systemd: FakeSystemd, unit: Path, capsys: Capture) -> None:
    systemd.vanishes()
    assert run(["service", "install"]) == 0
    assert unit.exists() and systemd.calls == []
    said = capsys.readouterr().err
    assert "systemctl --user daemon-reload && systemctl --user enable --now goclaw.service" in said
    assert "loginctl enable-linger" in said


def test_without_systemd_nothing_is_written(
    unit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert run(["service", "install"]) == 1
    assert not unit.exists() and "`goclaw start`" in capsys.readouterr().err


def test_a_hint_about_lingering_is_given_where_it_is_off(systemd: FakeSystemd, unit: Path, capsys: Capture) -> None:
    run(["service", "install"])
    assert "loginctl enable-linger" in capsys.readouterr().err
    systemd.lingers()
    run(["service", "install"])
    assert "enable-linger" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["install", "remove"])
@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.promise("P-service")
def test_a_unit_that_is_not_ours_is_left_alone(
    systemd: FakeSystemd, unit: Path, capsys: Capture, command: str, kind: str
) -> None:
    unit.parent.mkdir(parents=True)
    if kind == "file":
        unit.write_text("[Service]\nExecStart=/bin/true\n")
    else:
        unit.symlink_to("/dev/null")
    assert run(["service", command]) == 1
    assert systemd.calls == [] and "not written by GoClaw" in capsys.readouterr().err
    assert unit.is_symlink() if kind == "link" else unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_daemon_that_runs_already_must_be_ended_first(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, capsys: Capture
) -> None:
    with open_state(Config(state_dir=tmp_path / "state")):
        assert run(["service", "install"]) == 1
        said = capsys.readouterr().err
        assert f"pid {os.getpid()}" in said and "`goclaw stop`" in said
        assert systemd.calls == [] and not unit.exists()
        systemd.has(MainPID=os.getpid())
        assert run(["service", "install"]) == 0, "it is the service's own"


def test_installing_again_changes_only_what_is_different(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, capsys: Capture
) -> None:
    run(["service", "install"])
    systemd.has(MainPID=4711)
    assert run(["service", "install"]) == 0
    assert "unchanged" in capsys.readouterr().err
    assert "restart goclaw.service" not in systemd.calls
    (tmp_path / "other.yaml").write_text("")
    assert run(["--config", str(tmp_path / "other.yaml"), "service", "install"]) == 0
    assert systemd.calls[-2:] == ["enable --now goclaw.service", "restart goclaw.service"]


def test_options_that_no_unit_keeps_are_refused(systemd: FakeSystemd, unit: Path, capsys: Capture) -> None:
    assert run(["--set", "limits.tool_calls=5", "service", "install"]) == 2
    assert "--set" in capsys.readouterr().err and not unit.exists()


def test_a_broken_configuration_is_never_installed(systemd: FakeSystemd, unit: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "config.yaml").write_text("workspase: x\n")
    assert run(["service", "install"]) == 78
    assert systemd.calls == [] and not unit.exists()


def test_a_service_that_does_not_start_is_told_with_the_way_out(
    systemd: FakeSystemd, unit: Path, capsys: Capture
) -> None:
    systemd.fails("Job for goclaw.service failed.")
    assert run(["service", "install"]) == 1
    assert "Job for goclaw.service failed." in capsys.readouterr().err
    systemd.works_again()
    assert run(["service", "remove"]) == 0


@pytest.mark.promise("P-service")
def test_remove_takes_away_what_install_brought(systemd: FakeSystemd, unit: Path, tmp_path: Path) -> None:
    run(["service", "install"])
    before = systemd.calls
    assert run(["service", "remove"]) == 0
    assert systemd.calls[len(before) :] == [
        "disable --now goclaw.service",
        "daemon-reload",
        "reset-failed goclaw.service",
    ]
    assert not unit.exists()
    assert run(["service", "remove"]) == 0, "twice is fine"


def test_remove_without_a_session_takes_the_wish_to_start_away_too(systemd: FakeSystemd, unit: Path) -> None:
    run(["service", "install"])
    wishes = unit.parent / "default.target.wants"
    wishes.mkdir()
    (wishes / "goclaw.service").symlink_to(unit)
    (wishes / "other.service").symlink_to("/dev/null")
    systemd.vanishes()
    assert run(["service", "remove"]) == 0
    assert not unit.exists() and [link.name for link in wishes.iterdir()] == ["other.service"]


def test_status_says_how_it_is_and_whether_it_runs(systemd: FakeSystemd, unit: Path, capsys: Capture) -> None:
    assert run(["service", "status"]) == 1
    assert "not installed" in capsys.readouterr().err
    run(["service", "install"])
    systemd.has(
        ActiveState="active",
        SubState="running",
        UnitFileState="enabled",
        MainPID=4711,
        StatusText="Running; event loop late by 1 ms",
        NRestarts=2,
        Result="success",
    )
    assert run(["service", "status"]) == 0
    out = capsys.readouterr().out
    assert "active (running), pid 4711" in out and "Running; event loop late by 1 ms" in out
    systemd.has(ActiveState="failed", SubState="failed", UnitFileState="enabled", MainPID=0, Result="exit-code")
    assert run(["service", "status"]) == 1
    assert "exit-code" in capsys.readouterr().out


def test_status_says_that_a_lingering_user_s_service_starts_with_the_machine(
    systemd: FakeSystemd, unit: Path, capsys: Capture
) -> None:
    systemd.lingers()
    run(["service", "install"])
    assert "starts it when the machine starts" in capsys.readouterr().err
    systemd.has(ActiveState="active", SubState="running", UnitFileState="enabled", MainPID=1)
    run(["service", "status"])
    assert "When the machine starts: started\n" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs a unit of the machine")
@pytest.mark.promise("P-service")
def test_root_installs_a_unit_of_the_machine_that_runs_as_the_owner_of_the_state_folder(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, capsys: Capture
) -> None:
    system_unit = tmp_path / "system" / "goclaw.service"
    (tmp_path / "state").mkdir()
    assert run(["service", "install", "--system"]) == 0
    assert setting(system_unit, "User") == "root" and setting(system_unit, "WantedBy") == "multi-user.target"
    assert not unit.exists()
    assert systemd.calls == ["systemctl daemon-reload", "systemctl enable --now goclaw.service"]
    assert run(["service", "remove"]) == 0, "the only one of ours is meant"
    assert systemd.calls[2] == "systemctl disable --now goclaw.service" and not system_unit.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_an_owner_who_cannot_run_this_installation_is_refused(
    systemd: FakeSystemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 65534, 65534)
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    assert run(["service", "install", "--system"]) == 1
    assert f"who owns {tmp_path / 'state'}, cannot run {python}" in capsys.readouterr().err
    assert systemd.calls == [] and not (tmp_path / "system").exists()


def test_the_journal_is_shown_where_it_has_lines_and_the_log_where_not(
    systemd: FakeSystemd, unit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["service", "install"])
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    (logs / "goclaw.log").write_text('{"event":"of the file"}\n')
    capfd.readouterr()
    assert run(["service", "logs"]) == 0
    assert capfd.readouterr().out == '{"event":"of the file"}\n'
    systemd.writes("of the journal\n")
    assert run(["service", "logs", "-n", "7"]) == 0
    assert capfd.readouterr().out == "of the journal\n"
    assert systemd.journal_calls()[-1] == "journalctl --user-unit goclaw.service --quiet --lines=7 --no-pager"


def test_a_stop_between_a_failure_and_the_next_start_ends_the_service(
    systemd: FakeSystemd, unit: Path, capsys: Capture
) -> None:
    run(["service", "install"])
    systemd.has(ActiveState="activating", SubState="auto-restart", MainPID=0)
    assert run(["stop"]) == 0
    assert systemd.calls[-1] == "stop goclaw.service"
    assert "stopped" in capsys.readouterr().err
