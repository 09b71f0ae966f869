"""Agents in code: what they compile to is what the configuration would have said."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.messages import ToolCall
from goclaw.llm.scripted import ANSWERS, Answer
from goclaw.program.app.bench import open_agent
from goclaw.tools.builtin.exported import exported_tool, offers
from goclaw.tools.declare import (
    SideEffect,
    agent,
    agent_toolset,
    args,
    attribute,
    bind_to,
    confirmation,
    default_caps,
    description,
    disable_agent_docs,
    export,
    max_consecutive_failed_tool_calls,
    max_tool_calls,
    mcp_toolset,
    model,
    own_tools,
    passthrough,
    prompt,
    publish_to,
    registry,
    required,
    returns,
    run_policy,
    system_prompt,
    tags,
    time_budget,
    tool,
    tools_profile,
    toolset,
    url,
    use,
    use_agent_toolset,
    use_selected,
)
from goclaw.tools.toolkit.parts import AgentPart, PackageParts
from tests.conversation.sessions.agents import asks_for, says
from tests.harness import Tools, World
from tests.parts import Trail, acting
from tests.plugin import merged

GOAL = args(attribute("goal", str, "Goal to plan for"), required("goal"))
COMMON = toolset("common", *(acting(name, Trail(name).leave) for name in ("notify", "search")))
READS = SideEffect.READ_ONLY
CORP = registry("corp", url("https://registry.corp.example"))


async def log_message(message: str) -> str:
    """Log it."""
    return f"logged {message}"


METHOD = tool("log_it", "Log a message.", passthrough(log_message))
CHAT = agent(
    "chat",
    "Conversational runner",
    use(COMMON, "notify"),
    use("helpers", tool("answer", "Answer.", bind_to(lambda: "yes", side_effect=SideEffect.NONE))),
    use(agent_toolset("planner", "planning.tools")),
    use_selected("tag:memory", "-exec"),
    model("ollama:big", "ollama:small"),
    system_prompt("Be brief."),
    tools_profile("core"),
    export(
        "chat.tools",
        description("What chat can do."),
        tags("chat"),
        own_tools(),
        publish_to(CORP),
        tool(
            "summarize_status",
            "Produce operator-ready summaries",
            GOAL,
            returns(attribute("summary", str, "Assistant response"), required("summary")),
            prompt("Summarize {{ goal }}."),
            confirmation(prompt_template="Summarize {{ goal }}?"),
        ),
        tool("read_it", "Read.", args(attribute("path", str), required("path")), passthrough("read")),
        METHOD,
    ),
    run_policy(default_caps(max_tool_calls(8), max_consecutive_failed_tool_calls(3)), time_budget("2m")),
    disable_agent_docs(),
)
WRITTEN = """
description: Conversational runner
tools: [notify, "set:chat/helpers", "set:planner/planning.tools", "tag:memory", "-exec", read]
model: ollama:big
fallbacks: [ollama:small]
prompt: Be brief.
tools_profile: core
policy: {max_tool_calls: 8, max_consecutive_failed_tool_calls: 3, time_budget: 2m}
exports:
  chat.tools:
    description: What chat can do.
    tags: [chat]
    own_tools: true
    publish_to: [corp]
    include: [log_it]
    tools:
      summarize_status:
        description: Produce operator-ready summaries
        arguments: {goal: {type: string, description: Goal to plan for}}
        result: {summary: {type: string, description: Assistant response}}
        prompt: Summarize {{ goal }}.
        confirm: {prompt: "Summarize {{ goal }}?"}
      read_it:
        description: Read.
        arguments: {path: string}
        passthrough: {tool: read}
