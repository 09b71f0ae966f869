"""Tools from everywhere in one list; a broken plugin is named and stops nothing."""

import logging
import sys
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.sources import BUILT_IN, Named, Sources, open_sources
from tests.parts import Tools, Trail, acting
from tests.plugin import install, packages

__all__ = ["packages"]

ONE_TOOL = '''
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool

@tool(side_effect=SideEffect.NONE)
async def {name}(ctx: ToolContext) -> str:
    """Come from a package."""
    return "from a package"
'''
A_SOURCE = """
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from {one} import {one}
from goclaw.tools.toolkit.sources import SourcePart

class Live:
    listed = [{one}]
    broken = ""
    def tools(self):
        if self.broken:
            raise RuntimeError(self.broken)
        return self.listed

LIVE = Live()

@asynccontextmanager
async def _open(ports):
    {before}
    yield LIVE
    LIVE.closed = True
    {after}

SOURCE = SourcePart("live", _open)
"""


async def faults_of(folder: Path) -> dict[str, str]:
    async with open_sources(Config(state_dir=folder), SteppedClock()) as sources:
        assert [tool.spec.name for tool in sources.tools()] == list(catalog.TOOLS)
        return dict(sources.faults)


async def test_a_package_adds_a_tool(packages: Path, tmp_path: Path) -> None:
    install(
        packages, "weather-tools", {"weather": ONE_TOOL.format(name="weather")}, {"tools.weather": "weather:weather"}
    )
    async with open_sources(Config(state_dir=tmp_path), SteppedClock()) as sources:
        assert [tool.spec.name for tool in sources.tools()] == [*catalog.TOOLS, "weather"]
        assert sources.origin("weather") == "plugin tools.weather (weather-tools 1.0)"
        assert (sources.origin("read"), sources.origin("nothing")) == (BUILT_IN, "")
        assert [sources.plugin(name) for name in ("weather", "read", "nothing")] == ["weather", "", ""]
        assert sources.faults == {}


@pytest.mark.promise("P-plugins-stop-nothing")
@pytest.mark.parametrize(
    ("source", "point", "fault"),
    [
        ("import nothing_of_that_name", "tools.bad = bad:bad", "cannot be loaded: No module named"),
        ("1 / 0", "tools.bad = bad:bad", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "tools.bad = bad:bad", "SystemExit: 3"),
        ("def (", "tools.bad = bad:bad", "SyntaxError"),
        ("", "tools.bad = bad:bad", "has no attribute 'bad'"),
        ("bad = 5", "tools.bad = bad:bad", "bad:bad is a int, not a Tool"),
        (ONE_TOOL.format(name="good"), "tools.bad = bad:good", "its tool calls itself good, not bad"),
        (ONE_TOOL.format(name="read"), "tools.read = bad:read", "is left out, the name is taken: built in"),
        ("SOURCE = 5", "tool_sources.bad = bad:SOURCE", "bad:SOURCE is a int, not a SourcePart"),
    ],
)
async def test_a_broken_plugin_is_named_and_stops_nothing(
    source: str, point: str, fault: str, packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, _, path = point.partition(" = ")
    install(packages, "bad-tools", {"bad": source}, {name: path})
    with caplog.at_level(logging.WARNING):
        ((what, why),) = (await faults_of(tmp_path)).items()
    assert f"plugin {name} (bad-tools 1.0)" in what and fault in why
    assert f"{what}: {why}" in caplog.messages


@pytest.mark.promise("P-plugins-stop-nothing")
@pytest.mark.parametrize(
    ("before", "fault"), [("raise OSError('no server')", "OSError: no server"), ("import nothing_there", "No module")]
)
async def test_a_source_that_does_not_open_is_named(before: str, fault: str, packages: Path, tmp_path: Path) -> None:
    modules = {"one": ONE_TOOL.format(name="one"), "bad": A_SOURCE.format(one="one", before=before, after="pass")}
    install(packages, "bad-tools", modules, {"tool_sources.bad": "bad:SOURCE"})
    ((what, why),) = (await faults_of(tmp_path)).items()
    assert what == "plugin tool_sources.bad (bad-tools 1.0)" and fault in why


@pytest.mark.promise("P-plugins-stop-nothing")
async def test_a_source_that_never_opens_is_not_waited_for(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = "import asyncio; await asyncio.Event().wait()"
    modules = {"one": ONE_TOOL.format(name="one"), "bad": A_SOURCE.format(one="one", before=before, after="pass")}
    install(packages, "bad-tools", modules, {"tool_sources.bad": "bad:SOURCE"})
    monkeypatch.setattr("goclaw.tools.toolkit.sources.OPEN_SECONDS", 0.1)
    assert await faults_of(tmp_path) == {"plugin tool_sources.bad (bad-tools 1.0)": "it is not open after 0.1 s"}


@pytest.mark.promise("P-plugins-stop-nothing")
async def test_a_live_source_may_fail_later_and_come_back(
    packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    modules = {"one": ONE_TOOL.format(name="one"), "live": A_SOURCE.format(one="one", before="pass", after="1 / 0")}
    install(packages, "live-tools", modules, {"tool_sources.live": "live:SOURCE"})
    async with open_sources(Config(state_dir=tmp_path), SteppedClock()) as sources:
        live = sys.modules["live"].LIVE
        assert sources.origin("one") == "plugin tool_sources.live (live-tools 1.0)"
        live.broken = "the server is gone"
        with caplog.at_level(logging.WARNING):
            assert sources.origin("one") == sources.origin("one") == ""
        assert sources.faults == {"plugin tool_sources.live (live-tools 1.0)": "RuntimeError: the server is gone"}
        assert len(caplog.messages) == 1
        live.broken = ""
        assert sources.origin("one") and sources.faults == {}
        live.listed = ["no tool"]
        assert sources.origin("one") == "" and "it lists a str" in str(sources.faults)
    assert any("did not close: ZeroDivisionError" in line for line in caplog.messages)


def test_the_first_source_has_the_name_until_it_gives_it_up() -> None:
    first: list[Tool] = [acting("look", Trail().leave)]
    second: list[Tool] = [acting("look", Trail().leave), acting("touch", Trail().leave)]
    sources = Sources([Named("one", Tools(first)), Named("two", Tools(second))])
    assert list(sources.tools()) == [first[0], second[1]]
    assert sources.faults == {"tool look of two": "is left out, the name is taken: one"}
    first.clear()
    assert list(sources.tools()) == second and sources.faults == {}
