"""Turns a second of one, two and four replicas beside SQLite, and what a turn costs: processors, WAL, transactions.

All of it shares the machine's cores: the replicas, Postgres, the people and the model. So more replicas are not more
turns here; what a turn costs each part is what `limit` calculates with.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.figures import Better, Figure, Options
from benchmarks.replicas.crowd import Crowd, Usage, open_crowd
from benchmarks.stage import PEOPLE
from tests.postgres import DURABLE, running

SQLITE = "SQLite"
REPLICAS: Mapping[str, int] = {SQLITE: 0, "1 replica": 1, "2 replicas": 2, "4 replicas": 4}
THOUGHTS = (0.0, 0.2)
"""Seconds that the model thinks."""
MESSAGES = 10
ROUNDS = 2
STARTED_SECONDS = 5.0
"""Seconds after which nothing of a daemon's start is left to be done."""
IDLE_SECONDS = 4.0
"""Postgres counts what a connection has done a second later."""


@dataclass
class Found:
    """What was measured of one store with so many replicas: one entry for each round."""

    turns: dict[float, list[float]] = field(default_factory=lambda: {think: [] for think in THOUGHTS})
    """Turns a second, by the model's seconds."""
    used: dict[float, list[Usage]] = field(default_factory=lambda: {think: [] for think in THOUGHTS})
    """Of one turn, without what idle replicas do meanwhile."""
    idle: list[Usage] = field(default_factory=list)
    """Of a second of one idle replica."""
    connections: list[int] = field(default_factory=list)
    """Of one replica, behind all talks."""


async def measure_throughput(options: Options) -> list[Figure]:
    """Fifty chats at once, ten messages each, the next one after the reply; each crowd for itself, all twice."""
    found = {name: Found() for name in REPLICAS}
    with running(settings=DURABLE) as server:
        for _ in range(options.times(ROUNDS)):
            for name, replicas in REPLICAS.items():
                async with open_crowd(max(1, replicas), server if replicas else None) as crowd:
                    await _measure(crowd, found[name])
    return [figure for name in REPLICAS for figure in _figures(name, found)]


async def _measure(crowd: Crowd, found: Found) -> None:
    await asyncio.sleep(STARTED_SECONDS)
    before = await crowd.used()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (await crowd.used()).since(before).over(IDLE_SECONDS)
    await crowd.world.talk(PEOPLE, 2)
    for think in THOUGHTS:
        await crowd.world.model(think=think)
        before = await crowd.used()
        seconds = (await crowd.world.talk(PEOPLE, MESSAGES))["seconds"]
        turns = len(PEOPLE) * MESSAGES
        used = (await crowd.used()).since(before)
        found.turns[think].append(turns / seconds)
        found.used[think].append(used.since(idle.over(1 / seconds)).over(turns))
    found.idle.append(idle.over(len(crowd.daemons)))
    found.connections.append(await crowd.connections() // len(crowd.daemons))


def _figures(name: str, found: Mapping[str, Found]) -> list[Figure]:
    own = found[name]
    figures = []
    for think in THOUGHTS:
        best = max(own.turns[think])
        ratio = best / max(found[SQLITE].turns[think])
        note = "" if name == SQLITE else f"{ratio:.2f} x SQLite"
        figures.append(
            _figure(f"{name}, {1000 * think:.0f} ms model", "turns/s", best, own.turns[think], "higher", note)
        )
    quick = own.used[0.0]
    figures.append(_least(f"{name}: CPU of the gateways per turn", "ms", [1000 * used.gateways for used in quick]))
    if name == SQLITE:
        return figures
    return [
        *figures,
        _least(f"{name}: CPU of Postgres per turn", "ms", [1000 * used.postgres for used in quick]),
        _least(f"{name}: WAL per turn", "B", [used.wal for used in quick]),
        _least(f"{name}: transactions per turn", "transactions", [used.transactions for used in quick]),
        _least(f"{name}: CPU of an idle replica", "ms/s", [1000 * used.gateways for used in own.idle]),
        _least(f"{name}: CPU of Postgres per idle replica", "ms/s", [1000 * used.postgres for used in own.idle]),
        _least(f"{name}: transactions of an idle replica", "1/s", [used.transactions for used in own.idle]),
        _least(f"{name}: connections of a replica", "connections", list(map(float, own.connections))),
    ]


def _least(name: str, unit: str, rounds: list[float]) -> Figure:
    """The round that the rest of the machine disturbed least."""
    return _figure(name, unit, min(rounds), rounds, "lower", "")


def _figure(name: str, unit: str, value: float, rounds: list[float], better: Better, note: str) -> Figure:
    detail: dict[str, Any] = {"rounds": [round(each, 3) for each in rounds]}
    return Figure(name, unit, value, better=better, detail=detail, note=note)
