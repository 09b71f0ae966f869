"""The gap within a session: from the end of an answer until the model is asked for the next one, messages waiting.

One person sends twenty messages at once; with two replicas every second one goes to the gateway that is not the owner.
"""

import asyncio
from collections.abc import Mapping
from itertools import pairwise

from benchmarks.figures import Figure, Options, percentile
from benchmarks.replicas.programs import Stage, open_programs
from tests.postgres import DURABLE, running

SQLITE = "SQLite"
KINDS: Mapping[str, int] = {SQLITE: 0, "1 replica": 1, "2 replicas": 2}
MESSAGES = 20
ROUNDS = 3
THINK = 0.2
BEYOND_SQLITE = 50.0
"""Milliseconds."""
ANN = "tui:ann"


async def measure_gap(options: Options) -> list[Figure]:
    """Each kind for itself; of the rounds the one with the least median counts."""
    gaps: dict[str, list[list[float]]] = {}
    with running(settings=DURABLE) as server:
        for name, replicas in KINDS.items():
            async with open_programs(max(1, replicas), server if replicas else None, [ANN]) as stage:
                stage.model.think = THINK
                await gaps_of(stage, 2)
                gaps[name] = [await gaps_of(stage, MESSAGES) for _ in range(options.times(ROUNDS))]
    best = {name: min(rounds, key=lambda gap: percentile(gap, 50)) for name, rounds in gaps.items()}
    figures = []
    for name, found in best.items():
        for percent in (50, 95):
            value = percentile(found, percent)
            beyond = value - percentile(best[SQLITE], percent)
            rounds = [round(percentile(each, percent), 2) for each in gaps[name]]
            detail = {"rounds": rounds, "repetitions": len(found)}
            figures.append(Figure(f"{name}: gap, p{percent}", "ms", value, detail=detail))
            if name != SQLITE:
                figures.append(Figure(f"{name}: gap beyond SQLite's, p{percent}", "ms", beyond, BEYOND_SQLITE))
    return figures


async def gaps_of(stage: Stage, messages: int) -> list[float]:
    """Milliseconds between an end and the next request, while all messages wait."""
    before = len(stage.model.asked)
    async with asyncio.TaskGroup() as sending:
        for number in range(messages):
            gateway = stage.gateways[number % len(stage.gateways)]
            sending.create_task(gateway.say(ANN, f"message {number}"))
    await _all_answered(stage, before + messages)
    asked = stage.model.asked[before:]
    return [1000 * (after.at - one.ended_at) for one, after in pairwise(asked)]


async def _all_answered(stage: Stage, requests: int) -> None:
    await stage.model.until(lambda: len(stage.model.asked) >= requests)
    await stage.model.asked[requests - 1].left.wait()
