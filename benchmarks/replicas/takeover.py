"""How soon another replica goes on: the owner of a session was killed, in an answer or between two, or told to end.

The first figure is from the signal until the session has its next owner, both by the database's clock; the second until
its person reads the first words, at the gateway that is left. What was killed is started again for the next try.
"""

import asyncio
import signal
import time
from dataclasses import dataclass

from benchmarks.figures import Figure, Options, percentile
from benchmarks.replicas.model import HOLD
from benchmarks.replicas.programs import Gateway, Stage, open_programs
from goclaw.durable.store.postgres.ownership import STALL_SECONDS
from tests.postgres import DURABLE, running

TRIES = 10
KILL_BOUND = STALL_SECONDS + 0.5
END_BOUND = 1.0
"""Seconds until the next owner has the session."""
SHOWN_SECONDS = 0.5
"""The words that the owner has streamed reach the others in this time: later ones are the next owner's."""
ANN = "tui:ann"


@dataclass
class Moments:
    """What was measured at each try: seconds since the signal."""

    owned: list[float]
    read: list[float]


async def measure_takeover(options: Options) -> list[Figure]:
    """Two replicas, one person; the tries of the three kinds alternate."""
    found = {
        "killed in an answer": Moments([], []),
        "killed between two turns": Moments([], []),
        "told to end": Moments([], []),
    }
    with running(settings=DURABLE) as server:
        async with open_programs(2, server, [ANN]) as stage:
            for number in range(options.times(TRIES)):
                for kind, moments in found.items():
                    owned, read = await _try(stage, kind, f"t{number}")
                    moments.owned.append(owned)
                    moments.read.append(read)
    return [figure for kind, moments in found.items() for figure in _figures(kind, moments)]


async def _try(stage: Stage, kind: str, name: str) -> tuple[float, float]:
    """Return the seconds until another gateway has the session, and until its person reads something."""
    stage.model.released.clear()
    in_answer = kind == "killed in an answer"
    asked = len(stage.model.asked)
    await stage.gateways[0].say(ANN, f"{name} {HOLD if in_answer else 'before'}")
    before = await stage.model.asked_for(name, asked)
    if in_answer:
        await stage.model.until(lambda: before.written)
        await asyncio.sleep(SHOWN_SECONDS)
    else:
        await stage.all_done()
    owner = await stage.owner(ANN)
    left = stage.other(owner.gateway)
    async with left.following(ANN) as follower:
        await follower.first("")  # where it begins
        seen = len(follower.seen)
        since, began = await stage.now(), time.monotonic()
        _end(owner.gateway, signal.SIGTERM if kind == "told to end" else signal.SIGKILL)
        stage.model.released.set()
        if not in_answer:
            await left.say(ANN, f"{name} after")
        found = await stage.owner(ANN, newer_than=owner.epoch)
        words = await follower.first("TextStreamed", after=seen)
        await follower.first("TurnFinished", after=seen)
    assert found.gateway is left
    await stage.all_done()
    await owner.gateway.home.wait()
    await owner.gateway.home.start()
    return found.taken_at - since, words.at - began


def _end(gateway: Gateway, how: signal.Signals) -> None:
    assert gateway.home.process is not None
    gateway.home.process.send_signal(how)


def _figures(kind: str, moments: Moments) -> list[Figure]:
    bound = END_BOUND if kind == "told to end" else KILL_BOUND
    detail = {"repetitions": len(moments.owned)} | {
        name: [round(each, 3) for each in sorted(values)]
        for name, values in (("owned", moments.owned), ("read", moments.read))
    }
    return [
        Figure(f"owner {kind}: the next one has the session, worst", "s", max(moments.owned), bound, detail=detail),
        Figure(f"owner {kind}: the next one has the session, p50", "s", percentile(moments.owned, 50)),
        Figure(f"owner {kind}: its person reads the first words, p50", "s", percentile(moments.read, 50)),
        Figure(f"owner {kind}: its person reads the first words, worst", "s", max(moments.read)),
    ]
