"""The catalogue: every line loads and is what it says, and a new part is one file and one line."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goclaw.channels.base import AccountPart, ChannelPart
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.net.search.base import SearchPart
from goclaw.errors import ConfigError
from goclaw.gateway.intake.commands.base import Command
from goclaw.gateway.servers.mcp.backend import McpPart
from goclaw.llm.base import Provider
from goclaw.llm.open import find_provider
from goclaw.tools.execution.sandbox.base import Tier
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import BuiltIn
from goclaw.tools.toolkit.sources import SourcePart
from tests.tables import table

KINDS: dict[str, type[Any]] = {
    "CHANNELS": ChannelPart,
    "ACCOUNTS": AccountPart,
    "PROVIDERS": Provider,
    "TOOLS": Tool,
    "SERVERS": McpPart,
    "TOOL_SOURCES": SourcePart,
    "COMMANDS": Command,
    "WEB_SEARCHES": SearchPart,
    "SANDBOXES": Tier,
}
LINES = [
    pytest.param(name, path, kind, id=f"{section.lower()}-{name}")
    for section, kind in KINDS.items()
    for name, path in getattr(catalog, section).items()
]

NEW_TOOL = '''
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool

@tool(side_effect=SideEffect.NONE)
async def shout(ctx: ToolContext, text: str) -> str:
    """Say it loud."""
    return text.upper()
'''
NEW_COMMAND = """
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply

async def _ping(context: CommandContext) -> Reply:
    return Reply("pong")

COMMAND = Command("ping", "Say pong", _ping)
"""
NEW_PROVIDER = """
from goclaw.llm.base import Provider
from goclaw.llm.scripted import ScriptedModel

PROVIDER = Provider("parrot", lambda spec, settings, options, ports: ScriptedModel(spec=spec))
"""
NEW_CHANNEL = """
from contextlib import nullcontext
from goclaw.channels.base import ChannelPart

CHANNEL = ChannelPart("pigeon", lambda config: "pigeon" in config.channels, lambda config, ports: nullcontext())
"""


@pytest.fixture
def new_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes one file and adds one line."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(section: str, name: str, source: str, attribute: str) -> str:
        module = f"new_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        monkeypatch.setitem(getattr(catalog, section), name, f"{module}:{attribute}")
        monkeypatch.delitem(sys.modules, module, raising=False)
        return f"{module}:{attribute}"

    return add


def name_of(part: Any) -> str:
    return str(part.spec.name if isinstance(part, Tool) else part.name)


@table("name, path, kind", LINES)
def test_a_line_loads_and_agrees_with_its_name(name: str, path: str, kind: type[Any]) -> None:
    assert name_of(load(path, kind)) == name


def test_a_line_of_the_wrong_kind_is_refused_with_both_kinds() -> None:
    with pytest.raises(ConfigError, match="is a Tool, not a Command"):
        load(catalog.TOOLS["read"], Command)


def test_a_line_that_leads_nowhere_is_refused_by_its_path() -> None:
    with pytest.raises(ConfigError, match=r"goclaw\.tools\.builtin\.nothing:tool: cannot be loaded"):
        load("goclaw.tools.builtin.nothing:tool", Tool)


def test_a_new_tool_is_one_file_and_one_line(new_part: Callable[..., str]) -> None:
    new_part("TOOLS", "shout", NEW_TOOL, "shout")
    shout = next(tool for tool in BuiltIn().tools() if tool.spec.name == "shout")
    assert shout.spec.schema["properties"]["text"] == {"type": "string"}
    assert shout.spec.schema["required"] == ["text"]


async def test_a_new_command_is_one_file_and_one_line(new_part: Callable[..., str]) -> None:
    command = load(new_part("COMMANDS", "ping", NEW_COMMAND, "COMMAND"), Command)
    reply = await command.run(SimpleNamespace())  # type: ignore[arg-type]  # this command asks nothing of it
    assert reply.text == "pong"


def test_a_new_provider_is_one_file_and_one_line(new_part: Callable[..., str]) -> None:
    new_part("PROVIDERS", "parrot", NEW_PROVIDER, "PROVIDER")
    assert find_provider("parrot").name == "parrot"


def test_a_new_channel_is_one_file_and_one_line(new_part: Callable[..., str]) -> None:
    part = load(new_part("CHANNELS", "pigeon", NEW_CHANNEL, "CHANNEL"), ChannelPart)
    assert part.name == "pigeon"
