"""A daemon that is killed while it writes, and while its log is folded into the file, leaves a sound database."""

import asyncio
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.durable.store.open import open_database
from tests.lanes import repeats

pytestmark = pytest.mark.sqlite("its program opens the file")

WRITE = """
import asyncio, sys
from pathlib import Path
from goclaw.durable.store.database import insert_into
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import sessions

ADD = insert_into(sessions, "key", "created_at", "context_start")

async def main():
    async with open_database(Path(sys.argv[1])) as database:
        # Every commit is followed by a checkpoint: the kill meets one as often as not.
        await database._writer.run(lambda writer: writer.execute("PRAGMA wal_autocheckpoint=1"))
        for number in range(1_000_000):
            key = f"{sys.argv[2]}-{number}-" + "x" * 3_000
            await database.write(ADD(key=key, created_at=1.0, context_start=0), durable=True)
            print(key, flush=True)

asyncio.run(main())
"""


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(repeats(1, 10)))
async def test_what_was_committed_is_there_after_kills(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "goclaw.db", random.Random(seed)
    promised = set[str]()
    for life in range(3):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITE, path, str(life), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout
        async with asyncio.timeout(30):
            for _ in range(rng.randint(1, 40)):
                promised.add((await child.stdout.readline()).decode().strip())
            child.kill()
            promised |= {line.decode().strip() async for line in child.stdout if line.endswith(b"\n")}
            await child.wait()
        async with open_database(path) as database:
            assert database.salvaged is None
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert promised <= {key for (key,) in connection.execute("SELECT key FROM sessions")}
