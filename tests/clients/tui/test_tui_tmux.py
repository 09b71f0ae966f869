"""The whole program in a real terminal, before a real daemon."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from goclaw.common.net import LOOPBACK_ONLY

PATIENCE = 20.0

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Pane:
    """A terminal of 80x24 in a tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GOCLAW_STATE_DIR": str(folder / "state"),
            LOOPBACK_ONLY: "1",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.stdout

    def type(self, text: str, *keys: str) -> None:
        self.tmux("send-keys", "-l", text)
        for key in keys:
            self.tmux("send-keys", key)

    def until(self, found: Callable[[str], bool], key: str = "") -> str:
        """What is on the screen when it is `found`; `key` is pressed until then."""
        deadline = time.monotonic() + PATIENCE
        while not found(screen := self.tmux("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            if key:
                self.tmux("send-keys", key)
        return screen

    def rest(self) -> None:
        """Keep the eyes where they are until the clock of the turn, at the bottom, went on twice."""
        for _ in range(2):
            shown = self.until(lambda screen: "● connected" in screen).splitlines()[-1]
            self.until(partial(_ends_otherwise, shown))

    def read_approval(self) -> str:
        """Look at the whole of one that is longer than the screen; what was on it when its beginning was."""
        self.until(lambda screen: " n  Deny" in screen)
        self.rest()
        self.until(lambda screen: "? The agent wants to write" in screen, "PageUp")
        self.rest()
        begun = self.until(lambda screen: "scroll through all of it" in screen)
        self.until(lambda screen: " n  Deny" in screen, "PageDown")
        self.until(lambda screen: "─ The agent wants to write `a.txt` · y allow" in screen)
        return begun


def _ends_otherwise(line: str, screen: str) -> bool:
    return screen.splitlines()[-1] != line


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    opened = Pane(tmp_path)
    yield opened
    opened.tmux("kill-server")


def goclaw(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "goclaw", *arguments])


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_from_an_empty_folder_to_an_answer_through_a_restart_and_out_again(pane: Pane) -> None:
    pane.type(goclaw(), "Enter")
    try:
        pane.until(lambda screen: "● connected" in screen and "Write a message" in screen)
        pane.type("hello there", "Enter")
        pane.until(lambda screen: "You said: hello there" in screen)
        pane.tmux("split-window", "-d", goclaw("restart"))
        pane.until(lambda screen: "reconnecting" in screen)
        pane.until(lambda screen: "● connected" in screen)
        pane.type("/status", "Escape")
        pane.tmux("send-keys", "Enter")
        pane.until(lambda screen: "Searched: " in screen)
        pane.tmux("send-keys", "C-c")
        pane.until(lambda screen: "Ctrl+C again" in screen)
        pane.tmux("send-keys", "C-c")
        pane.until(lambda screen: "GoClaw keeps running in the background" in screen and "`goclaw stop`" in screen)
    finally:
        pane.type(f"clear; {goclaw('stop')}; echo end=$?", "Enter")
        pane.until(lambda screen: "end=0" in screen)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_call_waits_for_a_letter_over_a_restart_and_runs_once_it_is_allowed(pane: Pane, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy:\n  stricter:\n    medium: ask\n")
    given = ["--config", str(config)]
    pane.type(goclaw(*given), "Enter")
    try:
        pane.until(lambda screen: "● connected" in screen and "Write a message" in screen)
        pane.type("please", "C-j")
        lines = r"as allowed\n" * 8  # longer than the screen with its question
        pane.type(f'/tool write {{"path": "a.txt", "content": "{lines}"}}', "Enter")
        pane.until(lambda screen: "scroll through all of it to answer with a key" in screen)
        pane.read_approval()
        pane.tmux("split-window", "-d", goclaw(*given, "restart"))
        pane.until(lambda screen: "reconnecting" in screen)
        pane.until(lambda screen: "● connected" in screen and " n  Deny" in screen)
        seen = pane.read_approval()
        assert seen.count("agent wants to write") == 1, seen
        assert not list(tmp_path.rglob("a.txt"))
        pane.type("y")
        pane.until(lambda screen: "✓ The agent wants to write `a.txt`  allowed" in screen)
        pane.until(lambda screen: "✓ write" in screen)
        assert [path.read_text() for path in tmp_path.rglob("a.txt")] == ["as allowed\n" * 8]
    finally:
        pane.tmux("send-keys", "C-q")
        pane.until(lambda screen: "GoClaw keeps running in the background" in screen)
        pane.type(f"clear; {goclaw(*given, 'stop')}; echo end=$?", "Enter")
        pane.until(lambda screen: "end=0" in screen)
