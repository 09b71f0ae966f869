"""Requests as Open WebUI and LibreChat send them. Written down from knowledge of these programs (Open WebUI 0.6, whose
backend passes the browser's body on; LibreChat 0.8, whose agents ask through LangChain), not recorded on a wire.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Answer
from tests.servers.openai.calling import content, service, streamed, world_with

DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="
OPEN_WEBUI: dict[str, Any] = {
    "stream": True,
    "model": "goclaw",
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello! How can I help?"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is in the picture?"},
                {"type": "image_url", "image_url": {"url": DOT}},
            ],
        },
    ],
    "stream_options": {"include_usage": True},
    "temperature": 0.7,
}
OPEN_WEBUI_TITLE: dict[str, Any] = {
    "model": "goclaw",
    "messages": [{"role": "user", "content": "### Task:\nGenerate a concise, 3-5 word title."}],
    "stream": False,
    "max_completion_tokens": 1000,
}
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


@pytest.mark.parametrize("body", [OPEN_WEBUI, OPEN_WEBUI_TITLE, LIBRECHAT, LIBRECHAT_TITLE])
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


async def test_open_webui_s_native_tools_are_refused_by_name(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        refused = await served.send({**OPEN_WEBUI, "tools": [tool]})
    assert (refused.status, refused.error["param"]) == (400, "tools") and "Open WebUI" in refused.error["message"]
