"""`goclaw upgrade`: what it refuses, and the daemon as systemd runs it. Upgrades themselves are in `acceptance`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.state import UPGRADE_JOURNAL, open_state
from goclaw.errors import StateError
from goclaw.program.cli.base import Options
from goclaw.program.cli.daemon import serve
from goclaw.program.cli.program import run
from goclaw.program.cli.systemd import Manager
from goclaw.program.cli.upgrade import RunningDaemon
from goclaw.program.ops.upgrade import journal
from goclaw.program.ops.upgrade.journal import Journal, Phase
from tests.house import ROOT
from tests.program.cli.fake_systemd import FakeSystemd

Capture = pytest.CaptureFixture[str]
HOME = Path(sys.prefix)


@pytest.fixture
def service(systemd: FakeSystemd) -> Iterator[Loaded]:
    """A configuration whose daemon, which is this process, is run by systemd, and listens."""
    loaded = load_config()
    Manager.USER.unit_path.parent.mkdir(parents=True)
    Manager.USER.unit_path.write_text(Manager.USER.unit_text(loaded))
    systemd.has(MainPID=os.getpid(), ActiveState="active")
    with open_state(loaded.config):
        loaded.config.socket_path.touch()
        yield loaded


def test_a_daemon_of_systemd_is_ended_and_started_by_it(systemd: FakeSystemd, service: Loaded) -> None:
    daemon = RunningDaemon(service, Options(), HOME)
    assert daemon.ran
    daemon.drain()
    daemon.start()
    assert systemd.calls == ["stop goclaw.service", "start goclaw.service"]


def test_a_unit_that_fails_is_the_failure_of_the_start(systemd: FakeSystemd, service: Loaded) -> None:
    daemon = RunningDaemon(service, Options(), HOME)
    systemd.fails("Job for goclaw.service failed.")
    with pytest.raises(StateError, match=r"Job for goclaw\.service failed"):
        daemon.start()


HOLD = """
from goclaw.common.config.load import load_config
from goclaw.common.config.state import open_state
with open_state(load_config().config):
    print("ready", flush=True)
    input()
"""


def test_a_daemon_of_another_installation_is_refused_with_its_place(systemd: FakeSystemd, tmp_path: Path) -> None:
    # By its whole path, as every daemon that stays is started.
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        with pytest.raises(StateError, match=f"runs from another installation, .*; this one is {tmp_path}"):
            RunningDaemon(load_config(), Options(), tmp_path)
        assert RunningDaemon(load_config(), Options(), HOME).ran
        other.communicate("\n")


def test_beside_postgres_it_says_how_it_is_done_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("GOCLAW_STORE", "postgresql://ann@localhost/goclaw")
    assert run(["upgrade"]) == 1
    assert "`store` names a Postgres" in capsys.readouterr().err


def test_an_editable_install_for_developers_is_refused_with_the_way(systemd: FakeSystemd, capsys: Capture) -> None:
    assert run(["upgrade", "--check"]) == 1
    said = capsys.readouterr().err
    assert "is an editable install" in said and "`git pull` there" in said


def test_a_command_ends_an_upgrade_that_was_cut(systemd: FakeSystemd, tmp_path: Path, capsys: Capture) -> None:
    config = load_config().config
    with open_state(config):
        found = Journal(Phase.PREPARING, "0.1.0", "0.2.0", tmp_path / "venv", tmp_path / "beside", (1, 1))
        (tmp_path / "beside").mkdir()
        journal.write(config.state_dir, found)
    assert run(["status"]) == 1
    assert "removed the files of an interrupted upgrade to 0.2.0" in capsys.readouterr().err
    assert not (config.state_dir / UPGRADE_JOURNAL).exists() and not (tmp_path / "beside").exists()


async def test_a_daemon_whose_upgrade_was_undone_before_it_had_the_folder_does_not_run(systemd: FakeSystemd) -> None:
    with pytest.raises(StateError, match="was undone in the meantime"):
        await serve(load_config(), is_tried=True)
    assert not load_config().config.database_path.exists()
