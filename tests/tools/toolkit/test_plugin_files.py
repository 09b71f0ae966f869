"""One-file plugins come, change and go while a daemon runs; one that cannot be used takes nothing away."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.errors import ConfigError
from goclaw.program.cli.tool import open_toolbox
from goclaw.tools.toolkit import plugin_files
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.plugin_files import SETTLED_SECONDS
from goclaw.tools.toolkit.sources import Sources, open_sources
from tests.acceptance.waiting import eventually
from tests.tools.toolkit.one_file import DECLARED, TOOL, own, put

pytestmark = pytest.mark.promise("P-plugins-one-file")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return own(tmp_path / "state")


@asynccontextmanager
async def watched(config: Config, loaded: Loaded | None = None) -> AsyncIterator[Sources]:
    """The sources of a daemon that looks for changes."""
    parts = parts_of(loaded.packaged) if loaded else None
    async with open_sources(config, SteppedClock(), parts) as sources:
        assert sources.files is not None
        async with background(sources.files.run(), "loading plugin files"):
            yield sources


def added(sources: Sources) -> list[str]:
    return [tool.spec.name for tool in sources.tools()][len(catalog.TOOLS) :]


async def says(sources: Sources, name: str) -> str:
    tool = next(tool for tool in sources.tools() if tool.spec.name == name)
    context: Any = None
    return str(await tool.call(context, tool.arguments()))


async def until(sources: Sources, wanted: list[str]) -> None:
    """Let looks pass until exactly these tools are there besides the catalogue's."""
    await after_looks(sources, lambda: added(sources) == wanted)


async def until_fault(sources: Sources, part: str) -> str:
    """Let looks pass until there is a fault with these words; return it."""

    def found() -> list[str]:
        return [line for what, why in sources.faults.items() if part in (line := f"{what}: {why}")]

    await after_looks(sources, lambda: bool(found()))
    return found()[0]


async def after_looks(sources: Sources, condition: Callable[[], bool]) -> None:
    """Let looks pass until it is so."""

    def look() -> bool:
        assert sources.files is not None
        sources.files.glance()
        return condition()

    await eventually(look)


async def test_a_file_in_the_state_folder_comes_changes_and_goes(state: Path) -> None:
    async with watched(Config(state_dir=state)) as sources:
        assert added(sources) == []
        path = put(state / "tools" / "garden.py", TOOL.format(name="garden", says="one"))
        await until(sources, ["garden"])
        assert sources.origin("garden") == f"plugin file {path}"
        assert sources.plugin("garden") == "garden"
        assert await says(sources, "garden") == "one"
        before = next(tool for tool in sources.tools() if tool.spec.name == "garden")
        put(path, TOOL.format(name="garden", says="two") + TOOL.format(name="second", says="2"))
        await until(sources, ["garden", "second"])
        assert await says(sources, "garden") == "two"
        context: Any = None
        assert await before.call(context, before.arguments()) == "one", "what runs keeps what it began with"
        path.unlink()
        await until(sources, [])
        assert sources.faults == {}


