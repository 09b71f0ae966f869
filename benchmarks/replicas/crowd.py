"""Replicas in the fakes' world of the other benchmarks: people write on Telegram, and each process is counted apart."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from benchmarks.figures import Json
from benchmarks.gateways import GOCLAW
from benchmarks.stage import (
    OUTPUT,
    START_SECONDS,
    Daemon,
    World,
    cpu_seconds,
    end,
    environment_of,
    open_world,
    prepare,
    state_folder,
)
from tests.postgres import Server

RUNNING = "GoClaw is running."
"""What a gateway says when all of it is there."""
WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
COMMITTED = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'goclaw %'"


@dataclass(frozen=True)
class Usage:
    """What was used so far, or between two moments: seconds of the processor, bytes and transactions of Postgres."""

    gateways: float = 0.0
    postgres: float = 0.0
    wal: float = 0.0
    transactions: float = 0.0

    def since(self, before: "Usage") -> "Usage":
        """What was used since then."""
        return Usage(
            self.gateways - before.gateways,
            self.postgres - before.postgres,
            self.wal - before.wal,
            self.transactions - before.transactions,
        )

    def over(self, parts: float) -> "Usage":
        """The share of one of so many parts."""
        return Usage(self.gateways / parts, self.postgres / parts, self.wal / parts, self.transactions / parts)


@dataclass(frozen=True)
class Crowd:
    """Some gateways on one store, and the world in which people write to them."""

    world: World
    daemons: list[Daemon]
    server: Server | None
    """None: SQLite."""

    async def used(self) -> Usage:
        """What was used so far."""
        gateways = sum(daemon.cpu_seconds() for daemon in self.daemons)
        if self.server is None:
            return Usage(gateways)
        wal, committed = await asyncio.to_thread(self._asked)
        postgres = psutil.Process(self.server.pid)
        seconds = sum(cpu_seconds(process) for process in (postgres, *postgres.children()))
        return Usage(gateways, seconds, wal, committed)

    def _asked(self) -> list[float]:
        assert self.server is not None
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            rows = [connection.execute(query).fetchone() for query in (WRITTEN.encode(), COMMITTED.encode())]
        return [float(row[0]) for row in rows if row]

    async def connections(self) -> int:
        """Connections that the gateways have to Postgres now."""
        return await asyncio.to_thread(self._connections) if self.server else 0

    def _connections(self) -> int:
        assert self.server is not None
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            row = connection.execute(CONNECTIONS.encode()).fetchone()
        return int(row[0]) if row else 0


@asynccontextmanager
async def open_crowd(replicas: int, server: Server | None) -> AsyncIterator[Crowd]:
    """Start a world and so many gateways on a schema of their own; with SQLite there is one."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(state_folder()))
        world = await stack.enter_async_context(open_world())
        changes: Json = {"workspace": str(folder / "work")}
        if server is not None:
            changes["store"] = f"{server.url}?schema=crowd_{time.monotonic_ns()}"
        gateways = []
        for number in range(replicas):
            home = folder / f"replica{number}"
            home.mkdir(mode=0o700)
            config, _ = prepare(home, world.url, "openai-chat", changes)
            gateways.append(_open_gateway(config))
        first = await stack.enter_async_context(gateways[0])  # it makes the schema
        others = await asyncio.gather(*map(stack.enter_async_context, gateways[1:]))
        daemons = [first, *others]
        yield Crowd(world, daemons, server)


@asynccontextmanager
async def _open_gateway(config: Path) -> AsyncIterator[Daemon]:
    """Start a gateway and wait until all of it is there: which of several ones polls Telegram is their own affair."""
    command = [sys.executable, "-m", GOCLAW.module, "--config", str(config), GOCLAW.command]
    said = config.with_name(OUTPUT)
    with said.open("wb") as output:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, cwd=config.parent, env=environment_of(config), stdout=output, stderr=output
        )
    try:
        while RUNNING not in said.read_text("utf-8"):
            if process.returncode is not None or time.monotonic() - started > START_SECONDS:
                raise RuntimeError(f"the gateway did not start:\n{said.read_text('utf-8')}")
            await asyncio.sleep(0.02)
        yield Daemon(psutil.Process(process.pid), started, config)
    finally:
        await end(process)
