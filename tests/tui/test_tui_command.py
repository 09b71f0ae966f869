"""What `goclaw` and `goclaw tui` load, and their last line."""

import subprocess
import sys

import pytest

from goclaw.cli.home import goodbye

LIGHT = ["goclaw.cli.home", "goclaw.cli.tui", "goclaw.cli.send", "goclaw.tui.plain", "goclaw.app"]


@pytest.mark.parametrize("module", LIGHT)
def test_only_the_full_client_imports_textual(module: str) -> None:
    code = f"import sys, {module}; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


def test_the_last_line_says_how_to_come_back_and_how_to_end_the_daemon() -> None:
    assert "`goclaw tui`" in goodbye() and "`goclaw stop`" in goodbye()
    assert "`goclaw tui --session tui:other`" in goodbye("tui:other")
    assert "No daemon runs" in goodbye(runs=False)
