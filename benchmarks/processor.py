"""CPU time of a message: user and system time of the daemon and its children, divided by the messages."""

from benchmarks.figures import Figure, Options
from benchmarks.stage import PEOPLE, Daemon, World, open_stage

ROUNDS = 3
MESSAGES = 6
"""Messages of each of the fifty people in a round: enough for the kernel's clock ticks of 10 ms not to matter."""
CALM_PAUSE = 0.005
"""Seconds between deltas that come as slowly as real ones: each alone, and long enough for a preview to be shown."""


async def measure_cpu(options: Options) -> list[Figure]:
    """With short and with long answers, one message at a time."""
    async with open_stage() as (world, daemon):
        await milliseconds(world, daemon, 1)
        figures = []
        for deltas, target in ((4, 7.0), (200, 15.0)):
            await world.model(deltas=deltas)
            times = range(options.times(ROUNDS))
            rounds = [await milliseconds(world, daemon, options.times(MESSAGES)) for _ in times]
            detail = {"rounds": [round(value, 2) for value in rounds]}
            figures.append(Figure(f"CPU per message, {deltas} deltas", "ms", min(rounds), target, detail=detail))
        await world.model(deltas=200, pause=CALM_PAUSE)
        calm = await milliseconds(world, daemon, 1, together=True)
        return [*figures, Figure("CPU per message, 200 deltas in a second, with previews", "ms", calm)]


async def milliseconds(world: World, daemon: Daemon, messages: int, *, together: bool = False) -> float:
    """CPU time of one message on average; each of the fifty people writes so many. `together`: at the same time."""
    before = daemon.cpu_seconds()
    if together:
        await world.talk(PEOPLE, messages)
    else:
        for _ in range(messages):
            for person in PEOPLE:
                await world.talk([person], 1)
    return 1000 * (daemon.cpu_seconds() - before) / (messages * len(PEOPLE))
