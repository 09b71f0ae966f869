"""docs/writing-tools.md is true: what it says to write is written, and works as it says.

The first test takes seconds, because somebody who follows the page does all of it, too: a copy of the repository gets
the file and the line, then its tests and its command line are asked.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import ToolCall
from goclaw.specs import SideEffect
from goclaw.testing import Answer, open_bench
from goclaw.toolkit.base import Reminder, ToolContext, tool
from goclaw.tools import jinja_templates
from goclaw.tools.templates import rendered
from goclaw.tools.toolkit.sources import open_sources
from tests import house
from tests.docs.pages import Page
from tests.harness import World
from tests.plugin import install, packages

__all__ = ["packages"]

PAGE = Page(house.ROOT / "docs" / "writing-tools.md")
BLOCKS = {
    found[1]: block.text + "\n" for block in PAGE.blocks() if (found := re.fullmatch(r"<!-- (\w+: .+) -->", block.mark))
}
TOOL, TEST = BLOCKS["file: reading_time.py"], BLOCKS["file: test_reading_time.py"]
LINE = BLOCKS["line: goclaw/common/core/catalog.py"]


def python(folder: Path, *arguments: str, **environment: str) -> str:
    """Run Python in a folder, as somebody there does; returns what it prints."""
    home = {"HOME": str(folder), "GOCLAW_STATE_DIR": str(folder / "state"), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", **home, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of its settings, to be changed."""
    folder = tmp_path / "copy"
    shutil.copytree(house.PACKAGE, folder / "goclaw")  # with what Python has compiled, which takes it seconds
    shutil.copy(house.ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.long
def test_a_tool_in_goclaw_is_one_file_and_one_line(copy: Path) -> None:
    (copy / "goclaw" / "tools" / "builtin" / "reading_time.py").write_text(TOOL)
    catalogue = copy / "goclaw" / "common" / "core" / "catalog.py"
    catalogue.write_text(catalogue.read_text().replace("TOOLS = {\n", f"TOOLS = {{\n{LINE}", 1))
    test = copy / "tests" / "tools" / "test_reading_time.py"
    test.parent.mkdir(parents=True)
    test.write_text(TEST.replace("from reading_time import", "from goclaw.tools.builtin.reading_time import"))
    assert "2 passed" in python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", str(test))
    assert "### reading_time" in python(copy, "-m", "goclaw", "tool", "docs")
    (copy / "state" / "workspace").mkdir(parents=True)
    (copy / "state").chmod(0o700)
    (copy / "state" / "workspace" / "a.md").write_text("one two")
    said = python(copy, "-m", "goclaw", "tool", "run", "reading_time", "--input", '{"path": "a.md"}')
    assert said == "a.md: 2 words, 0.0 minutes\n"


def test_every_filter_of_templates_is_named_and_no_other() -> None:
    (listed,) = re.findall(r"with these filters: (.+?) \(", " ".join(PAGE.path.read_text("utf-8").split()))
    assert set(re.findall(r"`(\w+)`", listed)) == set(jinja_templates._ENVIRONMENT.filters)
    assert rendered("{{ tags | join(', ') | truncate(40) }}", {"tags": ["a", "b"]}) == "a, b"


async def test_a_tool_reminds_the_model_as_the_page_says(tmp_path: Path) -> None:
    (code,) = re.findall(r"\*\*`(ctx\.reminders\.add\(.+?\))`\*\*", PAGE.path.read_text("utf-8"))

    @tool(side_effect=SideEffect.NONE)
    async def measure(ctx: ToolContext) -> str:
        """Measure it."""
        eval(code, {"ctx": ctx, "Reminder": Reminder})  # noqa: S307 -- the words of the page
        return "5, 5, 900"

    script = [Answer(calls=(ToolCall("c", "measure", {}),)), Answer("One is odd.")]
    world = World(tmp_path, script, tools=[measure])
    async with world.running() as core:
        await core.say("measure")
        await core.settled()
    first, second = world.script.requests
    assert first.reminder == "" and "Point out the odd values." in second.reminder


async def test_a_package_of_ones_own_needs_what_the_page_says(packages: Path, tmp_path: Path) -> None:
    project = tomllib.loads(BLOCKS["file: pyproject.toml"])["project"]
    install(packages, project["name"], {"reading_time": TOOL}, project["entry-points"]["goclaw.plugins"])
    loaded = load_config(overrides={"state_dir": str(tmp_path / "state")}, environ={})
    async with open_sources(loaded.config, SteppedClock()) as sources:
        assert sources.origin("reading_time") == "plugin tools.reading_time (reading-tools 1.0)"
        assert sources.faults == {}
        tool = next(tool for tool in sources.tools() if tool.spec.name == "reading_time")
    for example in tool.spec.examples:
        async with open_bench(tmp_path / "bench", tool) as bench:
            for path, content in example.files.items():
                (bench.folder / path).write_text(content)
            assert example.output in (await bench.call("reading_time", example.input)).content


def test_the_test_of_the_page_runs_in_a_package_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "reading_time.py").write_text(TOOL)
    (tmp_path / "test_reading_time.py").write_text(TEST)
    where = f"{tmp_path}{os.pathsep}{house.ROOT}"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
    assert "2 passed" in python(tmp_path, *command, PYTHONPATH=where)


async def test_the_configuration_of_the_page_makes_a_tool(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(BLOCKS["file: config.yaml"])
    loaded = load_config(tmp_path / "config.yaml", environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})
    async with open_sources(loaded.config, SteppedClock()) as sources:
        assert sources.origin("count_words") == "config tools.cli"
        assert sources.faults == {}
