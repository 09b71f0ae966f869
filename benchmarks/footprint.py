"""How soon GoClaw polls, and the memory that it holds: idle, and after many messages."""

import asyncio
import re

from benchmarks.figures import Figure, Options
from benchmarks.gateways import FLOOR, GOCLAW, GOCLAW_IMPORTING, Gateway
from benchmarks.overhead import ratio
from benchmarks.stage import CROWD, OUTPUT, open_stage

IMPORTED = re.compile(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", re.MULTILINE)
STARTS = 12
NANOBOT_FLOORS = 1.28 / 0.25
"""What nanobot 0.3.5 takes to its first poll, in times of the floor: measured in one run (2026-11-23)."""
TO_NANOBOT, AIM_TO_NANOBOT = 0.6, 0.4
SETTLE_SECONDS = 5.0
"""After this, what a start or a turn leaves running beside it is done (models found, sandbox proven)."""
CHATS, AT_ONCE, MESSAGES = 250, 50, 10


async def measure_start(options: Options) -> list[Figure]:
    """From a gateway's process start to its first getUpdates, on an empty state folder; by turns."""
    rounds = []
    nanobot = "nanobot" if options.peers else f"{NANOBOT_FLOORS:g} floors"
    for _ in range(1 + options.times(STARTS)):
        found = {gateway.name: await start_seconds(gateway) for gateway in (GOCLAW, FLOOR, *options.peers)}
        rounds.append({nanobot: NANOBOT_FLOORS * found["floor"]} | found)
    kept = rounds[1:]  # the first start ever compiles the modules
    modules = await import_table()
    milliseconds = sum(each["ms"] for each in modules.values())
    count = sum(each["modules"] for each in modules.values())
    note, detail = f"{milliseconds:.0f} ms, which saying so makes longer", {"packages": modules}
    return [
        ratio("start to the first getUpdates", "s", kept, TO_NANOBOT, AIM_TO_NANOBOT, beside=nanobot),
        Figure("modules imported until then", "modules", count, detail=detail, note=note),
    ]


async def start_seconds(gateway: Gateway) -> float:
    """One start."""
    async with open_stage(gateway=gateway) as (world, daemon):
        return float((await world.state())["first_poll"] - daemon.started)


async def import_table() -> dict[str, dict[str, float]]:
    """What GoClaw imports until its first getUpdates: modules and milliseconds of their own code, by package."""
    found: dict[str, dict[str, float]] = {}
    async with open_stage(gateway=GOCLAW_IMPORTING) as (_, daemon):
        for microseconds, name in IMPORTED.findall(daemon.config.with_name(OUTPUT).read_text("utf-8")):
            package = found.setdefault(name.partition(".")[0], {"modules": 0, "ms": 0.0})
            package["modules"] += 1
            package["ms"] = round(package["ms"] + int(microseconds) / 1000, 1)
    return dict(sorted(found.items(), key=lambda item: -item[1]["ms"]))


async def measure_memory(options: Options) -> list[Figure]:
    """Proportional set size of all processes, one gateway after the other: idle, and after 2,500 messages."""
    idle, later, processes = {}, {}, {}
    for gateway in (FLOOR, *options.peers, GOCLAW):
        async with open_stage(gateway=gateway):
            pass  # the first start ever compiles the modules, which takes memory that no later one needs
        async with open_stage(gateway=gateway) as (world, daemon):
            await asyncio.sleep(SETTLE_SECONDS)
            idle[gateway.name], processes[gateway.name] = daemon.megabytes(), len(daemon.family())
            for first in range(0, CHATS, AT_ONCE):
                await world.talk(CROWD[first : first + AT_ONCE], options.times(MESSAGES))
            await asyncio.sleep(SETTLE_SECONDS)
            later[gateway.name] = daemon.megabytes()
    grown = {name: later[name] - idle[name] for name in idle}
    messages = CHATS * options.times(MESSAGES)
    return [
        _memory("PSS idle, all processes", idle, 80, 65, processes),
        _memory(f"PSS beyond idle after {messages:,} messages in {CHATS} chats", grown, 15, 10, processes),
    ]


def _memory(name: str, found: dict[str, float], bound: float, aim: float, processes: dict[str, int]) -> Figure:
    note = ", ".join(f"{name} {value:.1f}" for name, value in found.items()) + " MB"
    return Figure(name, "MB", found["goclaw"], bound, "lower", {"processes": processes}, aim, note)
