"""How far one process goes: a thousand chats at once, ten thousand conversations on disk, a database of 5 GB.

It takes minutes and gigabytes of disk (`--long`).
"""

import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from benchmarks.gateways import WATCHED_FLOOR, WATCHED_GOCLAW
from benchmarks.history import fill, write_history
from benchmarks.lag_probe import lateness_in
from benchmarks.overhead import ROUNDS, overhead, overheads, ratio
from benchmarks.stage import CROWD, NO_INDEX, PEOPLE, Stage, World, open_stage_in, prepare, state_folder

WIRE = "openai-chat"
CROWD_MESSAGES, CROWD_ROUNDS, THINK_SECONDS = 2, 2, 2.0
LATENESS_BOUND = 30.0
"""Milliseconds beyond the floor's."""
SESSIONS, SESSION_MESSAGES, STARTS = 10_000, 4, 12
GIGABYTES, FILL_SECONDS = 5.0, 180.0
TALKS = 5


async def measure_crowd(options: Options) -> list[Figure]:
    """A thousand chats, each with a turn in flight; GoClaw and the floor by turns. A reply out of order is an error."""
    late: dict[str, list[float]] = {}
    async with AsyncExitStack() as folders:
        configs: dict[str, Path] = {}
        async with AsyncExitStack() as stack:
            stages: dict[str, Stage] = {}
            for gateway in (WATCHED_GOCLAW, WATCHED_FLOOR):
                folder = folders.enter_context(state_folder())
                stages[gateway.name] = stage = await stack.enter_async_context(open_stage_in(folder, gateway))
                configs[gateway.name] = stage.daemon.config
            talks = await talk_by_turns(stages, options.times(CROWD_ROUNDS))
            most = {name: (await stage.world.state())["most_at_once"] for name, stage in stages.items()}
        for name, config in configs.items():  # written when the gateways have ended
            late[name] = [late for found in talks for late in lateness_in(config, *found[name])]
    p99 = {name: percentile(values, 99) for name, values in late.items()}
    note = ", ".join(f"{name} {value:.1f}" for name, value in p99.items()) + " ms"
    detail = {"max": {name: round(max(values), 1) for name, values in late.items()}, "most_at_once": most}
    took = [{name: until - since for name, (since, until) in found.items()} for found in talks]
    beyond = p99["goclaw"] - p99["floor"]
    crowd = f"{len(CROWD):,} chats, {THINK_SECONDS:g} s model"
    lateness = f"{crowd}: loop lateness beyond the floor's, p99"
    return [
        Figure(lateness, "ms", beyond, LATENESS_BOUND, detail=detail, note=note),
        Figure(f"{crowd}: turns in flight at once", "turns", most["goclaw"], len(CROWD), "higher"),
        ratio(f"{crowd}: {CROWD_MESSAGES} answers each, in order", "s", took, None, None),
    ]


async def talk_by_turns(stages: dict[str, Stage], rounds: int) -> list[dict[str, tuple[float, float]]]:
    """Let the thousand talk to one gateway after the other; returns when that began and ended, for each round."""
    for world, _ in stages.values():
        await world.talk(PEOPLE, 1)
    talks = []
    for _ in range(rounds):
        found = {}
        for name, (world, _) in stages.items():
            await world.model(think=THINK_SECONDS, marked=True, together=len(CROWD))
            since = time.monotonic()
            await world.talk(CROWD, CROWD_MESSAGES)
            found[name] = (since, time.monotonic())
        talks.append(found)
    return talks


async def measure_sessions(options: Options) -> list[Figure]:
    """Starts with ten thousand conversations on disk and with none, by turns: to the first poll, and to an answer."""
    with state_folder() as full, state_folder() as empty:
        _, config = prepare(full, "http://127.0.0.1:9", WIRE)
        sessions = [f"telegram:{9_000_000 + number}" for number in range(SESSIONS)]
        await write_history(config.database_path, sessions, SESSION_MESSAGES)
        rounds: list[dict[str, float]] = []
        answers: dict[str, list[float]] = {"full": [], "empty": []}
        for _ in range(1 + options.times(STARTS)):
            found = {}
            for name, folder in (("full", full), ("empty", empty)):
                async with open_stage_in(folder, changes=NO_INDEX) as (world, daemon):
                    found[name] = (await world.state())["first_poll"] - daemon.started
                    await world.talk(PEOPLE[:1], 1)
                    answers[name].append(time.monotonic() - daemon.started)
            rounds.append(found)
    on_disk = f"{SESSIONS:,} sessions on disk"
    answered = [dict(zip(answers, each, strict=True)) for each in zip(*answers.values(), strict=True)]
    return [
        ratio(f"{name}, {on_disk}", "s", found[1:], 1.1, None, measured="full", beside="empty")
        for name, found in (("start to the first getUpdates", rounds), ("start to the first answer", answered))
    ]


async def measure_large_database(options: Options) -> list[Figure]:
    """Turns beside a database of 5 GB and beside an empty one, by turns."""
    size = int(GIGABYTES * 1e9 / (4 if options.quick else 1))
    with state_folder() as full, state_folder() as empty:
        _, config = prepare(full, "http://127.0.0.1:9", WIRE)
        began = time.monotonic()
        await fill(config.database_path, size)
        filled = time.monotonic() - began
        async with open_stage_in(full, changes=NO_INDEX) as one, open_stage_in(empty, changes=NO_INDEX) as other:
            rounds = await talk_rounds({"full": one.world, "empty": other.world}, options.times(ROUNDS))
    name = f"{size / 1e9:g} GB"
    return [
        Figure(f"filling a database of {name}", "s", filled, FILL_SECONDS),
        *overheads(f"overhead per message, database of {name}", rounds, 1.2, None, measured="full", beside="empty"),
    ]


async def talk_rounds(worlds: dict[str, World], rounds: int) -> list[dict[str, list[float]]]:
    """Overheads of messages, one after the other, in each world by turns."""
    for world in worlds.values():
        await world.talk(PEOPLE, 2)
    talks = []
    for number in range(rounds):
        found: dict[str, list[float]] = {name: [] for name in worlds}
        for person in PEOPLE[5 * number :][:5] * TALKS:
            for name, world in worlds.items():
                found[name].append(await overhead(world, person))
        talks.append(found)
    return talks
