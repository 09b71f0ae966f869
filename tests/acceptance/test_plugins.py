"""Plugins from outside: a file comes and goes while the daemon runs, a package comes back after an upgrade."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.core.plugin_folder import FOLDER, InstalledPlugin, PluginRecord, read_record, write_record
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock
from tests.program.ops.plugins.projects import project
from tests.tools.toolkit.one_file import TOOL, own, put

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

IN_FORCE_SECONDS = 2.0
AND_THE_WAY = 1.5
"""Seconds that a busy machine takes to start a client and to answer it."""


@pytest.fixture
async def home(folder: Path, model: EchoModel) -> AsyncIterator[Installation]:
    async with installation(folder, None, model.url, forks=True) as made:
        made.config["models"] = {"agent": ["demo"]}  # whose `/tool` runs the real tool
        made.write_config()
        yield made


async def says(home: Installation, text: str, part: str) -> float:
    """Ask until the answer has this in it; return after how many seconds it was asked so."""
    began = clock.monotonic()
    while True:
        asked = clock.monotonic() - began
        answer = await home.run("send", "--session", "tui:me", text)
        if part in answer.out:
            return asked
        assert asked < IN_FORCE_SECONDS + AND_THE_WAY, (answer, home.output[-2000:])


@pytest.mark.promise("P-plugins-one-file")
async def test_a_file_is_in_force_within_two_seconds_of_its_change(home: Installation) -> None:
    await home.start()
    path = own(home.state / "tools") / "garden.py"
    for text, part in [
        (TOOL.format(name="garden", says="in the sun"), "in the sun"),
        (TOOL.format(name="garden", says="in the shade"), "in the shade"),
    ]:
        await asyncio.to_thread(put, path, text)
        await says(home, "/tool garden {}", part)
    await asyncio.to_thread(put, path, "def (\n")
    await says(home, "/tools", "garden.py:1:5: ")
    assert "in the shade" in (await home.run("send", "--session", "tui:me", "/tool garden {}")).out
    assert "garden.py:1:5: " in home.output
    path.chmod(0o666)
    await says(home, "/tools", "chmod go-w")
    path.unlink()
    await says(home, "/tool garden {}", "unknown tool: garden")
    assert await home.stop() == 0


@pytest.mark.promise("P-plugins-stay")
@pytest.mark.promise("P-plugins-stop-nothing")
async def test_a_start_after_an_upgrade_restores_plugins_and_leaves_a_broken_one_out(
    home: Installation, tmp_path: Path
) -> None:
    home.environment = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    source = project(tmp_path / "garden")
    plugins = [
        InstalledPlugin("garden-tools", str(source), "1.0"),
        InstalledPlugin("gone", str(tmp_path / "gone"), "2.0"),
    ]
    (home.state / FOLDER).mkdir(mode=0o700, parents=True)
    write_record(home.state, PluginRecord("site-of-before", "another lock", tuple(plugins)))
    await home.start()
    assert "restoring plugins" in home.output and "plugin gone is not used" in home.output
    await says(home, "/tool garden {}", "from a package")
    await says(home, "/tools", "plugin gone: is not used")
    found = await home.run("doctor", "--json")
    named = [each for each in json.loads(found.out) if "plugin gone" in each["text"]]
    assert named and "goclaw plugin remove gone" in named[0]["remedy"]
    assert [bool(each.fault) for each in read_record(home.state).plugins] == [False, True]
    assert await home.stop() == 0
