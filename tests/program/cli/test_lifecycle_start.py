"""`goclaw start` and `goclaw restart` where systemd has a part in it. The daemon itself: tests/acceptance."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.program.cli.fake_systemd import FakeSystemd

Capture = pytest.CaptureFixture[str]
Daemon = subprocess.Popen[str]
HOLD = """
import sys
from pathlib import Path
from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state

with open_state(Config(state_dir=Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def daemon(systemd: FakeSystemd, tmp_path: Path) -> Iterator[Daemon]:
    """A process that holds the state folder as a daemon does, and ends when it is told to."""
    state = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        (state / "goclaw.sock").touch()
        yield process
        process.kill()


def test_where_systemd_has_the_daemon_it_starts_it(systemd: FakeSystemd, capsys: Capture) -> None:
    run(["service", "install"])
    before = systemd.calls
    assert run(["start"]) == 0
    assert systemd.calls[len(before) :] == ["start goclaw.service"]
    systemd.fails("Job for goclaw.service failed.")
    assert run(["start"]) == 1
    assert "Job for goclaw.service failed." in capsys.readouterr().err


def test_a_daemon_that_runs_is_no_error(systemd: FakeSystemd, daemon: Daemon, capsys: Capture) -> None:
    assert run(["start"]) == 0
    said = capsys.readouterr().err
    assert f"already running (pid {daemon.pid})" in said
    assert "`goclaw stop`" in said and "`goclaw logs -f`" in said and "`goclaw send TEXT`" in said
    assert systemd.calls == []


def test_the_daemon_of_the_service_is_restarted_by_systemd(
    systemd: FakeSystemd, daemon: Daemon, capsys: Capture
) -> None:
    systemd.has(MainPID=daemon.pid)
    run(["service", "install"])
    before = systemd.calls
    assert run(["restart"]) == 0
    assert systemd.calls[len(before) :] == ["restart goclaw.service"]
    assert run(["start"]) == 0
    assert "systemd runs it" in capsys.readouterr().err


def test_options_for_the_daemon_of_the_service_are_refused_in_words(
    systemd: FakeSystemd, daemon: Daemon, capsys: Capture
) -> None:
    systemd.has(MainPID=daemon.pid)
    run(["service", "install"])
    before = systemd.calls
    assert run(["--set", "limits.tool_calls=5", "restart"]) == 1
    assert "`goclaw service install`" in capsys.readouterr().err
    assert systemd.calls == before


@pytest.mark.parametrize("command", ["start", "restart"])
def test_a_secret_among_the_options_is_refused_before_anything_ends(
    systemd: FakeSystemd, daemon: Daemon, capsys: Capture, tmp_path: Path, command: str
) -> None:
    if command == "start":
        (tmp_path / "state" / "goclaw.sock").unlink()
    secret = '{"groq": {"api_key": "sk-abcdefghijklmnopqrstuvwxyz"}}'
    assert run(["--set", f"providers={secret}", command]) == 1
    said = capsys.readouterr().err
    assert "providers.groq.api_key: is a secret" in said and "sk-" not in said
    assert daemon.poll() is None
