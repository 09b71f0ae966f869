"""What stands in the wrong place of a declaration: refused when it is made, never dropped."""

import re
from typing import Any

import pytest

from goclaw.tools.declare import (
    SideEffect,
    agent,
    agent_toolset,
    args,
    artifact,
    attribute,
    bind_to,
    confirmation,
    default_caps,
    export,
    from_mcp,
    from_registry,
    include,
    keep_recent_turns,
    max_tool_calls,
    mcp_server,
    mcp_toolset,
    own_tools,
    passthrough,
    plan,
    publish_to,
    registry,
    returns,
    run_policy,
    static_prompt,
    tags,
    tool,
    toolset,
    url,
    use,
)
from tests.parts import Trail, acting
from tests.tables import table


async def wipe(path: str) -> str:
    return f"wiped {path}"


ASK: Any = confirmation(prompt_template="Wipe everything?")
WIPE = tool("wipe_all", "Wipe.", args(attribute("path", str)), bind_to(wipe, side_effect=SideEffect.MUTATING))
DOCS: Any = toolset("docs", acting("look_up", Trail().leave))
CORP = registry("corp", url("https://registry.corp.example"))
NOTHING: Any = None
JUNK: Any = "junk"
THREE: Any = max_tool_calls(3)
PLAN: Any = plan("3s")
INCLUDE: Any = include("data-*")
OWN: Any = own_tools()
HOUSE: Any = CORP
USE: Any = use(DOCS)
PROMPT: Any = static_prompt("p", "d")
RECENT: Any = keep_recent_turns(3)

MISPLACED = [
    (lambda: agent("x", "d", THREE), "x: max_tool_calls stands in run_policy(…), not in agent(…)"),
    (lambda: agent("x", "d", DOCS), "x: a toolset stands in use(…) or export(…), not in agent(…)"),
    (lambda: agent("x", "d", NOTHING), "x: None is nothing that agent(…) takes"),
    (lambda: agent("x", "d", JUNK), "x: 'junk' is nothing that agent(…) takes"),
    (lambda: agent("x", "d", OWN), "x: own_tools stands in export(…), not in agent(…)"),
    (lambda: agent("x", "d", HOUSE), "x: a registry stands in from_registry(…) or publish_to(…), not in agent(…)"),
    (lambda: toolset("wipers", WIPE, ASK), "wipers: confirmation stands in tool(…), not in toolset(…)"),
    (lambda: toolset("wipers", WIPE, NOTHING), "wipers: None is nothing that toolset(…) takes"),
    (lambda: toolset("wipers", USE), "wipers: use stands in agent(…), not in toolset(…)"),
    (lambda: toolset("memory", WIPE), "memory: is the name of a built-in set"),
    (lambda: toolset(NOTHING), "toolset: first must be str | FromRegistry, not None"),
    (lambda: tool("t", "d", THREE), "t: max_tool_calls stands in run_policy(…), not in tool(…)"),
    (lambda: export("x", ASK), "x: confirmation stands in tool(…), not in export(…)"),
    (lambda: export("x", *DOCS.tools), "x: a tool made by @tool stands in toolset(…) or use(…), not in export(…)"),
    (lambda: export(NOTHING), "export: None is nothing that export(…) takes"),
    (lambda: use(NOTHING), "use: None is nothing that use(…) takes"),
    (lambda: use("helpers", WIPE, ASK), "helpers: confirmation stands in tool(…), not in use(…)"),
    (lambda: use(agent_toolset("a", "b"), WIPE), "a/b: tools are added where it is exported"),
    (lambda: mcp_server("s", "1", ASK), "s: confirmation stands in tool(…), not in mcp_server(…)"),
    (lambda: mcp_server("s", "1", NOTHING), "s: None is nothing that mcp_server(…) takes"),
    (lambda: toolset("x", PROMPT), "x: a prompt of an MCP server stands in mcp_server(…), not in"),
    (lambda: registry("r", url("https://r.example"), NOTHING), "r: None is nothing that registry(…) takes"),
    (lambda: registry("r", INCLUDE), "r: include stands in federation(…), not in registry(…)"),
    (lambda: agent("x", "d", INCLUDE), "x: include stands in registry(…), not in agent(…)"),
    (lambda: publish_to(CORP, JUNK), "publish_to: 'junk' is nothing that publish_to(…) takes"),
    (lambda: from_registry(JUNK, "data"), "from_registry: source must be RegistryPart, not 'junk'"),
    (lambda: run_policy(THREE), "run_policy: max_tool_calls stands in default_caps(…), not in run_policy(…)"),
    (lambda: run_policy(default_caps(PLAN)), "default_caps: plan stands in timing(…), not in default_caps(…)"),
    (lambda: run_policy(RECENT), "run_policy: keep_recent_turns stands in history(…), not in run_policy"),
    (lambda: mcp_toolset("s", "x", tool("t", "d", ASK)), "t: confirmation does not go with from_mcp"),
    (lambda: toolset("x", from_mcp("s"), tags("a")), "x: tags does not go with from_mcp"),
    (lambda: toolset("x", tool("t", "d", passthrough(wipe), returns(int))), "t: returns does not go with passthrough"),
    (
        lambda: toolset("x", tool("t", "d", passthrough(wipe), artifact("a", str, taken=str))),
        "t: artifact does not go with passthrough",
    ),
]


@table("build, fault", MISPLACED)
def test_what_stands_in_the_wrong_place_is_refused_and_named(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}"):
        build()


def test_the_tags_of_a_toolset_are_those_of_every_tool_in_it() -> None:
    made = toolset("mixed", acting("note", Trail().leave), WIPE, tags("careful"))
    assert all("careful" in each.spec.tags for each in made.tools)
