"""What the dispatcher itself costs per call, and the calls of one answer beside each other, in this process.

Everything around the calls is the daemon's own: all tools of the catalogue, the users, the audit log, the log on disk.
The journal is left out: the benchmark of that name measures it.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Options, percentile, spread
from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor, Address
from goclaw.common.core.messages import ToolCall
from goclaw.common.health.logs import open_logs
from goclaw.common.specs import SideEffect
from goclaw.program.app.parts import open_environment
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.scheduling import ResourceUse as Accesses
from goclaw.tools.toolkit.scheduling import slots
from goclaw.tools.toolkit.scope import CallOptions, CallScope
from goclaw.tools.toolkit.services import TurnServices
from goclaw.tools.toolkit.sources import BUILT_IN, Fixed, Named, Sources

ROUNDS, CALLS, WARM_UP = 5, 400, 50
BESIDE, SECONDS = 20, 0.1
ANNA = Actor("telegram:1", "telegram")


@tool(
    side_effect=SideEffect.READ_ONLY,
    call_hint="Saying {{ text }}",
    result_hint="{{ value | count }} characters",
    access=lambda arguments, context: Accesses(),
)
async def say(ctx: ToolContext, text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times


def _writes(arguments: Any, context: ToolContext) -> Accesses:
    return Accesses(writes=(arguments.path,))


@tool(side_effect=SideEffect.MUTATING, access=_writes, call_hint="Writing {{ path }}")
async def claim(ctx: ToolContext, path: str) -> str:
    """Write nothing to a file that nobody else may write meanwhile."""
    return f"wrote {path}"


@tool(side_effect=SideEffect.READ_ONLY)
async def rest(ctx: ToolContext) -> str:
    """Take its time."""
    await asyncio.sleep(SECONDS)
    return "rested"


async def measure_dispatch(options: Options) -> list[Figure]:
    """Calls one after the other, and many at once."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        config = Config.model_validate({"state_dir": Path(name) / "state", "workspace": Path(name) / "workspace"})
        with open_logs(config, None):
            async with _open(config) as dispatcher:
                plain = await _rounds(dispatcher, say, {"text": "hello"}, options)
                writing = await _rounds(dispatcher, claim, {"path": "notes/today.md"}, options)
                beside = [await _beside(dispatcher) for _ in range(options.times(ROUNDS))]
    detail = {"repetitions": len(beside), "max": round(max(beside), 1)}
    return [
        *spread("dispatcher's own cost of a call", "ms", plain, 0.3, 0.6),
        *spread("the same with a path that is followed on the disk", "ms", writing, 0.5, 1.0),
        Figure(f"{BESIDE} calls of 100 ms beside each other, p50", "ms", percentile(beside, 50), 150, detail=detail),
    ]


async def _rounds(dispatcher: Dispatcher, of: Tool, given: dict[str, Any], options: Options) -> list[list[float]]:
    await _one_by_one(dispatcher, of, given, WARM_UP)
    return [await _one_by_one(dispatcher, of, given, options.times(CALLS)) for _ in range(options.times(ROUNDS))]


async def _one_by_one(dispatcher: Dispatcher, of: Tool, given: dict[str, Any], count: int) -> list[float]:
    """Milliseconds of so many calls."""
    times = []
    for number in range(count):
        call = ToolCall(f"c{number}", of.spec.name, given)
        began = time.perf_counter()
        result = await dispatcher.call(call, SCOPE)
        times.append(1000 * (time.perf_counter() - began))
        if result.is_error:
            raise RuntimeError(result.content)
    return times


async def _beside(dispatcher: Dispatcher) -> float:
    """Milliseconds of all the calls of one answer."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, slot in enumerate(slots(BESIDE)):
            group.create_task(dispatcher.call(ToolCall(f"c{number}", "rest", {}), SCOPE, CallOptions(slot=slot)))
    return 1000 * (time.perf_counter() - began)


@asynccontextmanager
async def _open(config: Config) -> AsyncIterator[Dispatcher]:
    users, clock = Users([User(ANNA.key)]), RealClock()
    async with open_environment(config, users, clock) as environment:
        access = Access(users, config)
        sources = Sources([Named(BUILT_IN, BuiltIn()), Named("benchmark", Fixed([say, claim, rest]))])
        await sources.ready()
        yield Dispatcher(Registry([sources], access), access, environment)


SCOPE = CallScope(
    actor=ANNA,
    session=ANNA.key,
    address=Address("telegram", "1"),
    services=TurnServices(),
    turn="bench",
)
