"""Agents and toolsets of an installed package: in the configuration, in the registry, and never in the way."""

import logging
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.conversation.agent.kinds import Kinds
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.sources import open_sources
from tests.plugin import install, packages, with_packages

__all__ = ["packages"]

MODULE = """
from goclaw.declare import *
from pydantic import BaseModel

class WORD(BaseModel):
    word: str

async def look_up(word: str) -> str:
    return f"{word}: a word"

DOCS = toolset(
    "docs",
    tool("look_up", "Look a word up.", args(WORD), bind_to(look_up, side_effect=SideEffect.READ_ONLY)),
    tags("docs"),
)
WIKI = mcp_toolset("wiki", "wiki", tool("find", "Find.", args(attribute("q", str), required("q"))))
LIBRARIAN = agent(
    "librarian",
    "Knows words.",
    use(DOCS),
    export("library", tool("ask_librarian", "Ask the librarian.", args(attribute("about", str), required("about")))),
    run_policy(default_caps(max_tool_calls(3))),
)
"""
LINES = {
    "agents.librarian": "library_tools:LIBRARIAN",
    "toolsets.docs": "library_tools:DOCS",
    "toolsets.wiki": "library_tools:WIKI",
}


async def test_a_package_adds_an_agent_its_toolset_and_what_it_exports(packages: Path, tmp_path: Path) -> None:
    install(packages, "library-tools", {"library_tools": MODULE}, LINES)
    loaded = with_packages(tmp_path, mcp={"servers": {"wiki": {"url": "http://127.0.0.1:1/mcp", "enabled": False}}})
    config, parts = loaded.config, parts_of(loaded.packaged)
    assert parts.faults == {}
    librarian = Kinds(config).of("librarian")
    assert librarian and librarian.rules.calls.total.most == 3 and librarian.settings.tools == ("set:docs",)
    assert config.toolsets["docs"] == ("look_up",) and config.toolsets["wiki"] == ("tag:wiki:find",)
    assert config.tools.pinned["wiki"].tools["find"].input_schema
    assert config.mcp.servers["wiki"].tools == {}, "the server's other tools are there for everybody else"
    async with open_sources(config, SteppedClock(), parts) as sources:
        assert sources.origin("look_up").startswith("plugin ") and sources.origin("ask_librarian") == "config agents"
        assert not [what for what in sources.faults if "librar" in what]


def test_a_server_that_there_is_not_leaves_out_the_toolset_of_its_tools(packages: Path, tmp_path: Path) -> None:
    install(packages, "library-tools", {"library_tools": MODULE}, LINES)
    loaded = with_packages(tmp_path)
    assert loaded.packaged.faults == {
        "toolset wiki of plugin toolsets.wiki (library-tools 1.0)": "tools.pinned.wiki.server: unknown MCP server "
        "`wiki` (mcp.servers); known are: none"
    }
    assert "wiki" not in loaded.config.toolsets and "librarian" in loaded.config.agents.kinds


@pytest.mark.promise("P-plugins-stop-nothing")
@pytest.mark.parametrize(
    ("source", "line", "fault"),
    [
        ("1 / 0", "agents.bad", "ZeroDivisionError"),
        ("BAD = 5", "agents.bad", "is a int, not a AgentPart"),
        ("from goclaw.declare import agent\nBAD = agent('good', '')", "agents.bad", "it calls itself good, not bad"),
        (
            "from goclaw.declare import agent\nBAD = agent('Bad One', '')",
            "agents.Bad One",
            "no command can name such an agent",
        ),
        (
            "from goclaw.declare import toolset, tool\nBAD = toolset('bad', tool('a', 'A.'))",
            "toolsets.bad",
            "nothing does",
        ),
        (
            "from goclaw.declare import agent, max_tool_calls\nBAD = agent('bad', 'B.', max_tool_calls(1))",
            "agents.bad",
            "bad: max_tool_calls stands in run_policy(…), not in agent(…)",
        ),
    ],
)
async def test_a_broken_declaration_is_named_and_stops_nothing(
    source: str, line: str, fault: str, packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(packages, "bad-tools", {"bad": source}, {line: "bad:BAD"})
    loaded = with_packages(tmp_path)
    with caplog.at_level(logging.WARNING):
        async with open_sources(loaded.config, SteppedClock(), parts_of(loaded.packaged)) as sources:
            ((what, why),) = sources.faults.items()
    assert f"plugin {line} (bad-tools 1.0)" in what and fault in why
    assert loaded.config.agents.kinds == {}
