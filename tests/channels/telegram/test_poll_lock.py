"""One poller per bot on a machine, and no lock that outlives who held it."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.channels.telegram.poll_lock import BotInUse, only_poller

HERE = Path("/home/ann/.goclaw")
HOLDER = """
import sys, time
from pathlib import Path
from goclaw.channels.telegram.poll_lock import only_poller
with only_poller("42:x", "http://bot.example", Path("/home/bob/.goclaw")):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's runtime folder, and no other."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def test_whoever_comes_second_learns_who_holds_it() -> None:
    with only_poller("42:x", "http://bot.example", HERE):
        with (
            pytest.raises(BotInUse, match=rf"another GoClaw \(pid {os.getpid()}, /home/ann/.goclaw\)"),
            only_poller("42:x", "http://bot.example/", Path("/elsewhere")),
        ):
            pass
        with only_poller("42:y", "http://bot.example", HERE), only_poller("42:x", "http://other.example", HERE):
            pass  # other bots
    with only_poller("42:x", "http://bot.example", HERE):
        pass


def test_a_kill_leaves_no_lock_behind(runtime: Path) -> None:
    environment = dict(os.environ, TMPDIR=str(runtime / "temporary"))
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(BotInUse, match=rf"pid {holder.pid}, /home/bob"),
            only_poller("42:x", "http://bot.example", HERE),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)
    with only_poller("42:x", "http://bot.example", HERE):
        assert len(list(runtime.glob("*.lock"))) == 1
    assert list(runtime.rglob("*.lock")) == [], "nothing is left lying about"


def test_the_files_are_private_and_do_not_hold_the_token(runtime: Path) -> None:
    with only_poller("42:secret-part", "http://bot.example", HERE):
        for path in runtime.rglob("*.lock"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert "secret-part" not in path.name + path.read_text()


def test_a_folder_that_others_may_write_to_is_not_used(runtime: Path) -> None:
    runtime.chmod(0o777)
    with only_poller("42:x", "http://bot.example", HERE):
        assert list(runtime.glob("*.lock")) == []


def test_without_any_folder_it_goes_on_without_a_lock(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / "missing" / "deep"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(runtime / "missing"))
    with only_poller("42:x", "http://bot.example", HERE):
        pass


def test_without_a_temporary_folder_the_runtime_folder_alone_holds_it(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with only_poller("42:x", "http://bot.example", HERE):
        assert len(list(runtime.glob("*.lock"))) == 1
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with only_poller("42:x", "http://bot.example", HERE):
        assert list(runtime.rglob("*.lock")) == []
