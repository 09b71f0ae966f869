"""Agents and toolsets of an installed package: in the configuration, in the registry, and never in the way."""

import logging
from pathlib import Path

import pytest

from goclaw.agent.kinds import Kinds
from goclaw.clock import SteppedClock
from goclaw.config.schema import Config
from goclaw.toolkit.parts import load_parts
from goclaw.toolkit.sources import open_sources
from tests.plugin import install, packages

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
    settings = {
        "state_dir": tmp_path,
        "mcp": {"servers": {"wiki": {"url": "http://127.0.0.1:1/mcp", "enabled": False}}},
    }
    parts = await load_parts(Config.model_validate(settings))
    config = parts.merged(Config.model_validate(settings))
    assert parts.faults == {}
    librarian = Kinds(config).of("librarian")
    assert librarian and librarian.rules.tool_calls.most == 3 and librarian.settings.tools == ("set:docs",)
    assert config.toolsets["docs"] == ("look_up",) and config.toolsets["wiki"] == ("mcp__wiki__find",)
    assert config.mcp.servers["wiki"].tools["find"].input_schema
    async with open_sources(config, SteppedClock(), parts) as sources:
        assert sources.origin("look_up").startswith("plugin ") and sources.origin("ask_librarian") == "config agents"
        assert not [what for what in sources.faults if "librar" in what]


async def test_what_the_operator_wrote_stays(packages: Path, tmp_path: Path) -> None:
    install(packages, "library-tools", {"library_tools": MODULE}, LINES)
    config = Config.model_validate(
        {"state_dir": tmp_path, "agents": {"kinds": {"librarian": {"description": "Mine."}}}}
    )
    parts = await load_parts(config)
    assert parts.merged(config).agents.kinds["librarian"].description == "Mine."
    title = "plugin agents.librarian (library-tools 1.0)"
    assert parts.faults[f"agent librarian of {title}"] == "the configuration has one of its own, which stays"
    assert "its MCP servers are not configured (mcp.servers): wiki" in parts.faults.values()


@pytest.mark.promise("P-plugins-stop-nothing")
@pytest.mark.parametrize(
    ("source", "line", "fault"),
    [
        ("1 / 0", "agents.bad", "ZeroDivisionError"),
        ("BAD = 5", "agents.bad", "is a int, not a AgentPart"),
        ("from goclaw.declare import agent\nBAD = agent('good', '')", "agents.bad", "it calls itself good, not bad"),
        ("from goclaw.declare import agent\nBAD = agent('Bad One', '')", "agents.Bad One", "no agent can be called"),
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
    config = Config(state_dir=tmp_path)
    parts = await load_parts(config)
    with caplog.at_level(logging.WARNING):
        async with open_sources(parts.merged(config), SteppedClock(), parts) as sources:
            ((what, why),) = sources.faults.items()
    assert f"plugin {line} (bad-tools 1.0)" in what and fault in why
    assert parts.merged(config).agents.kinds == {}
