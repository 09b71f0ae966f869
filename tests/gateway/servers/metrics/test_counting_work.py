"""What counting costs: a turn does at most 5 % more with the metrics on, and nothing of them is there when off."""

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import pytest

import goclaw
from goclaw.common.core.messages import ToolCall
from tests.acceptance.waiting import clock
from tests.gateway.servers.metrics.calling import MetricsWorld, reading, site
from tests.harness import Answer
from tests.work.measure import FILE, PERSON, STARTED_SECONDS, TURNS, runs_of
from tests.work.stage import open_stage, tracer

MORE = 1.05
KINDS = ("calls", "statements", "transactions", "fsyncs", "hops", "tasks", "log-lines", "requests", "system-calls")
PARTS = {"prometheus_client", "goclaw.gateway.servers.metrics.counting"}
ON = {"metrics": True, "port": 0}


async def least(**more: object) -> tuple[Mapping[tuple[str, str], int], frozenset[str]]:
    """The least of each count of a plain turn and of one with a tool, by scenario and kind; and the loaded modules."""
    found: dict[tuple[str, str], int] = {}
    async with open_stage({PERSON: 0}, **more) as stage:
        (stage.folder / "work" / FILE).write_text("The blue boat.\n")
        await clock.sleep(STARTED_SECONDS)
        await stage.quiet()
        for name in ("plain", "tool"):
            runs = [run.totals() for run in await runs_of(stage, name, *TURNS[name])]
            found |= {(name, kind): min(run.get(kind, 0) for run in runs) for kind in KINDS}
        return found, frozenset(await stage.ask("modules"))


async def calls_of_a_turn(folder: Path, *, counted: bool) -> Counter[str]:
    """The calls of our own functions in a turn with a tool, by file; of the second, as the first loads modules."""
    calls, own = Counter[str](), str(Path(goclaw.__file__).parent)
    script = (Answer(calls=(ToolCall("c1", "read", {}),)), Answer("Done, and that in a few words.", deltas=8)) * 2
    world = MetricsWorld(folder, *script, tools=[reading])

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (path := frame.f_code.co_filename).startswith(own):
            calls[path.removeprefix(own)] += 1

    async with world.running() as core, site(world, core) if counted else nullcontext():
        await core.say("one")
        await core.settled()
        before = core.database.writes
        sys.setprofile(look)
        try:
            await core.say("two")
            await core.settled()
        finally:
            sys.setprofile(None)
        calls["writes"] = core.database.writes - before
    return calls


@pytest.mark.promise("P-metrics")
async def test_a_turn_of_the_core_calls_hardly_more_when_it_is_counted(tmp_path: Path) -> None:
    off_folder, on_folder = tmp_path / "off", tmp_path / "on"
    off_folder.mkdir()
    on_folder.mkdir()
    off = await calls_of_a_turn(off_folder, counted=False)
    on = await calls_of_a_turn(on_folder, counted=True)
    own = sum(count for path, count in on.items() if path.startswith("/gateway/servers/metrics/"))
    assert 0 < own <= (MORE - 1) * off.total(), "what counting itself does"
    assert on["/common/core/bus.py"] == off["/common/core/bus.py"] and on["writes"] == off["writes"] > 0
    assert not [path for path in off if "metrics" in path]


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_turn_does_hardly_more_when_it_is_counted() -> None:
    off, unloaded = await least()
    on, loaded = await least(http=ON)
    assert not PARTS & unloaded and loaded >= PARTS
    assert off["plain", "calls"] > 1_000 and (not tracer() or off["plain", "system-calls"] > 50)
    # One system call more or less is the scheduler's.
    above = {key: (off[key], on[key]) for key in off if on[key] > MORE * off[key] + (key[1] == "system-calls")}
    if above:
        # On a busy machine an answer may come in parts; what counting costs is there again.
        on, _ = await least(http=ON)
        above = {key: (off[key], on[key]) for key in above if on[key] > MORE * off[key] + (key[1] == "system-calls")}
    assert not above
