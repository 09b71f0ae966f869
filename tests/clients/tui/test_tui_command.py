"""What `goclaw` and `goclaw tui` load, and their last line."""

import os
import subprocess
import sys
from pathlib import Path

from goclaw.program.cli.tui import goodbye

LIGHT = [
    "goclaw.program.cli.lifecycle",
    "goclaw.program.cli.tui",
    "goclaw.program.cli.send",
    "goclaw.clients.tui.plain",
    "goclaw.program.app",
]


LOOK = """
import sys, importlib
for module in sys.argv[1:]:
    importlib.import_module(module)
    if 'textual' in sys.modules:
        sys.exit(f'{module} imports textual')
"""


def test_only_the_full_client_imports_textual() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *LIGHT], stderr=subprocess.PIPE, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_last_line_says_how_to_come_back_and_how_to_end_the_daemon() -> None:
    assert "`goclaw tui`" in goodbye() and "`goclaw stop`" in goodbye()
    assert "`goclaw tui --session tui:other`" in goodbye("tui:other")
    assert "The daemon is not running" in goodbye(runs=False)


def test_a_list_to_pick_from_is_not_promised_where_there_is_none(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "goclaw", "tui", "--pick", "--plain"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GOCLAW_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 1 and "--pick needs the full client in a terminal" in ran.stderr
