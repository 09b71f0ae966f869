"""What a call of an MCP server's tool costs beyond the library's bare call, to two programs of the same kind.

Both calls are made by turns, so that whatever else the machine does concerns both. Beyond the bare call are: who may do
that, arguments checked against the server's schema, hooks, approval, order, the answer's form, masking, the audit log.
"""

import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters

from benchmarks.figures import Figure, Options, percentile
from benchmarks.gateways import ROOT
from goclaw.common.core.catalog import TOOL_SOURCES
from goclaw.common.core.plugins import load
from goclaw.testing import Bench, open_bench
from goclaw.tools.toolkit.base import ConnectingSource
from goclaw.tools.toolkit.sources import SourcePart

CALLS, WARM_UP = 1_000, 50
SERVER = ["-S", str(ROOT / "tests" / "tools" / "mcp" / "misbehaving.py")]
GIVEN = {"text": "hello"}


async def measure_mcp_calls(options: Options) -> list[Figure]:
    """Both kinds of call, and the difference."""
    async with _bare() as bare, _ours() as ours:
        for call in (bare, ours):
            for _ in range(WARM_UP):
                await call()
        times: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(options.times(CALLS)):
            times["bare"].append(await _timed(bare))
            times["ours"].append(await _timed(ours))
    detail = {name: {f"p{at}": round(percentile(values, at), 3) for at in (50, 95)} for name, values in times.items()}
    return [
        Figure("the library's bare call, p50", "ms", percentile(times["bare"], 50), detail=detail),
        *(
            Figure(
                f"a call of an MCP server's tool, beyond the library's bare call, p{at}",
                "ms",
                percentile(times["ours"], at) - percentile(times["bare"], at),
                1.0 if at == 50 else None,
            )
            for at in (50, 95)
        ),
    ]


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await call()
    return 1000 * (time.perf_counter() - began)


@asynccontextmanager
async def _bare() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    async with Client(StdioServerParameters(command=sys.executable, args=SERVER)) as client:

        async def call() -> None:
            result = await client.call_tool("echo", GIVEN)
            if result.is_error:
                raise RuntimeError(str(result.content))

        await client.list_tools()
        yield call


@asynccontextmanager
async def _ours() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    source = load(TOOL_SOURCES["mcp"], SourcePart)
    servers = {"bench": {"command": sys.executable, "args": SERVER}}
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as folder:
        async with open_bench(Path(folder), sources=[source], mcp={"servers": servers}) as bench:
            await _settled(bench)

            async def call() -> None:
                result = await bench.call("mcp__bench__echo", GIVEN)
                if result.is_error:
                    raise RuntimeError(result.content)

            yield call


async def _settled(bench: Bench) -> None:
    for source in bench.sources:
        if isinstance(source, ConnectingSource):
            await source.settled(30)
