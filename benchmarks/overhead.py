"""What GoClaw adds to the model's own time: a message enters Telegram, the whole reply has come back to it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Options, spread
from benchmarks.history import write_history
from benchmarks.stage import PEOPLE, WIRES, World, open_daemon, open_stage, open_world, prepare

ROUNDS = 3
SHORT_MESSAGES = 20
"""Messages of each of ten people in a round; one after the other, so that nothing waits for anything but itself."""
LONG_MESSAGES = 25
LONG_HISTORY = 1_000
LONG_PEOPLE = PEOPLE[:4]
"""Who has the long conversations; a few, so that they stay near a thousand messages while they grow."""


async def measure_short(options: Options) -> list[Figure]:
    """With conversations that have just begun; other people in every round."""
    async with open_stage() as (world, _):
        await overheads(world, PEOPLE[:10], 2)
        groups = [PEOPLE[first : first + 10] for first in range(10, 50, 10)][: options.times(ROUNDS)]
        rounds = [await overheads(world, people, options.times(SHORT_MESSAGES)) for people in groups]
    return spread("overhead per message, short history", "ms", rounds, 8, 16)


async def measure_long(options: Options) -> list[Figure]:
    """With a thousand messages of history, on each wire."""
    figures = []
    for wire in WIRES:
        with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
            async with open_world() as world:
                path, config = prepare(Path(name), world.url, wire)
                await write_history(
                    config.database_path, [f"telegram:{person}" for person in LONG_PEOPLE], LONG_HISTORY
                )
                async with open_daemon(world, path):
                    await overheads(world, LONG_PEOPLE, 3)
                    times = range(options.times(ROUNDS))
                    rounds = [await overheads(world, LONG_PEOPLE, options.times(LONG_MESSAGES)) for _ in times]
        figures += spread(f"overhead per message, 1,000 messages, {wire}", "ms", rounds, 10, 20)
    return figures


async def overheads(world: World, people: Sequence[int], messages: int) -> list[float]:
    """Milliseconds of each message beyond the model's own time; one person writes at a time."""
    found = []
    for _ in range(messages):
        for person in people:
            talk = await world.talk([person], 1)
            found.append(1000 * (talk["replies"][0] - sum(talk["model"])))
    return found
