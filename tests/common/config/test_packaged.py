"""What packages declare lies below what the operator says, key by key."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.conversation.agent.kinds import Kinds
from goclaw.errors import ConfigError
from tests.plugin import install, packages

__all__ = ["packages"]

SOURCE = """
from goclaw.declare import *

async def look_up(word: str) -> str:
    return word

CORP = registry("corp", url("https://r.example"), timeout("9s"))
DATA = toolset("data", from_registry(CORP, "data-tools"), version("1.2.3"))
CHAT = agent(
    "chat",
    "Talks.",
    use("words", tool("look_up", "Look up.", args(attribute("word", str), required("word")),
        bind_to(look_up, side_effect=SideEffect.READ_ONLY))),
    export("asking", tool("ask_chat", "Ask.", args(attribute("about", str), required("about")))),
    run_policy(default_caps(max_tool_calls(8), max_tokens(9000)), time_budget("2m"), interrupts_allowed(False)),
)
"""
LINES = {"agents.chat": "chat_agents:CHAT", "toolsets.data": "chat_agents:DATA"}
CHAT = "agent chat of plugin agents.chat (chat-agents 1.0)"


@pytest.fixture(autouse=True)
def package(packages: Path) -> None:
    install(packages, "chat-agents", {"chat_agents": SOURCE}, LINES)


def load(folder: Path, text: str = "", environ: dict[str, str] | None = None, **said: Any) -> Loaded:
    file = folder / "config.yaml"
    file.write_text(text)
    file.chmod(0o600)
    return load_config(file, environ={"GOCLAW_STATE_DIR": str(folder), **(environ or {})}, **said)


def test_one_key_of_the_operator_changes_that_key_only(tmp_path: Path) -> None:
    loaded = load(tmp_path, "agents: {kinds: {chat: {policy: {max_tool_calls: 3}}}}")
    chat = loaded.config.agents.kinds["chat"]
    assert (chat.policy.max_tool_calls, chat.policy.max_tokens, chat.policy.time_budget) == (3, 9_000, 120)
    assert (chat.description, chat.tools, chat.policy.interrupts_allowed) == ("Talks.", ("set:chat/words",), False)
    policy = ("agents", "kinds", "chat", "policy")
    assert loaded.origin((*policy, "max_tool_calls")) == f"{tmp_path / 'config.yaml'}:1:34"
    assert loaded.origin((*policy, "max_tokens")) == CHAT


def test_an_agent_of_a_package_leaves_the_built_in_kind_and_one_of_the_operator_replaces_it(tmp_path: Path) -> None:
    assert Kinds(load(tmp_path).config).find("").name == "general"
    changed = load(tmp_path, "agents: {kinds: {chat: {description: Mine.}}}").config.agents.kinds
    assert set(changed) == {"chat", "general"}, "chat is still the package's"
    own = load(tmp_path, "agents: {kinds: {reader: {tools: [read]}}}").config.agents.kinds
    assert set(own) == {"chat", "reader"}


def test_lists_count_whole_and_null_is_what_the_package_says(tmp_path: Path) -> None:
    text = """
agents: {kinds: {chat: {tools: [read], description: null}}}
tools: {sets: {chat/words: [glob]}, from_registry: {data: {version: null, private: true}}}
"""
    config = load(tmp_path, text).config
    chat, data = config.agents.kinds["chat"], config.tools.from_registry["data"]
    assert (chat.tools, chat.description) == (("read",), "Talks.")
    assert config.toolsets["chat/words"] == ("glob",)
    assert (data.registry, data.version, data.private) == ("corp", "1.2.3", True)


def test_replace_puts_aside_what_the_package_says_there_and_no_more(tmp_path: Path) -> None:
    text = "agents: {kinds: {chat: {policy: {replace: true, timing: {plan: 5s}}}}}\n"
    chat = load(tmp_path, text).config.agents.kinds["chat"]
    assert (chat.policy.max_tool_calls, chat.policy.time_budget, chat.policy.timing.plan) == (None, None, 5)
    assert chat.description == "Talks."
    alone = load(tmp_path, "agents: {kinds: {chat: {replace: true, description: Mine.}}}").config.agents.kinds["chat"]
    assert (alone.description, alone.tools, alone.exports) == ("Mine.", None, {})


def test_a_schema_is_one_value_and_never_half_of_two(tmp_path: Path) -> None:
    text = "agents: {kinds: {chat: {exports: {asking: {tools: {ask_chat: {arguments: {topic: string}}}}}}}}"
    asked = load(tmp_path, text).config.agents.kinds["chat"].exports["asking"].tools["ask_chat"]
    assert list(asked.arguments["properties"]) == ["topic"] and asked.description == "Ask."


def test_a_secret_of_the_environment_is_enough_for_a_packaged_registry(tmp_path: Path) -> None:
    corp = load(tmp_path, environ={"GOCLAW_REGISTRIES__corp__AUTH": "token-of-the-house"}).config.registries["corp"]
    assert corp.auth and (corp.url, corp.timeout) == ("https://r.example", 9)


def test_what_contradicts_the_package_is_refused_with_both_places_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, "agents: {kinds: {chat: {policy: {timing: {plan: 5s}}}}}")
    (line,) = refused.value.problems
    assert line.startswith(f"{tmp_path / 'config.yaml'}:1:34: agents.kinds.chat.policy.timing: excludes `time_budget`")
    assert line.endswith(f"({CHAT} declares more of it; `agents.kinds.chat.replace: true` ignores that)")


@pytest.mark.promise("P-plugins-stop-nothing")
def test_half_an_agent_is_none_while_its_package_is_broken(packages: Path, tmp_path: Path) -> None:
    """Its tools and limits are in the package: alone, the operator's half would be an agent with every tool."""
    (packages / "chat_agents.py").write_text("1 / 0")
    text = "agents: {kinds: {chat: {policy: {max_tool_calls: 3}}, own: {}}}\nregistries: {corp: {auth: token-of-it}}\n"
    loaded = load(tmp_path, text)
    assert list(loaded.config.agents.kinds) == ["own"] and loaded.config.registries == {}
    assert loaded.packaged.faults["agents.kinds.chat"].startswith("is ignored because the package that declares it")
    assert "has no `url`" in loaded.packaged.faults["registries.corp"]
    assert "ZeroDivisionError" in loaded.packaged.faults["plugin agents.chat (chat-agents 1.0)"]
    alone = load(tmp_path, "agents: {kinds: {chat: {replace: true}}}")
    assert list(alone.config.agents.kinds) == ["chat"]


def test_no_foreign_code_is_loaded_where_the_rest_can_be_used_alone(packages: Path, tmp_path: Path) -> None:
    (packages / "chat_agents.py").write_text("raise SystemExit('loaded')")
    loaded = load(tmp_path, "agents: {kinds: {chat: {policy: {max_tool_calls: 3}}}}", packages=False)
    assert loaded.packaged.faults == {} and "chat" in loaded.config.agents.kinds
    half = load(tmp_path, "registries: {corp: {auth: token-of-it}}", packages=False)
    assert "plugin agents.chat (chat-agents 1.0)" in half.packaged.faults
