"""Orders at the gateway that owns the session, and at the other one: a command, `/stop`, an approval.

Each is given at both by turns, in the same run: the bound is on the difference.
"""

import time
from collections.abc import Awaitable, Callable, Mapping

from benchmarks.figures import Figure, Options, percentile
from benchmarks.replicas.model import CALL, HOLD
from benchmarks.replicas.programs import Gateway, Stage, open_programs
from tests.acceptance.waiting import LOOK_SECONDS, clock
from tests.postgres import DURABLE, running

TRIES = 40
WARM_UP = 3
BEYOND_OWNER = 50.0
"""Milliseconds."""
ANN = "tui:ann"
OWNER, OTHER = "at the owner", "at the other replica"

Order = Callable[[Stage, Gateway, str], Awaitable[float]]
"""Gives an order at a gateway; returns the milliseconds until it has done what it is for."""


async def measure_orders(options: Options) -> list[Figure]:
    """Two replicas, one person."""
    orders: Mapping[str, Order] = {
        "/status to its answer": _status,
        "/stop to the model's connection being closed": _stop,
        "an approval to the model having the result": _approve,
    }
    figures = []
    with running(settings=DURABLE) as server:
        async with open_programs(2, server, [ANN]) as stage:
            for name, order in orders.items():
                found = await _by_turns(stage, order, options.times(TRIES))
                figures += _figures(name, found)
    return figures


async def _by_turns(stage: Stage, order: Order, tries: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {OWNER: [], OTHER: []}
    for number in range(WARM_UP + tries):
        for place, values in found.items():
            milliseconds = await order(stage, await _gateway(stage, place), f"{place[-5:]}{number}")
            await stage.all_done()
            if number >= WARM_UP:
                values.append(milliseconds)
    return found


async def _gateway(stage: Stage, place: str) -> Gateway:
    """Return the owner, or the other gateway. The session has one: it is kept for ten seconds."""
    if not (owner := await stage.owner_now(ANN)):
        await stage.gateways[0].say(ANN, "hello")
        await stage.all_done()
        owner = await stage.owner(ANN)
    return owner.gateway if place == OWNER else stage.other(owner.gateway)


async def _status(stage: Stage, gateway: Gateway, name: str) -> float:
    del stage, name
    began = time.monotonic()
    answer = await gateway.say(ANN, "/status")
    if answer["kind"] != "reply" or not answer["text"]:
        raise RuntimeError(f"/status was answered by {answer}")
    return 1000 * (time.monotonic() - began)


async def _stop(stage: Stage, gateway: Gateway, name: str) -> float:
    before = len(stage.model.asked)
    await gateway.say(ANN, f"{name} {HOLD}")
    asked = await stage.model.asked_for(name, before)
    await stage.model.until(lambda: asked.written)
    began = time.monotonic()
    await gateway.post(ANN, "stop", {})
    await asked.left.wait()
    return 1000 * (asked.left_at - began)


async def _approve(stage: Stage, gateway: Gateway, name: str) -> float:
    before = len(stage.model.asked)
    await gateway.say(ANN, f"{name} {CALL}")
    await stage.model.asked_for(name, before)
    owner = await stage.owner(ANN)
    while not (questions := await owner.gateway.questions(ANN)):
        await clock.sleep(LOOK_SECONDS)
    began = time.monotonic()
    await gateway.post(ANN, f"/questions/{questions[0]['question']['id']}", {"answer": "allow"})
    asked = await stage.model.asked_for(name, before, tool=True)
    return 1000 * (asked.at - began)


def _figures(name: str, found: Mapping[str, list[float]]) -> list[Figure]:
    figures = []
    for percent in (50, 95):
        values = {place: percentile(each, percent) for place, each in found.items()}
        note = ", ".join(f"{value:.1f} {place}" for place, value in values.items())
        detail = {"repetitions": len(found[OWNER]), "max": {place: max(each) for place, each in found.items()}}
        difference = values[OTHER] - values[OWNER]
        figures.append(
            Figure(f"{name}: beyond the owner's, p{percent}", "ms", difference, BEYOND_OWNER, detail=detail, note=note)
        )
    return figures