"""


def test_an_agent_in_code_is_the_one_that_the_configuration_would_declare() -> None:
    assert CHAT.settings == AgentSettings.model_validate(yaml.safe_load(WRITTEN))
    assert (CHAT.name, CHAT.quickstart) == ("chat", False)


def test_its_own_toolsets_and_what_methods_do_come_with_it() -> None:
    assert [(part.name, part.members) for part in CHAT.toolsets] == [
        ("common", ("notify", "search")),
        ("chat/helpers", ("answer",)),
        ("chat/chat.tools.methods", ("log_it",)),
    ]


def of_agents(*parts: Any) -> Config:
    return merged(PackageParts(agents={part.name: part for part in parts}))


def test_what_is_declared_is_in_the_configuration_as_if_it_were_written_there() -> None:
    config = of_agents(CHAT)
    assert config.agents.kinds["chat"] == CHAT.settings and config.agents.quickstart is False
    assert config.toolsets["chat/helpers"] == ("answer",)
    assert config.toolsets["chat/chat.tools"] == ("summarize_status", "read_it", "log_it")


def test_use_takes_a_whole_toolset_or_some_of_it() -> None:
    assert agent("a", "", use(COMMON)).settings.tools == ("set:common",)
    assert agent("a", "", use(COMMON, "search")).settings.tools == ("search",)
    assert agent("a", "").settings.tools == (), "what uses nothing has nothing"
    wiki = mcp_toolset("wiki", "words", tool("find", "Find."), tool("look", "Look."))
    assert agent("a", "", use(wiki)).settings.tools == ("set:words",)
    assert agent("a", "", use(wiki, "find")).settings.tools == ("tag:words:find",), "and only as it is pinned"


def test_a_toolset_of_an_agents_own_has_the_agents_name_before_it() -> None:
    def made(name: str) -> AgentPart:
        return agent(name, "", use("helpers", tool(f"do_{name}", "Do.", bind_to(lambda: "", side_effect=READS))))

    config = of_agents(made("one"), made("two"))
    assert config.toolsets["one/helpers"] == ("do_one",) and config.toolsets["two/helpers"] == ("do_two",)
    assert config.agents.kinds["two"].tools == ("set:two/helpers",)


def test_the_alias_is_use_and_agent_toolset() -> None:
    assert use_agent_toolset("planner", "x") == use(agent_toolset("planner", "x"))


def test_an_existing_toolset_is_exported_as_it_is() -> None:
    made = agent("data", "", use(COMMON), export(COMMON, publish_to(CORP), tags("data", "etl")))
    exported = made.settings.exports["common"]
    assert exported.include == ("notify", "search") and exported.tools == {}
    assert exported.publish_to == ("corp",) and exported.tags == ("data", "etl")


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: agent("a", "", run_policy(), run_policy()), "run_policy is said twice"),
        (lambda: agent("a", "", model("ollama:a"), model("ollama:b")), "model is said twice"),
        (lambda: agent("a", "", export("x"), export("x")), "x is exported twice"),
        (lambda: agent("a", "", use("x", METHOD), export("x")), "x is the name of two toolsets of its own"),
        (lambda: use(COMMON, "nobody"), "has no tool nobody; there are notify, search"),
        (lambda: use("empty"), "has tools of its own"),
        (lambda: use("helpers", tool("a", "A.")), "nothing does it"),
        (lambda: export("set", tool("read", "Read.")), "built-in tool"),
        (lambda: export(COMMON, METHOD), "common: code does log_it, so add it where the toolset is declared"),
    ],
)
def test_what_does_not_hold_together_is_refused_when_it_is_declared(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build()


async def test_a_limit_of_the_operators_holds_a_packaged_agent_that_keeps_its_tools(tmp_path: Path) -> None:
    words = use("words", *(acting(name, Trail(name).leave) for name in ("look_up", "spell")))
    chat = agent("chat", "Talks.", words, run_policy(default_caps(max_tool_calls(8))))
    script = [
        asks_for("hello", ToolCall("c1", "look_up", {}), ToolCall("c2", "spell", {})),
        says("", "Done."),
    ]
    operator = {"kinds": {"chat": {"policy": {"max_tool_calls": 1}}}, "routes": [{"agent": "chat"}]}
    world = World(tmp_path, script, agents=operator)
    parts = PackageParts(agents={"c": chat})
    world.config = merged(parts, world.config)
    world.tools = Tools([each for _, tools in parts.tools for each in tools])
    async with world.running() as core:
        await core.say("hello")
        await core.settled()
    (said,) = world.texts()
    assert "after 1 tool calls in one turn" in said
    assert [spec.name for spec in world.script.requests[0].tools] == ["look_up", "spell"]


async def test_declared_agents_work_together_in_a_conversation(tmp_path: Path) -> None:
    exported = export("planning.tools", own_tools(), tool("create_plan", "Plan.", GOAL, prompt("Plan {{ goal }}!")))
    planner = agent("planner", "Plans.", use(COMMON), exported)
    chat = agent("chat", "Talks.", use(agent_toolset("planner", "planning.tools")))
    script = [
        asks_for("hello", ToolCall("c1", "create_plan", {"goal": "a party"})),
        asks_for("Plan a party!", ToolCall("n", "search", {})),
        says("search", "cake"),
        says("cake", "Done."),
    ]
    world = World(tmp_path, script, limits={"agent_depth": 2})
    parts = PackageParts(agents={"p": planner, "c": chat})
    config = merged(parts, world.config)
    routed = config.agents.model_validate({**config.agents.model_dump(), "routes": [{"agent": "chat"}]})
    world.config = config.model_copy(update={"agents": routed})
    declared = [each for _, tools in parts.tools for each in tools]
    world.tools = Tools([*declared, *(exported_tool(offer) for offer in offers(world.config.agents.exports))])
    async with world.running() as core:
        await core.say("hello")
        await core.settled()
    assert world.texts() == ["Done."]
    shown = [[spec.name for spec in request.tools] for request in world.script.requests]
    assert shown == [["create_plan"], ["notify", "search"], ["notify", "search"], ["create_plan"]]


async def test_passthrough_brings_its_tool_along_for_the_exporting_agent(tmp_path: Path) -> None:
    logged: list[str] = []

    @tool
    def keep_line(message: str) -> str:
        """Keep a line."""
        logged.append(message)
        return "kept"

    shape = {"message": {"type": "string"}}
    offered = tool(
        "log_message", "Log a message.", passthrough(keep_line), args={"type": "object", "properties": shape}
    )
    logger = agent("logger", "Logs.", exports=[export("logs", offered, own_tools())])
    chat = agent("chat", "Talks.", uses=[agent_toolset("logger", "logs")])
    assert logger.settings.tools == ("keep_line",)
    script = tmp_path / "script.json"
    answers = (Answer(calls=(ToolCall("c1", "log_message", {"message": "hello"}),)), Answer("Done."))
    script.write_bytes(ANSWERS.dump_json(answers))
    parts = PackageParts(agents={"l": logger, "c": chat})
    async with open_agent(tmp_path, parts, "chat", model=f"scripted:{script}") as bench, asyncio.timeout(30):
        assert await bench.say("Log hello") == "Done."
    assert logged == ["hello"]
