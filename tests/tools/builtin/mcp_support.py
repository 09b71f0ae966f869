"""A bench with MCP servers: the real source, the real client, programs that run."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin.mcp_source import SOURCE, McpSource
from goclaw.tools.toolkit.base import Tool

MISBEHAVING = Path(__file__).parents[1] / "mcp" / "misbehaving.py"
SECONDS = 20.0


def misbehaving(*words: str, **more: Any) -> dict[str, Any]:
    """The settings of that server."""
    return {"command": sys.executable, "args": ["-S", str(MISBEHAVING), *words], **more}


def listing(folder: Path, *tools: Mapping[str, Any]) -> str:
    """A file from which it takes its tools."""
    file = folder / "tools.json"
    file.write_text(json.dumps([{"inputSchema": {"type": "object"}, **tool} for tool in tools]))
    return str(file)


@asynccontextmanager
async def bench_with(folder: Path, servers: Mapping[str, Any], **settings: Any) -> AsyncIterator[Bench]:
    """A bench on which these servers have been looked at."""
    async with open_bench(folder, sources=[SOURCE], mcp={"servers": dict(servers)}, **settings) as bench:
        await source_of(bench).settled(SECONDS)
        yield bench


def source_of(bench: Bench) -> McpSource:
    return cast("McpSource", bench.sources[0])


def tools_of(bench: Bench) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in bench.sources[0].tools()}


async def until(fact: Callable[[], bool]) -> None:
    """Wait for something that another task brings about."""
    async with asyncio.timeout(SECONDS):
        while not fact():
            await asyncio.to_thread(str)  # programs bring it about: their pipes are read meanwhile
