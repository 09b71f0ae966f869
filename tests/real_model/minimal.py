"""The least that can be asked of a model: one line of prompt, four tools. The product's own request has to be better.

The product's wire sends it and reads the answer, calls written as text too: only the request differs.
"""

import asyncio
from pathlib import Path

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import ToolSpec
from goclaw.llm.base import ChatModel, Finished, Request
from goclaw.llm.text_calls import read_block
from goclaw.llm.tool_calls import read_id
from tests.real_model.streams import SYSTEM, TOOLS

MOST_REQUESTS = 6
MOST_OUTPUT = 600
"""Tokens of one answer."""
RESULT_LIMIT = 4_000
COMMAND_SECONDS = 20.0
NAMES = {each["function"]["name"] for each in TOOLS}
SPECS = [ToolSpec(each["name"], each["description"], each["parameters"]) for each in (one["function"] for one in TOOLS)]


async def converse(model: ChatModel, workspace: Path, said: str) -> str:
    """Say something to the model and run what it calls, without any rights; return all that it said."""
    messages: list[Message] = [UserMessage(said)]
    texts = []
    for _ in range(MOST_REQUESTS):
        answer = read((await _ask(model, messages)).message)
        texts.append(answer.text)
        messages.append(answer)
        if not answer.calls:
            break
        messages += [await _run(call, workspace) for call in answer.calls]
    return "\n".join(texts)


def read(answer: AssistantMessage) -> AssistantMessage:
    """Return the answer with the calls that the product's reader finds in its text."""
    block = None if answer.calls else read_block(answer.text)
    if block is None or not {call.name for call in block.calls} <= NAMES:
        return answer
    calls = tuple(ToolCall(read_id(None), call.name, dict(call.arguments)) for call in block.calls)
    return AssistantMessage(answer.text[: block.start].rstrip(), calls)


async def _ask(model: ChatModel, messages: list[Message]) -> Finished:
    async with model.stream(Request(SYSTEM, messages, SPECS, MOST_OUTPUT)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event
    raise AssertionError("an answer has an end")


async def _run(call: ToolCall, workspace: Path) -> ToolResult:
    try:
        told = await _result(call, workspace)
    except (OSError, KeyError, TypeError, ValueError) as error:
        told = f"error: {error!r}"
    return ToolResult(call.id, call.name, told[:RESULT_LIMIT])


async def _result(call: ToolCall, workspace: Path) -> str:
    given = call.input
    if call.name == "read":
        return str((workspace / given["path"]).read_text("utf-8"))
    if call.name == "write":
        path = workspace / given["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["content"], "utf-8")
        return "written"
    if call.name == "remember":
        (workspace / "memo.txt").write_text(given["note"], "utf-8")
        return "kept"
    if call.name != "exec":
        return "no such tool"
    pipe = asyncio.subprocess.PIPE
    ran = await asyncio.create_subprocess_exec("bash", "-c", given["command"], cwd=workspace, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(COMMAND_SECONDS):
        out, err = await ran.communicate()
    return f"{(out + err).decode(errors='replace')}\nexit code {ran.returncode}"
