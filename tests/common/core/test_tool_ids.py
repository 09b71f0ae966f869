"""The ids of agents' own tools, and the names that models know them by."""

import re

from goclaw.common.core.tool_ids import local_id, short_name, wire_name

ANSWER = local_id("chat/chat.helpers", "answer")


def test_an_id_has_the_agent_the_set_and_the_tool() -> None:
    assert ANSWER == "chat.chat.helpers.answer" and short_name(ANSWER) == "answer"
    assert local_id("common", "answer") == "", "a set for everyone gives no id"
    assert short_name("exec") == "exec"


def test_a_model_calls_a_tool_by_its_own_name_unless_another_one_has_it() -> None:
    assert wire_name(ANSWER, ()) == "answer"
    assert wire_name(ANSWER, {"answer"}) == "chat-helpers-answer-fc546bc1", "stored conversations have this name"
    assert wire_name("chat.wiki.mcp__wiki__find", ()).startswith("wiki-mcp-wiki-find-"), "no tool of an MCP server"


def test_every_provider_takes_the_name_and_no_two_tools_have_one() -> None:
    long = "x" * 60
    names = {wire_name(f"chat.{long}.{tool}", {tool}) for tool in ("a", "b", "ünlike", f"{long}_1", f"{long}_2")}
    names |= {wire_name(f"chat.{each}.find", {"find"}) for each in ("a.b", "a-b", "a_b")}
    assert len(names) == 8 and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert not any("__" in name for name in names)