async def test_files_of_the_configuration_count_from_its_folder(tmp_path: Path, state: Path) -> None:
    put(state / "config.yaml", "plugins: [garden.py, missing.py]\n", 0o600)
    path = put(state / "garden.py", TOOL.format(name="garden", says="one"))
    loaded = load_config(overrides={"state_dir": str(state)}, environ={}, container_secrets=tmp_path)
    assert loaded.config.plugins == (path, state / "missing.py")
    async with watched(loaded.config, loaded) as sources:
        assert added(sources) == ["garden"]
        assert list(sources.faults) == [f"plugin file {state / 'missing.py'}"]
        put(state / "missing.py", TOOL.format(name="found", says="now"))
        await until(sources, ["garden", "found"])
        assert sources.faults == {}
        path.unlink()
        await until(sources, ["found"])
        assert f"{path}: there is no such file" in await until_fault(sources, "no such file")


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("x = (\n", "garden.py:1:5: '(' was never closed"),
        ("\nimport nothing_of_that_name\n", "garden.py:2:1: ModuleNotFoundError: No module named"),
        ("\n\n1 / 0\n", "garden.py:3:1: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "garden.py:1:1: SystemExit: 3"),
        (TOOL.format(name="garden", says="x").replace("NONE)", "NONE, call_hint='{{ nope }}')"), "garden.py:5:2: "),
        (TOOL.format(name="read", says="x"), "garden.py:6:1: tool read has the name of one that is built in"),
        (
            "__goclaw_api__ = 99\n" + TOOL.format(name="garden", says="x"),
            "garden.py:1:1: it was written for version 99",
        ),
        ("x = 1\n", "garden.py:1:1: declares no tool"),
    ],
)
async def test_a_fault_leaves_the_version_before_in_place_and_has_its_line(
    broken: str, fault: str, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(state / "tools" / "garden.py", TOOL.format(name="garden", says="one"))
    async with watched(Config(state_dir=state)) as sources:
        put(path, broken)
        with caplog.at_level(logging.WARNING):
            said = await until_fault(sources, fault)
        assert said.endswith("its last valid version stays in force") and said in caplog.messages
        assert added(sources) == ["garden"] and await says(sources, "garden") == "one"
        put(path, TOOL.format(name="garden", says="mended"))
        await after_looks(sources, lambda: not sources.faults)
        assert await says(sources, "garden") == "mended"


async def test_a_broken_file_at_the_start_stops_nothing(state: Path) -> None:
    put(state / "tools" / "bad.py", "def (\n")
    put(state / "tools" / "good.py", TOOL.format(name="good", says="fine"))
    async with watched(Config(state_dir=state)) as sources:
        assert added(sources) == ["good"]
        ((what, why),) = sources.faults.items()
        assert what.endswith("tools/bad.py") and why.startswith("bad.py:1:5: ") and "last good" not in why


async def test_half_a_file_is_not_loaded(state: Path) -> None:
    async with watched(Config(state_dir=state)) as sources:
        path = own(state / "tools") / "garden.py"
        for size in (10, 60, 120):  # an editor that writes slowly
            put(path, TOOL.format(name="garden", says="one")[:size])
            assert sources.files is not None
            await sources.files.scan()
            assert sources.faults == {} and added(sources) == []
        put(path, TOOL.format(name="garden", says="one"))
        await until(sources, ["garden"])


async def test_a_file_that_is_as_it_is_for_a_while_is_loaded_at_the_first_look(state: Path) -> None:
    clock = RealClock()
    async with open_sources(Config(state_dir=state), clock) as sources:
        assert sources.files is not None
        path = put(state / "tools" / "garden.py", TOOL.format(name="garden", says="one"))
        written = path.stat().st_ctime
        await eventually(lambda: clock.now() - written > SETTLED_SECONDS)
        await sources.files.scan()
        assert added(sources) == ["garden"]


async def test_where_there_is_no_file_every_other_look_is_left_out(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sources(Config(state_dir=state), SteppedClock()) as sources:
        assert sources.files is not None
        looks: list[Path] = []

        def paths(folder: Path, _: object) -> list[Path]:
            looks.append(folder)
            return []

        monkeypatch.setattr(plugin_files, "plugin_paths", paths)
        for _ in range(10):
            sources.files.glance()
        assert len(looks) == 5


async def test_a_file_that_never_ends_holds_up_nothing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(state / "tools" / "garden.py", TOOL.format(name="garden", says="one"))
    async with watched(Config(state_dir=state)) as sources:
        monkeypatch.setattr(plugin_files, "LOAD_SECONDS", 0.2)
        put(path, "import threading\nthreading.Event().wait(5)\n")
        assert "did not finish loading within 0.2 s" in await until_fault(sources, "did not finish")
        assert added(sources) == ["garden"]


async def test_a_name_that_another_file_has_is_left_out_and_named(state: Path) -> None:
    put(state / "tools" / "a.py", TOOL.format(name="garden", says="a"))
    put(state / "tools" / "b.py", TOOL.format(name="garden", says="b") + TOOL.format(name="other", says="b"))
    async with watched(Config(state_dir=state)) as sources:
        assert added(sources) == ["garden", "other"] and await says(sources, "garden") == "a"
        ((what, why),) = sources.faults.items()
        assert what.startswith("tool garden of plugin file ") and "the name is taken: plugin file " in why


async def test_agents_and_toolsets_of_a_file_are_configuration_and_wait_for_a_restart(
    tmp_path: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(state / "tools" / "garden.py", DECLARED)
    loaded = load_config(overrides={"state_dir": str(state)}, environ={}, container_secrets=tmp_path)
    assert loaded.config.agents.kinds["gardener"].description == "Knows plants."
    assert loaded.config.tools.sets["garden.beds"] == ("place_of_plant",)
    async with watched(loaded.config, loaded) as sources:
        assert added(sources) == ["place_of_plant"] and sources.faults == {}
        put(path, DECLARED.replace("place_of_plant", "where_it_grows"))
        with caplog.at_level(logging.WARNING):
            await until(sources, ["where_it_grows"])
        assert "(garden.beds, gardener) is in force after `goclaw restart`" in caplog.text


SERVED = """\
from goclaw.declare import SideEffect, mcp_server, mcp_tool, static_prompt


def add(a: int, b: int) -> int:
    return a + b


SERVER = mcp_server(
    "calc",
    "1.0.0",
    mcp_tool("add", "Add two numbers.", add, side_effect=SideEffect.NONE),
    static_prompt("greeting", "Greet.", ("user", "Hello!")),
)
"""
HOOKED = """\
from goclaw.declare import tool
from goclaw.hooks.base import HookAnswer, HookPart


@tool(inject=["tenant"])
def look(tenant: str) -> str:
    \"\"\"Look.\"\"\"
    return tenant


async def fill(event):
    return HookAnswer(inject={"tenant": event.actor.key})


FILL = HookPart(points={"pre_tool"}, hook=fill, match={"look"})
"""


async def test_an_mcp_server_of_a_file_offers_what_that_of_a_package_does(tmp_path: Path, state: Path) -> None:
    put(state / "tools" / "calc.py", SERVED)
    loaded = load_config(overrides={"state_dir": str(state)}, environ={}, container_secrets=tmp_path)
    parts, server = parts_of(loaded.packaged), loaded.config.mcp.server
    assert (server.name, server.version, server.enabled) == ("calc", "1.0.0", False)
    assert [[prompt.name for prompt in each.prompts] for each in parts.served] == [["greeting"]]
    assert loaded.config.tools.sets["calc"] == ("add",)
    async with watched(loaded.config, loaded) as sources:
        assert added(sources) == ["add"] and sources.faults == {}


async def test_a_hook_of_a_file_fills_in_what_its_tool_injects(tmp_path: Path, state: Path) -> None:
    put(state / "tools" / "look.py", HOOKED)
    settings: dict[str, Any] = {"overrides": {"state_dir": str(state)}, "environ": {}, "container_secrets": tmp_path}
    loaded = load_config(**settings)
    async with open_toolbox(loaded.config, parts_of(loaded.packaged)) as box:
        assert (await box.run("look", {}, None)).content.startswith("tui:")


@pytest.mark.promise("P-hook-closed")
async def test_a_broken_file_that_may_have_had_a_hook_forbids_every_call(tmp_path: Path, state: Path) -> None:
    put(state / "tools" / "look.py", f"{HOOKED}\n1 / 0\n")
    settings: dict[str, Any] = {"overrides": {"state_dir": str(state)}, "environ": {}, "container_secrets": tmp_path}
    loaded = load_config(**settings)
    async with open_toolbox(loaded.config, parts_of(loaded.packaged)) as box:
        said = (await box.run("memory_list", {}, None)).content
    assert "look.py cannot be loaded" in said and "every call of a tool is forbidden" in said


def test_what_the_operator_adds_to_an_agent_of_a_broken_file_is_left_out_with_it(tmp_path: Path, state: Path) -> None:
    put(
        state / "config.yaml",
        "plugins: [garden.py]\nagents: {kinds: {gardener: {policy: {max_tool_calls: 3}}}}\n",
        0o600,
    )
    put(state / "garden.py", DECLARED)
    settings: dict[str, Any] = {"overrides": {"state_dir": str(state)}, "environ": {}, "container_secrets": tmp_path}
    assert load_config(**settings).config.agents.kinds["gardener"].policy.max_tool_calls == 3
    put(state / "garden.py", f"{DECLARED}\n1 / 0\n")
    loaded = load_config(**settings)
    assert "gardener" not in loaded.config.agents.kinds
    assert set(loaded.packaged.faults) == {f"plugin file {state / 'garden.py'}", "agents.kinds.gardener"}


def test_a_wrong_list_of_files_is_a_problem_of_the_configuration(tmp_path: Path, state: Path) -> None:
    put(state / "config.yaml", "plugins: [5]\n", 0o600)
    with pytest.raises(ConfigError, match=r"config.yaml:1:11: plugins"):
        load_config(overrides={"state_dir": str(state)}, environ={}, container_secrets=tmp_path)
