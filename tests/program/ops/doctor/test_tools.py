"""The doctor names what does not work of the tools, and that the rest does."""

from pathlib import Path
from typing import Any

from goclaw.common.config.load import load_config
from goclaw.common.core import catalog
from goclaw.program.ops.doctor import Finding, examine
from tests.plugin import install, packages

__all__ = ["packages"]


async def found(tmp_path: Path, **settings: Any) -> list[Finding]:
    loaded = load_config(overrides={"state_dir": str(tmp_path / "state"), **settings}, environ={})
    return [finding for finding in await examine(loaded) if finding.check == "tools"]


async def test_tools_that_work_are_counted(tmp_path: Path) -> None:
    (finding,) = await found(tmp_path)
    assert (finding.verdict, finding.text) == ("ok", f"{len(catalog.TOOLS)} tools")


async def test_a_broken_plugin_and_a_missing_command_are_named_with_what_helps(tmp_path: Path, packages: Path) -> None:
    install(packages, "bad-tools", {"bad": "1 / 0"}, {"tools.bad": "bad:bad"})
    lint = {"lint": {"command": "no-such-linter", "description": "Lint."}}
    ok, plugin, command = await found(tmp_path, **{"tools.cli": lint})
    assert ok.text == f"{len(catalog.TOOLS) + 1} tools"
    assert (plugin.verdict, command.verdict) == ("warning", "warning")
    assert plugin.text == "plugin tools.bad (bad-tools 1.0): ZeroDivisionError: division by zero"
    assert "uninstall the package" in plugin.remedy
    assert command.text.startswith("tools.cli.lint: command not found: no-such-linter")
    assert "`tools.cli.lint`" in command.remedy


async def test_servers_that_cannot_be_used_are_named_with_why(tmp_path: Path) -> None:
    servers = {
        "gone": {"command": "no-such-server"},
        "far": {"url": "https://mcp.example.org/mcp"},
        "off": {"command": "no-such-server", "enabled": False},
    }
    _, far, gone = await found(tmp_path, **{"mcp.servers": servers})
    assert gone.text.startswith("mcp.servers.gone: there is no program no-such-server on the PATH of the daemon")
    assert gone.remedy.startswith("fix `mcp.servers.gone`; see `goclaw mcp list`")
    assert "mcp.example.org may not be reached" in far.text


async def test_what_no_registry_has_is_named_with_why(tmp_path: Path) -> None:
    line = {"registry": "corp", "toolset": "data-tools"}
    settings = {"registries.corp.url": "http://127.0.0.1:9", "tools.from_registry": {"data": line}}
    _, missing = await found(tmp_path, **settings)
    assert missing.text.startswith(
        "tools.from_registry.data: the catalogue of the registry corp has not been fetched yet"
    )
    assert missing.remedy.startswith("run `goclaw registry sync`, or fix `tools.from_registry.data`")


OWN = '''
from goclaw.declare import agent, tool


def water(plant: str) -> str:
    """Water a plant."""
    return plant


GARDENER = agent("gardener", "Gardens.", uses=[tool(water)])
KEEPER = agent("keeper", "Keeps.", uses=["water"])
SHED = agent("shed", "Stores.", uses=["tag:cli", tool(water, name="lint")])
'''


async def test_what_one_agent_alone_has_is_named_with_those_that_lack_it(tmp_path: Path, packages: Path) -> None:
    lines = {f"agents.{name}": f"own:{name.upper()}" for name in ("gardener", "keeper", "shed")}
    install(packages, "garden", {"own": OWN}, lines)
    lint = {"lint": {"command": "true", "description": "Lint."}}
    _, own, of_shed, hidden = await found(tmp_path, **{"tools.cli": lint})
    assert (own.verdict, own.text) == (
        "ok",
        "only the agent gardener has water, not main, general, keeper; `use(…, share=True)` shares them",
    )
    assert of_shed.text.startswith("only the agent shed has lint, not main, general;")
    assert (hidden.verdict, hidden.text) == (
        "warning",
        "the agent shed selects lint, which it cannot see: a tool of its own has that name",
    )
