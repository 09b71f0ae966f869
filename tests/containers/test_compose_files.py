"""Docker Compose accepts our files, in every profile."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.containers.compose import find_compose
from tests.containers.engine import ROOT

FILES = ("docker-compose.yml", "deploy/replicas/docker-compose.yml")
SECONDS = 30


def profiles(file: str) -> list[str]:
    """Return `*` (all of them), none, and each profile by itself."""
    services = yaml.safe_load((ROOT / file).read_text())["services"].values()
    return ["*", "", *sorted({name for service in services for name in service.get("profiles", ())})]


@pytest.mark.parametrize(("file", "profile"), [(file, profile) for file in FILES for profile in profiles(file)])
def test_compose_accepts_the_file(file: str, profile: str) -> None:
    done = _config(ROOT / file, profile)
    assert done.returncode == 0, done.stderr
    gateway = yaml.safe_load(done.stdout)["services"]["gateway"]
    assert gateway["deploy"]["resources"]["limits"] == {"memory": str(2 << 30), "pids": 512}


def test_compose_refuses_a_limit_that_is_said_twice(tmp_path: Path) -> None:
    """The check above would notice: the previous file once, with `pids_limit` beside the limits."""
    file = tmp_path / "docker-compose.yml"
    text = (ROOT / FILES[0]).read_text().replace("    tmpfs: [/tmp]\n", "    tmpfs: [/tmp]\n    pids_limit: 100\n", 1)
    file.write_text(text)
    assert "distinct values" in _config(file, "").stderr


def _config(file: Path, profile: str) -> subprocess.CompletedProcess[str]:
    compose = find_compose()
    if compose is None:
        pytest.skip("no Docker Compose 2 on this machine; `scripts/test --containers` downloads one")
    chosen = ["--profile", profile] if profile else []
    command = [str(compose), "--file", str(file), *chosen, "config"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
