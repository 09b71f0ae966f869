"""The wheel, made and installed by plain pip in an environment of its own, as a user without uv does it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.servers.web.assets import TYPES
from tests.acceptance.daemon import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


def run(command: list[str | Path], folder: Path, **environment: str) -> str:
    """Run a command to its end and return what it printed."""
    given = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment}
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pip_installs_it_from_a_checkout_and_it_answers(tmp_path: Path, pip_settings: dict[str, str]) -> None:
    source = tmp_path / "a checkout"
    wanted = ("pyproject.toml", "README.md", "LICENSE", "goclaw")
    source.mkdir()
    for name in wanted:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, source)
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", source], tmp_path, **pip_settings)
    state = {"GOCLAW_STATE_DIR": str(tmp_path / "state"), "OLLAMA_HOST": "http://127.0.0.1:9"}
    said = run([tmp_path / "venv" / "bin" / "goclaw", "send", "hello"], tmp_path, **state)
    assert "No AI is connected" in said and "You said: hello" in said
    # The web page's files are no modules: they come along only as data of the package.
    look = "from goclaw.servers.web.assets import ASSETS, FOLDER; print(FOLDER, *sorted(ASSETS.names), sep='\\n')"
    folder, *files = run([python, "-P", "-c", look], tmp_path).splitlines()
    assert folder.startswith(str(tmp_path / "venv"))
    there = ROOT / "goclaw" / "web_ui"
    assert files == sorted(path.relative_to(there).as_posix() for path in there.rglob("*") if path.suffix in TYPES)
    assert "index.html" in files


@pytest.fixture
def pip_settings() -> dict[str, str]:
    """Return the variables that lead pip to its index on this machine."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_CERT", "HOME"))}
