"""What an idle daemon holds: before anybody wrote, and after the first turns, on each wire."""

import asyncio

from benchmarks.figures import Figure, Options
from benchmarks.stage import PEOPLE, WIRES, open_stage

SETTLE_SECONDS = 2.0
"""After this, what a start or a turn leaves running beside it is done (models found, sandbox proven)."""
FIRST_PEOPLE, FIRST_TURNS = 5, 4


async def measure_memory(options: Options) -> list[Figure]:
    """Proportional set size of the daemon and its children."""
    figures = []
    async with open_stage():
        pass  # the first start ever compiles the modules, which takes memory that no later one needs
    for wire in WIRES:
        async with open_stage(wire) as (world, daemon):
            await asyncio.sleep(SETTLE_SECONDS)
            before, processes = daemon.mebibytes(), len(daemon.family())
            await world.talk(PEOPLE[:1], 1)
            await world.talk(PEOPLE[:FIRST_PEOPLE], FIRST_TURNS)
            await asyncio.sleep(SETTLE_SECONDS)
            detail = {"processes": processes, "turns": FIRST_PEOPLE * FIRST_TURNS + 1}
            figures += [
                Figure(f"idle memory before the first turn, {wire}", "MiB", before, 75, detail=detail),
                Figure(f"idle memory after the first turns, {wire}", "MiB", daemon.mebibytes(), 85, detail=detail),
            ]
    return figures
