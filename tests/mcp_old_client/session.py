"""A session of version 1 of the MCP library, which runs in an environment of its own: what it got, as JSON.

session.py URL TOKEN    over streamable HTTP
session.py - COMMAND…   with a program on its standard input and output
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters  # type: ignore[attr-defined, unused-ignore]  # of version 1
from mcp.client.stdio import stdio_client

SECONDS: Any = timedelta(seconds=30)


async def main(target: str, rest: list[str]) -> dict[str, Any]:
    """Connect, use everything once, and return what came."""
    async with AsyncExitStack() as stack:
        if target == "-":
            streams = await stack.enter_async_context(
                stdio_client(StdioServerParameters(command=rest[0], args=rest[1:]))
            )
        else:
            from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined, unused-ignore]  # of 1

            headers = {"Authorization": f"Bearer {rest[0]}"}
            streams = await stack.enter_async_context(streamablehttp_client(target, headers=headers))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1], read_timeout_seconds=SECONDS))
        return await used(session)


async def used(session: Any) -> dict[str, Any]:
    """What a session gets."""
    opened = await session.initialize()
    tools = (await session.list_tools()).tools
    written = await session.call_tool("write", {"path": "old.txt", "content": "from yesterday\n"})
    refused = await session.call_tool("nothing", {})
    resources = (await session.list_resources()).resources
    file = await session.read_resource("workspace:///old.txt")
    status = await session.read_resource("status://goclaw")
    prompt = await session.get_prompt("review", {"file": "old.txt"})
    return {
        "library": version("mcp"),
        "protocol": opened.protocolVersion,
        "server": opened.serverInfo.name,
        "tools": {tool.name: [tool.annotations.readOnlyHint, tool.outputSchema is not None] for tool in tools},
        "written": written.structuredContent,
        "refused": [refused.isError, refused.content[0].text],
        "resources": [str(each.uri) for each in resources],
        "file": [str(file.contents[0].uri), file.contents[0].mimeType, file.contents[0].text],
        "status": json.loads(status.contents[0].text)["running"],
        "prompt": [[each.role, each.content.text] for each in prompt.messages],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
