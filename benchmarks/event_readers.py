"""Two hundred programs follow conversations over the HTTP API while fifty chats talk: nothing lost, nothing late."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp

from benchmarks.figures import Figure, Json, Options, percentile
from benchmarks.gateways import WATCHED_GOCLAW
from benchmarks.lag_probe import lateness_in
from benchmarks.stage import CROWD, PEOPLE, World, open_stage_in, state_folder
from goclaw.common.auth.tokens import add_token
from goclaw.common.config.load import load_config
from tests.ports import free_port

CHATS, MESSAGES, ROUNDS = 50, 10, 2
READERS_OF_EACH = 4
THINK_SECONDS = 0.2
LATENESS_BOUND = 30.0
"""Milliseconds beyond the lateness without readers: the bound of a crowd beyond the floor (`scale`)."""
PATIENCE = 60.0
"""Seconds for the last event to arrive."""
_LIMIT = 2**20
"""Bytes of one line of a stream."""


@dataclass
class Reader:
    """A program that follows one conversation."""

    turns: list[str] = field(default_factory=list)
    """Ended ones, in the order in which the reader heard of it."""
    rows: list[int] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def heard_of(self, turns: int) -> None:
        """Wait until so many turns have ended for the reader."""
        while len(self.turns) < turns:
            self._news.clear()
            await self._news.wait()

    async def read(self, response: aiohttp.ClientResponse) -> None:
        """Note what comes, until it is cancelled."""
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            data = json.loads(line[6:])
            if data.get("name") == "TurnFinished":
                self.turns.append(data["event"]["turn"])
                self._news.set()
            elif data.get("name") == "MessageStored":
                self.rows.append(data["event"]["row"])


async def measure_event_readers(options: Options) -> list[Figure]:
    """The same talks without readers and with them, by turns. An event that is missing or comes twice is an error."""
    messages, port = options.times(MESSAGES), free_port()
    changes: Json = {"http": {"api": True, "port": port}}
    spans: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    with state_folder() as folder:
        async with open_stage_in(folder, WATCHED_GOCLAW, changes=changes) as (world, daemon):
            tokens = _tokens(daemon.config)
            await world.talk(PEOPLE, 1)
            await world.model(think=THINK_SECONDS)
            for _ in range(options.times(ROUNDS)):
                spans["without"].append(await _talk(world, messages))
                async with _following(port, tokens) as readers:
                    spans["with"].append(await _talk(world, messages))
                    await _all_read(readers, messages)
        late = {
            name: [late for span in found for late in lateness_in(daemon.config, *span)]
            for name, found in spans.items()
        }
    p99 = {name: percentile(values, 99) for name, values in late.items()}
    seconds = {name: min(until - since for since, until in found) for name, found in spans.items()}
    crowd = f"{CHATS * READERS_OF_EACH} readers of events while {CHATS} chats talk"
    note = ", ".join(f"{name} {value:.1f}" for name, value in p99.items()) + " ms"
    return [
        Figure(
            f"{crowd}: loop lateness beyond that without, p99",
            "ms",
            p99["with"] - p99["without"],
            LATENESS_BOUND,
            note=note,
        ),
        Figure(f"{crowd}: time of the answers", "x", seconds["with"] / seconds["without"], detail=seconds),
    ]


async def _talk(world: World, messages: int) -> tuple[float, float]:
    since = time.monotonic()
    await world.talk(CROWD[:CHATS], messages)
    return since, time.monotonic()


def _tokens(config: Path) -> dict[str, str]:
    path = load_config(config).config.tokens_path
    return {
        f"telegram:{person}": add_token(path, str(person), f"telegram:{person}", time.time())
        for person in CROWD[:CHATS]
    }


@asynccontextmanager
async def _following(port: int, tokens: dict[str, str]) -> AsyncIterator[list[Reader]]:
    """Follow each conversation with some readers, all of which hear from here on."""
    readers: list[Reader] = []
    unlimited = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=unlimited, timeout=aiohttp.ClientTimeout(), read_bufsize=_LIMIT) as http,
        asyncio.TaskGroup() as tasks,
    ):
        reading = []
        for session, token in tokens.items():
            url = f"http://127.0.0.1:{port}/api/v1/sessions/{quote(session, safe='')}/events"
            for _ in range(READERS_OF_EACH):
                response = await http.get(url, headers={"Authorization": f"Bearer {token}"})
                response.raise_for_status()
                readers.append(Reader())
                reading.append(tasks.create_task(readers[-1].read(response)))
        yield readers
        for task in reading:
            task.cancel()


async def _all_read(readers: list[Reader], messages: int) -> None:
    """Wait until all have heard of all turns.

    Raises:
        RuntimeError: one has not, or has heard something twice or out of order.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            for reader in readers:
                await reader.heard_of(messages)
    for reader in readers:
        counted = Counter(reader.turns)
        if len(counted) != messages or max(counted.values()) > 1 or reader.rows != sorted(set(reader.rows)):
            raise RuntimeError(f"a reader heard of {len(reader.turns)} of {messages} turns, rows {reader.rows}")
        if len(reader.rows) != 2 * messages:
            raise RuntimeError(f"a reader got {len(reader.rows)} of {2 * messages} messages")
