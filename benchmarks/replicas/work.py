"""What one turn has Postgres do, counted: statements, transactions, commits, NOTIFYs; and what Postgres can do.

Counted in the log of a Postgres that logs every statement, with a connection that listens to all channels; one person
writes, one message after the other, so that nothing is committed together with others' work. What replicas do whether
there are messages or not is left out.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg

from benchmarks.figures import Figure, Options
from benchmarks.replicas.crowd import open_crowd
from benchmarks.stage import PEOPLE
from tests.postgres import DURABLE, LOGGED, NEWEST, Server, programs, running
from tests.statement_log import counted

WARM_UP, TURNS = 7, 20
SETTLED_SECONDS = 0.5
"""The last receipt follows what the person sees."""
CLIENTS, SECONDS = 8, 4
_LISTEN = re.compile(r'LISTEN ("[^"]+")')
_TPS = re.compile(r"tps = ([\d.]+)")
_COMMIT = "INSERT INTO pgbench_work (text) VALUES (repeat('lobster ', 60));\n"
_TRANSACTIONS = {
    "a commit": f"BEGIN;\n{_COMMIT}COMMIT;\n",
    "a commit with a NOTIFY": f"BEGIN;\n{_COMMIT}NOTIFY work, 'telegram:1000001';\nCOMMIT;\n",
    "a commit and a NOTIFY behind it": f"BEGIN;\n{_COMMIT}COMMIT;\nNOTIFY work, 'telegram:1000001';\n",
}


async def measure_work(options: Options) -> list[Figure]:
    """One replica, and two of which either may own the person's session."""
    figures = []
    with running(settings=LOGGED) as server:
        for replicas in (1, 2):
            async with open_crowd(replicas, server) as crowd:
                await crowd.world.talk(PEOPLE[:1], WARM_UP)
                async with _listening(server) as heard:
                    before = len(server.log())
                    await crowd.world.talk(PEOPLE[:1], TURNS)
                    await asyncio.sleep(SETTLED_SECONDS)
                    done = counted(server.log()[before:])
            done["NOTIFYs"] = len(heard)
            name = "1 replica" if replicas == 1 else f"{replicas} replicas"
            figures += [
                Figure(f"{name}: {kind} of one person's turn", kind, done[kind] / TURNS)
                for kind in ("statements", "transactions", "commits", "NOTIFYs")
            ]
    return figures


@asynccontextmanager
async def _listening(server: Server) -> AsyncIterator[list[str]]:
    """Note what is told on every channel to which a process of GoClaw listens."""
    heard = list[str]()
    channels = sorted(set(_LISTEN.findall(server.log())))
    async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
        for channel in channels:
            await connection.execute(f"LISTEN {channel}".encode())

        async def listen() -> None:
            async for notice in connection.notifies():
                heard.append(notice.channel)

        listening = asyncio.create_task(listen())
        try:
            yield heard
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening


async def measure_commits(options: Options) -> list[Figure]:
    """pgbench beside a Postgres without gateways: eight clients that commit a row each, with a NOTIFY and without."""
    figures = []
    with running(settings=DURABLE) as server:
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
            await connection.execute(b"CREATE TABLE pgbench_work (id BIGSERIAL PRIMARY KEY, text TEXT)")
        for name, script in _TRANSACTIONS.items():
            rounds = [await _pgbench(server, script) for _ in range(options.times(2))]
            detail = {"rounds": rounds, "clients": CLIENTS}
            figures.append(Figure(f"Postgres alone: {name}", "1/s", max(rounds), better="higher", detail=detail))
    return figures


async def _pgbench(server: Server, script: str) -> float:
    """Transactions a second."""
    path = server.folder / "script.sql"
    path.write_text(script, "utf-8")
    options = ["-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS), "-f", str(path), server.url]
    process = await asyncio.create_subprocess_exec(
        str(programs(NEWEST) / "pgbench"), *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said = (await process.communicate())[0].decode()
    found = _TPS.search(said)
    if found is None:
        raise RuntimeError(f"pgbench says: {said}")
    return float(found[1])
