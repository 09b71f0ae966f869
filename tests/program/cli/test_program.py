"""The daemon's command line, read without the library that reads all others."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from goclaw.program.cli import frame, lifecycle
from goclaw.program.cli.base import COMPLETING, Options
from goclaw.program.cli.program import daemon_options
from tests import house


@pytest.mark.parametrize(
    "arguments",
    [
        ["gateway"],
        ["--config", "my.yaml", "gateway"],
        ["gateway", "--config=my.yaml"],
        ["--config", "first.yaml", "gateway", "--debug", "--config", "last=.yaml"],
        ["--debug", "--set", "http.port=5", "--set=agent.name = a=b ", "gateway"],
        ["--set", "a=", "--set", "a=2", "gateway"],
        ["--config", "gateway", "gateway"],
    ],
)
def test_options_of_the_daemon_are_those_that_the_library_reads(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Options] = []
    monkeypatch.setattr(lifecycle, "run_gateway", read.append)
    assert frame.run_command(arguments) == 0
    assert [daemon_options(arguments)] == read


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["status"],
        ["--help"],
        ["gateway", "--help"],
        ["gateway", "gateway"],
        ["gateway", "--set", "a=b"],
        ["gateway", "--config"],
        ["--config", "", "gateway"],
        ["--config", "--debug", "gateway"],
        ["--set", "x", "gateway"],
        ["--set", "=x", "gateway"],
        ["--debug=yes", "gateway"],
        ["--", "gateway"],
    ],
)
def test_help_mistakes_and_other_commands_are_left_to_the_library(arguments: Sequence[str]) -> None:
    assert daemon_options(arguments) is None


def test_a_shell_that_asks_for_completions_starts_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETING, "complete_bash")
    assert daemon_options(["gateway"]) is None


GATEWAY = """
import sys
from goclaw.program.cli.program import run
code = run(["--config", sys.argv[1], "gateway"])
import goclaw.program.cli.daemon, goclaw.program.cli.loop, goclaw.program.cli.serving
print(code, *({"typer", "click", "shellingham"} & {name.partition(".")[0] for name in sys.modules}))
"""


def test_the_daemon_has_no_library_for_command_lines(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("http:\n  port: no\n")
    command = [sys.executable, "-c", GATEWAY, "my.yaml"]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(house.ROOT)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    expected = ("78\n", "goclaw: my.yaml:2:3: http.port: should be a whole number\n")
    assert (done.stdout, done.stderr) == expected
