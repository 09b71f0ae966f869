"""An answer of 2,000 deltas in the terminal client: nothing is lost, it costs little, and it holds nobody up."""

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import Client, open_client
from benchmarks.figures import Figure, Options, percentile
from benchmarks.gateways import WATCHED_GOCLAW
from benchmarks.lag_probe import lateness_in
from benchmarks.stage import Daemon, World, open_daemon, open_stage, open_world, prepare
from goclaw.clients.tui.client import attach
from goclaw.common.core.messages import AssistantMessage

DELTAS = 2_000
ROUNDS = 3
PACES = {"100 a second": 0.01, "as fast as they come": 0.0}
"""Seconds between two deltas: what a quick model does, and what a model of this machine or a gap in the line does."""
REST_SECONDS = 1.5
"""Nothing more is drawn for so long: the answer stands."""
WHOLE = (160, 700)
"""A terminal in which the whole answer can be read."""
PARAGRAPH, HEADING, ITEMS, CODE = 60, 4, 40, 36
"""Words of the parts that an answer is made of, in this order, over and over."""
BLOCK = PARAGRAPH + HEADING + ITEMS + CODE


@dataclass(frozen=True)
class Round:
    """What one answer was."""

    lost: int
    """Words of the answer that are not on the screen, stand there twice or elsewhere."""
    lost_rows: int
    """The same of the transcript."""
    client: float
    """Seconds of CPU."""
    daemon: float
    memory: tuple[float, float]
    """MiB of the client before and after."""
    seconds: float


async def measure_stream(options: Options) -> list[Figure]:
    """Each answer in a session and a client of its own."""
    figures = []
    async with open_stage() as (world, daemon):
        await answer(world, daemon, "tui:warm-up", 0.0)
        for name, pause in PACES.items():
            rounds = [
                await answer(world, daemon, f"tui:bench-{pause}-{number}", pause)
                for number in range(options.times(ROUNDS))
            ]
            figures += figures_of(f"2,000 deltas, {name}", rounds)
    return figures


async def measure_stream_lag(options: Options) -> list[Figure]:
    """How late the daemon's loop is while it streams to the client."""
    figures = []
    for name, pause in PACES.items():
        with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as folder:
            async with open_world() as world:
                path, _ = prepare(Path(folder), world.url, "openai-chat")
                async with open_daemon(world, path, WATCHED_GOCLAW) as daemon:
                    await answer(world, daemon, "tui:warm-up", 0.0)
                    began = time.monotonic()
                    for number in range(options.times(ROUNDS)):
                        await answer(world, daemon, f"tui:bench-{number}", pause)
                    ended = time.monotonic()
            lateness = lateness_in(path, began, ended)
        detail = {"looks": len(lateness), **{f"p{n}": round(percentile(lateness, n), 2) for n in (50, 99)}}
        figures.append(Figure(f"loop lateness, 2,000 deltas {name}, max", "ms", max(lateness), 50, detail=detail))
    return figures


async def answer(world: World, daemon: Daemon, session: str, pause: float) -> Round:
    """Start a client, let it ask once, and look at everything when the answer stands."""
    pieces = [piece(number) for number in range(DELTAS)]
    await world.model(pieces=pieces, pause=pause)
    async with open_client(daemon.config, session) as client:
        terminal = client.terminal
        await terminal.until("● connected")
        await terminal.rest(REST_SECONDS)
        before, memory, daemon_before = client.cpu_seconds(), client.mebibytes(), daemon.cpu_seconds()
        began = time.monotonic()
        await terminal.type("go on\r")
        await terminal.until(word(DELTAS - 1), patience=120)
        seconds = time.monotonic() - began
        await terminal.rest(REST_SECONDS)
        spent, daemon_spent = client.cpu_seconds() - before, daemon.cpu_seconds() - daemon_before
        memory_after = client.mebibytes()
        lost = await lost_on_screen(client)
    async with attach(daemon.config.parent / "goclaw.sock", session, limit=1) as attached:
        last = attached.attached.history[-1].message
    text = last.text if isinstance(last, AssistantMessage) else ""
    lost_rows = wrong(re.findall(r"w\d{4}", text)) + (text != "".join(pieces))
    return Round(lost, lost_rows, spent, daemon_spent, (memory, memory_after), seconds)


async def lost_on_screen(client: Client) -> int:
    """Make the terminal so large that everything can be read, and read it."""
    client.terminal.resize(*WHOLE)
    await client.terminal.until("● connected")
    await client.terminal.rest(REST_SECONDS)
    return wrong(re.findall(r"w\d{4}", client.terminal.text()))


def wrong(words: Sequence[str]) -> int:
    """How many words are missing, too many, or not in their place."""
    expected = [word(number) for number in range(DELTAS)]
    misplaced = sum(found != wanted for found, wanted in zip(words, expected, strict=False))
    return misplaced + abs(len(words) - len(expected))


def word(number: int) -> str:
    """A word that stands once in the answer."""
    return f"w{number:04d}"


def piece(number: int) -> str:
    """What a delta says: a word, and the Markdown that makes paragraphs, headings, lists and code of the words."""
    place = number % BLOCK
    if place < PARAGRAPH:
        shape = (
            "\n\n{} "
            if place == 0 and number
            else "**{}** "
            if place % 12 == 5
            else "`{}` "
            if place % 12 == 9
            else "{} "
        )
    elif (place := place - PARAGRAPH) < HEADING:
        shape = "\n\n## {} " if place == 0 else "{} "
    elif (place := place - HEADING) < ITEMS:
        shape = "\n\n- {} " if place == 0 else "\n- {} " if place % 8 == 0 else "{} "
    else:
        place -= ITEMS
        first = "\n\n```python\n{} = " if place == 0 else "\n{} = " if place % 6 == 0 else "{} + "
        shape = "{}\n```" if place == CODE - 1 else "{}" if place % 6 == 5 else first
    return shape.format(word(number))


def figures_of(name: str, rounds: Sequence[Round]) -> list[Figure]:
    """The rounds of one pace."""
    clients, after = [each.client for each in rounds], [each.memory[1] for each in rounds]
    detail = {
        "rounds": [
            {
                "client": round(each.client, 2),
                "daemon": round(each.daemon, 2),
                "memory": [round(value, 1) for value in each.memory],
                "seconds": round(each.seconds, 1),
            }
            for each in rounds
        ]
    }
    return [
        Figure(f"{name}: words lost on the screen", "words", max(each.lost for each in rounds), 0),
        Figure(f"{name}: words lost in the transcript", "words", max(each.lost_rows for each in rounds), 0),
        Figure(f"{name}: CPU of the client, median", "s", percentile(clients, 50), 1.5, detail=detail),
        Figure(f"{name}: CPU of the client, worst", "s", max(clients), 1.5),
        Figure(f"{name}: CPU of the daemon, median", "s", percentile([each.daemon for each in rounds], 50)),
        Figure(f"{name}: memory of the client after, worst", "MiB", max(after), 70),
    ]
