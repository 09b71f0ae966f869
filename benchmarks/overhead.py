"""What GoClaw costs beside a bare gateway on the same libraries (`floor`): time, processor, throughput.

Both run at the same time, each in a world of its own, and are asked by turns: whatever else the machine does concerns
both, so that their ratio says more than either figure. A peer's gateway may be asked, too (`--peer`); its figures are
shown and have no bound.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

from benchmarks.figures import Better, Figure, Options, percentile
from benchmarks.gateways import FLOOR, GOCLAW
from benchmarks.history import write_history
from benchmarks.stage import NO_INDEX, PEOPLE, Stage, World, open_stage, open_stage_in, prepare, state_folder

ROUNDS = 8
SHORT_PEOPLE, SHORT_MESSAGES = 5, 10
"""In a round; one message after the other, so that nothing waits for anything but itself."""
LONG_HISTORY = 1_000
LONG_PEOPLE = PEOPLE[:4]
"""Who has the long conversations; a few, so that they stay near a thousand messages while they grow."""
LONG_MESSAGES = 5
CPU_MESSAGES = 100
"""Messages between two looks at the processor's clock, which counts in ticks of 10 ms."""
THROUGHPUT_MESSAGES = 10
THOUGHTS = {0.0: (0.25, 0.4), 0.2: (0.8, 0.95)}
"""Seconds that the model thinks, with the bound and the aim of the ratio of throughputs."""
EXEC_PEOPLE, EXEC_MESSAGES = PEOPLE[:4], 4

Stages = Mapping[str, Stage]


@asynccontextmanager
async def open_stages(options: Options) -> AsyncIterator[Stages]:
    """GoClaw, the floor and the peer, if any, side by side; each has answered everybody once."""
    async with AsyncExitStack() as stack:
        stages = {
            gateway.name: await stack.enter_async_context(open_stage(gateway=gateway))
            for gateway in (GOCLAW, FLOOR, *options.peers)
        }
        for stage in stages.values():
            await stage.world.talk(PEOPLE, 1)
        yield stages


async def measure_short(options: Options) -> list[Figure]:
    """With conversations that have just begun, one message after the other."""
    rounds: list[dict[str, list[float]]] = []
    async with open_stages(options) as stages:
        for number in range(options.times(ROUNDS)):
            found: dict[str, list[float]] = {name: [] for name in stages}
            people = PEOPLE[SHORT_PEOPLE * number :][:SHORT_PEOPLE]
            for person in people * SHORT_MESSAGES:
                for name, stage in stages.items():
                    found[name].append(await overhead(stage.world, person))
            rounds.append(found)
    return overheads("overhead per message, short history", rounds, 3, 2.2)


async def measure_long(options: Options) -> list[Figure]:
    """With a thousand messages of history beside a short one, in one GoClaw; by turns."""
    rounds = []
    short_people = PEOPLE[-len(LONG_PEOPLE) :]
    with state_folder() as folder:
        _, config = prepare(folder, "http://127.0.0.1:9", "openai-chat")
        await write_history(config.database_path, [f"telegram:{person}" for person in LONG_PEOPLE], LONG_HISTORY)
        async with open_stage_in(folder, changes=NO_INDEX) as (world, _):
            await world.talk([*LONG_PEOPLE, *short_people], 3)
            for _ in range(options.times(ROUNDS)):
                found: dict[str, list[float]] = {"long": [], "short": []}
                for long, short in zip(LONG_PEOPLE * LONG_MESSAGES, short_people * LONG_MESSAGES, strict=True):
                    found["long"].append(await overhead(world, long))
                    found["short"].append(await overhead(world, short))
                rounds.append(found)
    return overheads("overhead per message, 1,000 messages", rounds, 1.2, 1.1, measured="long", beside="short")


async def measure_cpu(options: Options) -> list[Figure]:
    """Processor's time of a message, one after the other, of all processes; with short answers, and with long ones."""
    figures = []
    async with open_stages(options) as stages:
        for deltas, bound, aim in ((4, 3, 2), (200, None, None)):
            rounds = []
            for _ in range(options.times(ROUNDS)):
                round_ = {}
                for name, stage in stages.items():
                    await stage.world.model(deltas=deltas)
                    round_[name] = await cpu_milliseconds(stage)
                rounds.append(round_)
            figures.append(ratio(f"CPU per message, {deltas} deltas", "ms", rounds, bound, aim, choose=median))
    return figures


