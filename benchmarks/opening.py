"""How long a person waits for the terminal client, and for the commands that ask the daemon something."""

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.client import open_client, open_relay
from benchmarks.figures import Figure, Json, Options, percentile
from benchmarks.gateways import PYTHON
from benchmarks.history import write_history
from benchmarks.stage import Daemon, environment_of, open_daemon, open_stage, open_world, prepare

SESSION = "tui:bench"
STARTS, OPENINGS, COMMANDS = 12, 12, 20
LONG_HISTORY = 5_000
LAST_ROW = f"{LONG_HISTORY // 2 - 1}. The blue one."
"""How the newest message of a conversation by `history` begins."""
TYPED = "x"


async def measure_ready(options: Options) -> list[Figure]:
    """`goclaw tui` while a daemon runs: the input is drawn, the conversation attached, and what is typed appears."""
    rounds = []
    async with open_stage() as (_, daemon):
        for _ in range(1 + options.times(STARTS)):
            async with open_client(daemon.config, SESSION) as client:
                drawn = await client.terminal.until("Write a message")
                await client.terminal.type(TYPED)
                echoed = await client.terminal.until(f"│ {TYPED} ")
                attached = await client.terminal.until("● connected")
                rounds.append({"drawn": drawn, "echoed": echoed, "attached": attached})
                rounds[-1] = {name: client.since_start(moment) for name, moment in rounds[-1].items()}
    return _waits(
        "goclaw tui ready", [max(each.values()) for each in rounds[1:]], 0.7, {"rounds": _rounded(rounds[1:])}
    )


async def measure_long_session(options: Options) -> list[Figure]:
    """A session of 5,000 messages: until its last message is drawn."""
    rounds = []
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        async with open_world() as world:
            path, config = prepare(Path(name), world.url, "openai-chat")
            await write_history(config.database_path, [SESSION], LONG_HISTORY)
            async with open_daemon(world, path) as daemon, open_relay(daemon) as relay:
                for _ in range(1 + options.times(OPENINGS)):
                    async with open_client(relay.config, SESSION) as client:
                        drawn = await client.terminal.until(LAST_ROW)
                        rounds.append({"attach": drawn - relay.connected, "start": client.since_start(drawn)})
    kept, detail = rounds[1:], {"rounds": _rounded(rounds[1:])}
    return [
        *_waits("5,000 messages, attach to last row drawn", [each["attach"] for each in kept], 0.5, detail),
        *_waits("5,000 messages, process start to last row drawn", [each["start"] for each in kept], None, detail),
    ]


async def measure_commands(options: Options) -> list[Figure]:
    """`goclaw --help`, `status` and `send` while a daemon runs, from the process's start to its end."""
    figures = []
    async with open_stage() as (_, daemon):
        for words, target in ((["--help"], 150.0), (["status"], 450.0), (["send", "hello"], 500.0)):
            times = [await asyncio.to_thread(_milliseconds, daemon, words) for _ in range(1 + options.times(COMMANDS))]
            detail = {"repetitions": len(times) - 1, "min": round(min(times), 1), "max": round(max(times[1:]), 1)}
            name = f"goclaw {' '.join(words)}, p50"
            figures.append(Figure(name, "ms", percentile(times[1:], 50), target, detail=detail))
    return figures


def _milliseconds(daemon: Daemon, words: list[str]) -> float:
    command = [PYTHON, "-m", "goclaw", "--config", str(daemon.config), *words]
    began = time.monotonic()
    subprocess.run(
        command, cwd=daemon.config.parent, env=environment_of(daemon.config), capture_output=True, check=True
    )
    return 1000 * (time.monotonic() - began)


def _waits(name: str, seconds: list[float], target: float | None, detail: Json) -> list[Figure]:
    return [
        Figure(f"{name}, p50", "s", percentile(seconds, 50), target, detail={"repetitions": len(seconds)} | detail),
        Figure(f"{name}, worst", "s", max(seconds), target),
    ]


def _rounded(rounds: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: round(value, 3) for name, value in each.items()} for each in rounds]
