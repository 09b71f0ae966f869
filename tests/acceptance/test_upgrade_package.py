"""`goclaw upgrade` of an installed package: the whole environment is exchanged, and all else in it stays."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from goclaw.durable.store.sqlite.backup import NEWEST
from tests.acceptance.checkouts import Home, open_home
from tests.acceptance.daemon import ROOT
from tests.acceptance.model import EchoModel
from tests.acceptance.versions import NEW, NEWS, OLD, Repository
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("upgrades copies of a file only"), pytest.mark.timeout(300)]
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


@dataclass(frozen=True)
class Wheels:
    """The wheels of two versions, of which the newer one can be hidden."""

    old: Path
    new: Path

    @property
    def index(self) -> Path:
        """The folder in which an installer finds versions."""
        return self.new.parent


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    folder = tmp_path_factory.mktemp("wheels")
    if not UV.exists():
        pytest.skip("the wheels are built by uv: `scripts/test` installs it")
    repository = Repository.make(folder / "upstream")
    old = repository.wheel(folder / "old")
    repository.release(NEW)
    return Wheels(old, repository.wheel(folder / "index"))


class InEnvironment(Home):
    """An installation in an environment of its own, in which pip installed it."""

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"


@pytest.fixture
async def home(folder: Path, telegram: FakeTelegram, model: EchoModel, wheels: Wheels) -> AsyncIterator[Home]:
    async with open_home(folder, telegram, model) as plain:
        home = InEnvironment(folder, telegram, plain.config)
        home.variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels.index)}
        python = await asyncio.to_thread(Repository.environment, home.root)
        # As from an index: of a file that was named, pip knows no other version. Ours is on the shared path, too.
        found = ("--ignore-installed", "--no-deps", "--no-index", "--find-links", wheels.old.parent, f"goclaw=={OLD}")
        await run(python, "-m", "pip", "install", "--quiet", *found)
        await home.begin()
        yield home


async def run(*command: str | Path, **variables: str) -> str:
    """Run a program to its end; returns what it printed."""

    def call() -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)

    done = await asyncio.to_thread(call)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.promise("P-upgrade")
@pytest.mark.long
async def test_a_package_of_pip_is_upgraded_and_what_else_is_in_its_environment_stays(home: Home) -> None:
    beside = home.root / "lib" / "mine.txt"
    beside.write_text("mine")
    checked = await home.well("upgrade", "--check")
    assert f"GoClaw {OLD} would become {NEW} (goclaw=={NEW})." in checked.out and NEWS in checked.out
    assert f"schema {NEWEST} would become {NEWEST + 1}" in checked.out
    ran = await home.well("upgrade")
    assert f"upgraded: GoClaw {NEW} runs" in ran.err and f"pip install 'goclaw=={OLD}'" in ran.err
    await home.is_well(NEW)
    assert beside.read_text() == "mine"
    script = home.root / "bin" / "goclaw"
    assert str(home.root / "bin" / "python") in script.read_text()
    assert await run(script, "version") == f"goclaw {NEW}\n"
    assert [path.name for path in home.root.parent.iterdir() if "upgrade" in path.name] == []
    told = await home.goclaw("uninstall", stdin="n\n")
    assert f"{home.root / 'bin' / 'python'} -m pip uninstall goclaw" in told.out and str(home.state) in told.out


@pytest.mark.promise("P-upgrade")
@pytest.mark.long
async def test_a_package_that_cannot_be_installed_leaves_the_old_one(home: Home, wheels: Wheels) -> None:
    index = home.folder / "index"
    index.mkdir()
    cut = index / wheels.new.name
    content = wheels.new.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    home.variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    ran = await home.goclaw("upgrade")
    assert ran.code == 1 and "failed" in ran.err
    await home.is_well(OLD)


PIPX: list[str | Path] = [UV, "tool", "run", "--quiet", "--python", sys.executable, "pipx"]


@pytest.mark.long
@pytest.mark.promise("P-upgrade")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("installer", "place", "again", "listed"),
    [
        ([UV, "tool"], "goclaw", "uv tool install --force", f"goclaw v{NEW}"),
        (PIPX, "venvs/goclaw", "pipx install --force", f"package goclaw {NEW}"),
    ],
    ids=["uv tool", "pipx"],
)
async def test_an_installer_of_programs_lists_the_new_version_and_its_links_lead_there(
    folder: Path,
    telegram: FakeTelegram,
    model: EchoModel,
    wheels: Wheels,
    installer: list[str | Path],
    place: str,
    again: str,
    listed: str,
) -> None:
    """With all dependencies, as the installer brings them."""
    async with open_home(folder, telegram, model) as plain:
        tools, links = folder / "tools", folder / "bin"
        variables = dict.fromkeys(("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR"), str(links))
        # The folder of the tools that uv itself runs, pipx for one, is not that of pipx.
        variables["UV_TOOL_DIR" if installer is not PIPX else "PIPX_HOME"] = str(tools)
        await run(*installer, "install", "--python", sys.executable, wheels.old, **variables)
        home = InEnvironment(folder, telegram, plain.config)
        (folder / "goclaw").symlink_to(tools / place)
        network = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_CERT"))}
        home.variables = {
            **network,
            **variables,
            "PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", str(folder)),
        }
        await home.begin()
        ran = await home.well("upgrade", "--ref", str(wheels.new))
        assert again in ran.err
        await home.is_well(NEW)
        assert listed in await run(*installer, "list", **variables)
        assert await run(links / "goclaw", "version") == f"goclaw {NEW}\n"
        assert [path.name for path in (tools / place).parent.iterdir() if "upgrade" in path.name] == []
