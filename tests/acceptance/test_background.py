"""A daemon in the background: started and restarted with words, and the same one again."""

import asyncio
import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.acceptance.daemon import ROOT, START_SECONDS, Installation

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def bare(folder: Path) -> AsyncIterator[Installation]:
    """No configuration at all; whatever runs at the end is ended. `goclaw start` starts each daemon from nothing."""
    made = Installation(folder, forks=True)
    yield made
    await made.run("stop")


def pid_of(home: Installation) -> int:
    """The daemon that holds the state folder, as the folder says."""
    return int((home.state / "goclaw.lock").read_text())


def daemons_of(home: Installation) -> set[int]:
    """The pids of all processes that are, or start as, a daemon of `home`."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline()[-1:] == ["gateway"] and str(home.folder) in str(process.environ()):
                found.add(process.pid)
    return found


def logs_of(home: Installation) -> tuple[str, str]:
    """The log, and what the daemon printed."""
    return (home.state / "logs" / "goclaw.log").read_text(), (home.state / "logs" / "daemon.out").read_text()


async def test_start_says_what_stays_and_logs_go_to_the_rotated_file_alone(bare: Installation) -> None:
    began = await bare.run("start")
    assert began.code == 0 and began.out == ""
    pid = pid_of(bare)
    assert f"running in the background (pid {pid})" in began.err
    for words in ("`goclaw stop`", "`goclaw send TEXT`", "`goclaw logs -f`", str(bare.state / "logs" / "goclaw.log")):
        assert words in began.err
    again = await bare.run("start")
    assert again.code == 0 and f"already running (pid {pid})" in again.err
    assert (await bare.run("send", "hello")).code == 0
    assert psutil.Process(pid).terminal() is None, "no terminal can take it along"
    stopped = await bare.run("stop")
    assert stopped.code == 0 and f"stopped (pid {pid})" in stopped.err
    assert (await bare.run("status")).code == 1
    # Ordinary lines are written together, the last ones at the end.
    log, printed = logs_of(bare)
    assert "turn answered in" in log and "turn answered in" not in printed
    assert "GoClaw is running." in printed
    files = list((bare.state / "logs").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_of_two_starts_at_once_both_are_right(bare: Installation) -> None:
    both = await asyncio.gather(bare.run("start"), bare.run("start"))
    assert [(ran.code, f"(pid {pid_of(bare)})" in ran.err) for ran in both] == [(0, True), (0, True)], both
    assert daemons_of(bare) == {pid_of(bare)}, "a second one would take the folder once the first is stopped"


@pytest.mark.long
async def test_a_restart_keeps_the_configuration_and_the_options(bare: Installation, folder: Path) -> None:
    elsewhere = folder / "elsewhere.yaml"
    elsewhere.write_text("models:\n  agent: demo\nlimits:\n  tool_calls: 7\n")
    bare.environment = {"OPENROUTER_API_KEY": "sk-0123456789abcdef0123"}
    begun = await bare.run("--config", str(elsewhere), "--set", "log_level=DEBUG", "restart")
    assert begun.code == 0 and "it was not running; now running in the background" in begun.err
    before = pid_of(bare)
    bare.environment = {}
    again = await bare.run("restart")
    assert again.code == 0 and pid_of(bare) != before
    assert "warning: OPENROUTER_API_KEY was set when the daemon was started" in again.err
    words = psutil.Process(pid_of(bare)).cmdline()
    assert ["--config", str(elsewhere), "--set", "log_level=DEBUG"] == words[words.index("--config") : -1]
    assert (await bare.run("--set", "log_level=WARNING", "restart")).code == 0
    before = pid_of(bare)
    words = psutil.Process(before).cmdline()
    assert ["--config", str(elsewhere), "--set", "log_level=WARNING"] == words[words.index("--config") : -1]
    assert b"sk-0123456789" not in (bare.state / "daemon.json").read_bytes()

    elsewhere.write_text("log_levle: INFO\n")
    refused = await bare.run("restart")
    assert refused.code == 78 and "log_levle: unknown key" in refused.err
    assert pid_of(bare) == before and (await bare.run("status")).code == 0, "what broke meanwhile ends nothing"


async def test_a_daemon_that_cannot_start_says_why(bare: Installation) -> None:
    bare.environment = {"GOCLAW_STATE_DIR": str(bare.folder / ("x" * 100))}
    refused = await bare.run("start")
    assert refused.code == 1 and "the daemon did not start:" in refused.err and "too long for a socket" in refused.err
    bare.environment = {}


@pytest.mark.promise("P-exec-contained")
async def test_no_module_of_the_folder_where_somebody_stands_is_taken(bare: Installation, folder: Path) -> None:
    """That folder may be the workspace, where the agent writes."""
    here = folder / "here"
    here.mkdir()
    (here / "orjson.py").write_text("open('taken', 'w')\nraise SystemExit(7)\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "goclaw", "start"),
        env={**environment, "GOCLAW_STATE_DIR": str(bare.state), "OLLAMA_HOST": "http://127.0.0.1:9"},
        cwd=here,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(START_SECONDS):
        _, said = await process.communicate()
    assert re.search(rb"running in the background \(pid \d+\)", said), said
    assert not (here / "taken").exists()
