"""The wheel, made and installed as users do it, in environments of its own outside the checkout."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import yaml

from goclaw.gateway.servers.web.assets import TYPES
from tests.acceptance.daemon import ROOT, RUNNING
from tests.acceptance.image import find_uv, packages
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sqlite("what is installed has the store of its own settings"),
    pytest.mark.timeout(900),
]

PYTHONS = ("3.11", "3.12", "3.13")
"""Versions on which the wheel is installed for real, where this machine has them."""
RESOLVED = (*PYTHONS, "3.14")
"""Versions for which every dependency has wheels."""
RUN_SECONDS = 500
START_SECONDS = 40
EXTRAS = sorted(set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - {"dev"})


@dataclass(frozen=True)
class Installed:
    """A program that was installed, and a folder in which it lives."""

    program: Path
    folder: Path

    def run(self, *arguments: str) -> str:
        """Return what a command prints; it must succeed."""
        return run([self.program, *arguments], self.folder, **self.environment())

    def environment(self) -> dict[str, str]:
        """Nothing of the checkout, no key and no Ollama of this machine."""
        return {"GOCLAW_STATE_DIR": str(self.folder / "state"), "OLLAMA_HOST": "http://127.0.0.1:9"}


def run(command: list[str | Path], folder: Path, **environment: str) -> str:
    """Run a command to its end and return what it printed."""
    given = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment}
    done = subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tracked(*places: str) -> list[str]:
    """Return the files below these places that git knows and that are there."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", *places]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh checkout, as far as a build reads it, in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("install") / "a checkout"
    for name in tracked("pyproject.toml", "README.md", "LICENSE", "goclaw"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """The wheel, made from the source distribution, without any download."""
    out = source.parent / "dist"
    run([find_uv(), "build", "--quiet", "--offline", "--out-dir", out, source], source.parent)
    (made,) = out.glob("*.whl")
    return made


@pytest.mark.promise("P-installs")
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    metadata = sorted(name.partition("/")[2] for name in names if name.partition("/")[0].endswith(".dist-info"))
    assert sorted(name for name in names if name.startswith("goclaw/")) == tracked("goclaw")
    assert metadata == ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]
    assert len(names) == len(tracked("goclaw")) + len(metadata)


@pytest.mark.promise("P-installs")
async def test_the_installed_wheel_answers_polls_telegram_and_serves_its_page(wheel: Path, tmp_path: Path) -> None:
    """The packages that it depends on are lent by the Python of the tests: nothing is downloaded."""
    uv, python = find_uv(), tmp_path / "venv" / "bin" / "python"
    run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], tmp_path)
    run([uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel], tmp_path)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "venv" / "lib" / name / "site-packages" / "lent.pth").write_text(f"{packages()}\n")
    await it_works(python.with_name("goclaw"), tmp_path)


async def it_works(program: Path, folder: Path) -> None:
    """Try an installed program: its commands, a daemon until its first poll, and every file of the web page."""
    installed = Installed(program, folder)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert installed.run("--version") == f"goclaw {version}\n"
    assert "gateway" in installed.run("--help")
    assert "You said: hello" in installed.run("send", "hello")
    async with FakeTelegram() as telegram:
        await _serves(installed, telegram)


async def _serves(installed: Installed, telegram: FakeTelegram) -> None:
    config = {
        "workspace": str(installed.folder / "work"),
        "http": {"web": True, "port": 0},
        "telegram": {"token": telegram.token, "base_url": telegram.base_url},
    }
    path = installed.folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    log = installed.folder / "daemon.out"
    with log.open("wb") as output:
        daemon = await asyncio.create_subprocess_exec(
            *(installed.program, "--config", path, "gateway"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=installed.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(installed.folder), **installed.environment()},
        )
    try:
        await eventually(lambda: telegram.called("getUpdates") and RUNNING in log.read_text(), START_SECONDS)
        given = ("--config", str(path))
        link = await asyncio.to_thread(installed.run, *given, "web", "--no-open")
        await _every_file_is_served(link.split("/", 3)[:3])
        findings = json.loads(await asyncio.to_thread(installed.run, *given, "doctor", "--json"))
        assert not [each for each in findings if each["verdict"] == "error"], findings
        daemon.terminate()
        async with asyncio.timeout(START_SECONDS):
            assert await daemon.wait() == 0
    finally:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()
    assert "Traceback" not in log.read_text()


async def _every_file_is_served(address: list[str]) -> None:
    async with aiohttp.ClientSession("/".join(address)) as http:
        async with http.get("/") as answer:
            assert answer.status == 200 and "GoClaw" in await answer.text()
        for name in tracked("goclaw/clients/web_ui"):
            relative = Path(name).relative_to("goclaw/clients/web_ui")
            if relative.suffix in TYPES and relative.name != "index.html":
                async with http.get(f"/web/{relative.as_posix()}") as answer:
                    assert answer.status == 200 and await answer.read() == (ROOT / name).read_bytes(), name


def interpreter(version: str) -> Path:
    """Return a Python of this version that runs, or skip the test."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    for place in [*([Path(found)] if found else []), *sorted(kept.glob(f"{version}.*/bin/python{version}"))]:
        if not subprocess.run([place, "-c", ""], capture_output=True, timeout=30, check=False).returncode:
            return place
    pytest.skip(f"this machine has no Python {version}")


@pytest.fixture
def index() -> dict[str, str]:
    """Return the variables that lead installers to their index on this machine."""
    names = ("PIP_", "UV_", "SSL_CERT", "REQUESTS_CA")
    return {name: value for name, value in os.environ.items() if name.startswith(names)} | {"UV_SYSTEM_CERTS": "1"}


@pytest.mark.long
@pytest.mark.promise("P-installs")
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("installer", ["pip", "uv tool", "pipx"])
async def test_it_is_installed_from_a_checkout_and_works(
    installer: str, version: str, source: Path, tmp_path: Path, index: dict[str, str]
) -> None:
    python, uv = interpreter(version), find_uv()
    places = {name: str(tmp_path / "tools") for name in ("UV_TOOL_DIR", "PIPX_HOME")}
    places |= {name: str(tmp_path / "bin") for name in ("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR")}
    if installer == "pip":
        run([python, "-m", "venv", tmp_path], tmp_path)
        run([tmp_path / "bin" / "python", "-m", "pip", "install", "--quiet", source], tmp_path, **index)
    elif installer == "uv tool":
        run([uv, "tool", "install", "--quiet", "--python", python, source], tmp_path, **places, **index)
    else:
        # The folder of uvx's own tools is not that of pipx.
        pipx: list[str | Path] = [uv, "tool", "run", "--quiet", "--python", python, "pipx"]
        run([*pipx, "install", "--python", python, source], tmp_path, **places, **index)
    await it_works(tmp_path / "bin" / "goclaw", tmp_path)


@pytest.mark.long
@pytest.mark.promise("P-installs")
@pytest.mark.parametrize("version", RESOLVED)
@pytest.mark.parametrize("extra", ["", *EXTRAS, "every extra"])
def test_every_dependency_resolves_to_wheels(
    extra: str, version: str, source: Path, tmp_path: Path, index: dict[str, str]
) -> None:
    chosen = EXTRAS if extra == "every extra" else [extra] if extra else []
    options = [option for each in chosen for option in ("--extra", each)]
    command = [find_uv(), "pip", "compile", "--quiet", "--python-version", version, "--only-binary", ":all:", *options]
    resolved = run([*command, source / "pyproject.toml"], tmp_path, **index)
    assert "python-telegram-bot==" in resolved