async def measure_throughput(options: Options) -> list[Figure]:
    """Fifty chats at once, ten messages each, the next one after the reply."""
    figures = []
    async with open_stages(options) as stages:
        for think, (bound, aim) in THOUGHTS.items():
            rounds = []
            for _ in range(options.times(ROUNDS)):
                round_ = {}
                for name, stage in stages.items():
                    await stage.world.model(think=think)
                    talk = await stage.world.talk(PEOPLE, THROUGHPUT_MESSAGES)
                    round_[name] = len(PEOPLE) * THROUGHPUT_MESSAGES / talk["seconds"]
                rounds.append(round_)
            name = f"50 chats x {THROUGHPUT_MESSAGES}, {1000 * think:.0f} ms model"
            figures.append(ratio(name, "turns/s", rounds, bound, aim, better="higher"))
    return figures


async def measure_exec_turn(options: Options) -> list[Figure]:
    """What one call of `exec` adds to a turn, without the model's time for its second answer; by turns."""
    rounds = []
    async with open_stage() as (world, _):
        await world.talk(EXEC_PEOPLE, 2)
        for _ in range(1 + options.times(ROUNDS)):
            found: dict[str, list[float]] = {"without": [], "with": []}
            for person in EXEC_PEOPLE * EXEC_MESSAGES:
                for side, command in (("without", ""), ("with", "true")):
                    await world.model(command=command)
                    found[side].append(await overhead(world, person))
            rounds.append({side: percentile(times, 50) for side, times in found.items()})
    best = {side: min(found[side] for found in rounds[1:]) for side in rounds[0]}
    note = f"{best['without']:.1f} without, {best['with']:.1f} with"
    detail = {"rounds": [rounded(found) for found in rounds]}
    return [Figure("one exec call more, p50", "ms", best["with"] - best["without"], 10, "lower", detail, 8, note)]


async def overhead(world: World, person: int) -> float:
    """Milliseconds of one message beyond the model's own time."""
    talk = await world.talk([person], 1)
    return float(1000 * (talk["replies"][0] - sum(talk["model"])))


async def cpu_milliseconds(stage: Stage) -> float:
    """Processor's time of one message on average."""
    before = stage.daemon.cpu_seconds()
    for number in range(CPU_MESSAGES):
        await stage.world.talk([PEOPLE[number % len(PEOPLE)]], 1)
    return 1000 * (stage.daemon.cpu_seconds() - before) / CPU_MESSAGES


def overheads(
    name: str,
    rounds: Sequence[Mapping[str, Sequence[float]]],
    bound: float,
    aim: float | None,
    *,
    measured: str = GOCLAW.name,
    beside: str = FLOOR.name,
) -> list[Figure]:
    """Two ratios of overheads: of their p50 and of their p95."""
    figures = []
    for percent in (50, 95):
        typical = [{side: percentile(values, percent) for side, values in found.items()} for found in rounds]
        figures.append(ratio(f"{name}, p{percent}", "ms", typical, bound, aim, measured=measured, beside=beside))
    return figures


def ratio(
    name: str,
    unit: str,
    rounds: Sequence[Mapping[str, float]],
    bound: float | None,
    aim: float | None,
    *,
    better: Better = "lower",
    choose: Callable[[Sequence[float]], float] | None = None,
    measured: str = GOCLAW.name,
    beside: str = FLOOR.name,
) -> Figure:
    """The ratio of what two sides cost.

    Args:
        choose: makes one figure of a side's rounds; not given: the best, which the rest of the machine disturbed least.
    """
    choose = choose or (min if better == "lower" else max)
    chosen = {side: choose([found[side] for found in rounds]) for side in rounds[0]}
    note = ", ".join(f"{side} {value:.3g}" for side, value in chosen.items()) + f" {unit}"
    detail = {"chosen": rounded(chosen), "rounds": [rounded(found) for found in rounds]}
    return Figure(name, f"x {beside}", chosen[measured] / chosen[beside], bound, better, detail, aim, note)


def rounded(found: Mapping[str, float]) -> dict[str, float]:
    """Figures as they are kept."""
    return {side: round(value, 3) for side, value in found.items()}
