"""The command line as a person meets it: help, exit codes, one line for each thing that went wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goclaw import __version__
from goclaw.errors import ConfigError, GoclawError, StateError
from goclaw.program.cli import frame
from goclaw.program.cli.frame import COMMANDS, load_command
from goclaw.program.cli.program import run
from tests import house
from tests.forked import run_goclaw

Run = Callable[..., subprocess.CompletedProcess[str]]
CONTRACT = "gateway tui send status stop restart logs doctor config users tool version"


@pytest.fixture
def goclaw(tmp_path: Path) -> Run:
    """Runs the program in a process of its own, with a state folder of its own; with PYTHONPATH, started anew."""

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        fixed = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "GOCLAW_STATE_DIR": str(tmp_path / "state"),
            "PYTHONPATH": str(house.ROOT),
        }
        done = run_goclaw(arguments, fixed | env, tmp_path, seconds=30, cold="PYTHONPATH" in env)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


def test_help_lists_every_command_of_the_contract_with_a_line_each(goclaw: Run) -> None:
    done = goclaw("--help")
    assert done.returncode == 0
    listed = done.stdout.partition("Commands:\n")[2].splitlines()
    names = [line.split()[0] for line in listed]
    assert names == list(COMMANDS)
    assert set(CONTRACT.split()) <= set(names)
    assert all(len(line.split()) > 2 for line in listed)
    assert [line for line in listed if line.endswith("...")] == [], "every line is whole in a terminal of 80 columns"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom goclaw.program.cli.program import run\nrun(['--help'])\n"
        "heavy = {'pydantic', 'asyncio', 'yaml', 'structlog', 'aiohttp', 'sqlalchemy', 'rich', 'textual'}\n"
        "sys.exit(f'imported: {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_begins_the_help_of_the_command(name: str) -> None:
    path, line = COMMANDS[name]
    assert (load_command(path).help or "").startswith(line)


def test_version_prints_the_version(goclaw: Run) -> None:
    assert goclaw("version").stdout == goclaw("--version").stdout == f"goclaw {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statsu"], ["No such command 'statsu'", "'status'"]),
        (["--nope"], ["No such option", "--nope"]),
        (["users", "add"], ["Missing argument", "key"]),
        (["--set", "x", "version"], ["KEY=VALUE"]),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(goclaw: Run, arguments: list[str], words: list[str]) -> None:
    done = goclaw(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("goclaw: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.promise("P-config-errors")
@pytest.mark.parametrize("position", ["before", "after", "variable", "folder"])
def test_a_broken_configuration_is_a_line_each_exit_code_78_and_no_traceback(
    goclaw: Run, tmp_path: Path, position: str
) -> None:
    file = tmp_path / "state" / "config.yaml" if position == "folder" else tmp_path / "my.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("telegram:\n  tokne: x\nhttp:\n  port: no\n")
    match position:
        case "before":
            done = goclaw("--config", str(file), "config", "check")
        case "after":
            done = goclaw("config", "check", f"--config={file}")
        case "variable":
            done = goclaw("config", "check", GOCLAW_CONFIG=str(file))
        case _:
            done = goclaw("config", "check")
    assert done.returncode == 78
    name = file.relative_to(tmp_path)
    assert done.stderr.splitlines() == [
        f"goclaw: {name}:2:3: telegram.tokne: unknown key; did you mean `token`?",
        f"goclaw: {name}:4:3: http.port: should be a whole number",
    ]


def test_overrides_and_options_reach_the_configuration(goclaw: Run) -> None:
    done = goclaw("--set", "http.port=5", "--set", "models.agent=demo,x:y", "config", "show")
    assert "  port: 5  # command line\n" in done.stdout
    assert '  agent: ["demo", "x:y"]  # command line\n' in done.stdout


def test_a_secret_is_not_shown(goclaw: Run) -> None:
    done = goclaw("config", "show", TELEGRAM_BOT_TOKEN="123456:not-to-be-shown")
    assert "not-to-be-shown" not in done.stdout
    assert 'token: "********"  # env TELEGRAM_BOT_TOKEN' in done.stdout


def test_the_schema_is_json(goclaw: Run) -> None:
    assert json.loads(goclaw("config", "schema").stdout)["properties"]["telegram"]
    assert json.loads(goclaw("config", "openapi").stdout)["paths"]["/sessions"]


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (StateError("taken\nby another"), 1, ["goclaw: taken", "goclaw: by another"]),
        (ConfigError("a: b", "c: d"), 78, ["goclaw: a: b", "goclaw: c: d"]),
        (ExceptionGroup("tasks", [GoclawError("one"), ExceptionGroup("more", [StateError("two")])]), 1, None),
        (GoclawError("key sk-0123456789abcdef0123"), 1, ["goclaw: key [secret]"]),
        (KeyboardInterrupt(), 130, []),
    ],
)
def test_every_error_of_ours_is_said_in_lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    lines: list[str] | None,
) -> None:
    def fail(path: str) -> object:
        raise error

    monkeypatch.setattr(frame, "load_command", fail)
    assert run(["version"]) == code
    assert capsys.readouterr().err.splitlines() == (["goclaw: one", "goclaw: two"] if lines is None else lines)


def test_a_mistake_of_ours_is_one_line_and_a_file_with_the_traceback(goclaw: Run, tmp_path: Path) -> None:
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        "import goclaw.program.cli.frame as frame\n"
        "def fail(path): raise KeyError('sk-0123456789abcdef0123')\n"
        "frame.load_command = fail\n"
    )
    path = f"{tmp_path}{os.pathsep}{house.ROOT}"
    done = goclaw("version", PYTHONPATH=path)
    log = tmp_path / "state" / "logs" / "crash.log"
    assert done.returncode == 1
    assert done.stderr == f"goclaw: unexpected error: KeyError: '[secret]'; details in {log}\n"
    assert "Traceback" in log.read_text()
    assert "sk-" not in log.read_text()
    assert "Traceback" in goclaw("--debug", "version", PYTHONPATH=path).stderr
