"""Fifty chats at once, ten messages each, the next one after the reply."""

from benchmarks.figures import Figure, Options
from benchmarks.stage import PEOPLE, open_stage

ROUNDS = 4
MESSAGES = 10


async def measure_throughput(options: Options) -> list[Figure]:
    """Turns a second with a model that answers at once, and with one that thinks for 200 ms (at best 250)."""
    figures = []
    async with open_stage() as (world, _):
        await world.talk(PEOPLE[:1], 1)
        await world.talk(PEOPLE, 2)
        for think, target in ((0.0, 250.0), (0.2, 160.0)):
            await world.model(think=think)
            times = [(await world.talk(PEOPLE, MESSAGES))["seconds"] for _ in range(options.times(ROUNDS))]
            rates = [len(PEOPLE) * MESSAGES / taken for taken in times]
            name = f"50 chats x 10 messages, {1000 * think:.0f} ms model"
            detail = {"rounds": [round(rate, 1) for rate in rates]}
            figures.append(Figure(name, "turns/s", max(rates), target, "higher", detail))
    return figures
