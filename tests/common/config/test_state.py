"""One process per state folder, in a private folder outside every workspace."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import (
    LOCK_PAUSE_SECONDS,
    MAX_SOCKET_PATH,
    lock_path,
    make_private,
    open_state,
    running_pid,
)
from goclaw.errors import StateError

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
def config(tmp_path: Path) -> Config:
    return Config(state_dir=tmp_path / "state")


@pytest.mark.promise("P-one-daemon")
def test_a_second_process_is_refused_with_the_pid_of_the_first_until_that_is_killed(config: Config) -> None:
    command = [sys.executable, "-c", HOLD, str(config.state_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        assert running_pid(config) == holder.pid
        with pytest.raises(StateError, match=rf"pid {holder.pid}\).*goclaw stop"), open_state(config):
            pytest.fail("two processes on one state folder")
        holder.kill()
        holder.wait(timeout=10)
        assert running_pid(config) is None
        with open_state(config):
            assert running_pid(config) == os.getpid()
    assert running_pid(config) is None


def test_the_same_process_is_refused_too(config: Config) -> None:
    with open_state(config), pytest.raises(StateError, match=str(os.getpid())), open_state(config):
        pytest.fail("opened twice")


@pytest.mark.parametrize("name", ["state", "state/logs"])
def test_a_state_folder_that_cannot_be_made_is_said_in_words(config: Config, name: str) -> None:
    (config.state_dir.parent / name).parent.mkdir(exist_ok=True)
    (config.state_dir.parent / name).write_text("a file in its place")
    with pytest.raises(StateError, match=r"state: cannot be used as state folder: "):
        make_private(config.state_dir, "logs")


def test_somebody_who_only_looks_keeps_no_daemon_from_starting(config: Config) -> None:
    with open_state(config):
        pass
    looker = os.open(lock_path(config), os.O_RDWR)
    fcntl.flock(looker, fcntl.LOCK_SH)
    Timer(LOCK_PAUSE_SECONDS * 3, os.close, [looker]).start()
    with open_state(config):
        assert running_pid(config) == os.getpid()


@pytest.mark.parametrize("mode", [None, 0o755])
def test_the_folder_is_private(config: Config, mode: int | None) -> None:
    if mode:
        (config.state_dir / "logs").mkdir(parents=True)
        config.state_dir.chmod(mode)
    with open_state(config):
        assert stat.S_IMODE(config.state_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE(lock_path(config).stat().st_mode) == 0o600


def test_a_folder_that_holds_other_things_keeps_its_mode(config: Config) -> None:
    config.state_dir.mkdir()
    config.state_dir.chmod(0o755)
    (config.state_dir / "thesis.txt").write_text("x")
    with open_state(config):
        assert stat.S_IMODE(config.state_dir.stat().st_mode) == 0o755


@pytest.mark.parametrize("state", ["work", "work/state", "link/state"])
def test_a_state_folder_inside_the_workspace_is_refused(tmp_path: Path, state: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    config = Config(state_dir=tmp_path / state, workspace=tmp_path / "work")
    with pytest.raises(StateError, match="inside the workspace"), open_state(config):
        pytest.fail("opened")


def test_a_path_too_long_for_a_socket_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / ("x" * MAX_SOCKET_PATH))
    with pytest.raises(StateError, match="too long for a socket"), open_state(config):
        pytest.fail("opened")
    assert not config.state_dir.exists()


@pytest.mark.parametrize("kind", ["file", "link as lock"])
def test_a_folder_that_cannot_be_used_is_refused_in_words(config: Config, kind: str) -> None:
    if kind == "file":
        config.state_dir.write_text("")
    else:
        config.state_dir.mkdir()
        lock_path(config).symlink_to("/etc/passwd")
    with pytest.raises(StateError, match="cannot be used as state folder"), open_state(config):
        pytest.fail("opened")
