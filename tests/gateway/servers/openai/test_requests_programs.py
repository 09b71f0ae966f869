"""Requests as Open WebUI and LibreChat send them. Open WebUI's were recorded between it and the daemon; LibreChat's
(0.8, whose agents ask through LangChain) are written down from knowledge of it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import UserMessage
from tests.gateway.servers.openai.calling import content, service, streamed, world_with
from tests.harness import Answer

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "open_webui.json").read_text())
"""Bodies by what Open WebUI 0.12.4 sent them for; long texts of its own are shortened."""
TOOLS = RECORDED.pop("tools")
LIBRECHAT: dict[str, Any] = {
    "model": "goclaw",
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "665f1e0c2d1a4b0012345678",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ],
    "tools": [],
}
LIBRECHAT_TITLE: dict[str, Any] = {
    "model": "goclaw",
    "temperature": 0.2,
    "max_tokens": 16,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "stream": False,
    "messages": [
        {"role": "system", "content": "Write a title in 5 words or fewer."},
        {"role": "user", "content": "Hi"},
    ],
}


@pytest.mark.parametrize(
    ("messages", "asked"),
    [
        ([("system", "Say hello.")], "Say hello."),
        ([("system", "Be brief."), ("system", "Say hello.")], "Be brief.\n\nSay hello."),
        ([("user", "Hi"), ("developer", "In French.")], "Hi\n\nIn French."),
        ([("user", "Hi"), ("assistant", "Hello."), ("system", "Go on.")], "Go on."),
    ],
)
async def test_a_system_message_that_nothing_follows_is_answered(
    tmp_path: Path, messages: list[tuple[str, str]], asked: str
) -> None:
    world = world_with(tmp_path, Answer("A fine answer."))
    body = {"model": "goclaw", "messages": [{"role": role, "content": text} for role, text in messages]}
    async with world.running() as core, service(world, core) as served:
        assert content(await served.send(body, Authorization=f"bearer {served.secret()}")) == "A fine answer."
    last = world.script.requests[0].messages[-1]
    assert isinstance(last, UserMessage) and last.text.partition("</context>\n")[2] == asked


@pytest.mark.parametrize("body", [*RECORDED.values(), LIBRECHAT, LIBRECHAT_TITLE])
async def test_what_other_programs_send_is_answered(tmp_path: Path, body: dict[str, Any]) -> None:
    world = world_with(tmp_path, Answer("A fine answer."))
    headers = {"X_OpenWebUI_User_Id": "u", "User_Agent": "x", "Accept": "text/event-stream, application/json"}
    async with world.running() as core, service(world, core) as served:
        listed = await served.send({}, "/v1/models", method="GET")
        assert [model["id"] for model in listed.said["data"]] == ["goclaw"]
        answered = await served.send(body, **headers)
        text = streamed(answered.said) if body["stream"] else content(answered)
        assert text == "A fine answer."
    said = [each for each in body["messages"] if each["role"] != "system"]
    assert len(world.script.requests[0].messages) == len(said)


async def test_open_webui_s_own_tools_are_refused_with_the_switch_to_turn(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        refused = await served.send(TOOLS)
    assert (refused.status, refused.error["param"]) == (400, "tools")
    assert "Builtin Tools" in refused.error["message"]
