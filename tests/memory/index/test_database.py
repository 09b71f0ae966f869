"""The open index file: what becomes of a damaged one."""

import asyncio
import sqlite3
from pathlib import Path

from goclaw.memory.index.database import BrokenIndex, open_index

PAGE = 4_096
"""SQLite's page size, where nobody sets another."""


def _note(connection: sqlite3.Connection) -> int:
    """Write something down; returns the page where it stands."""
    connection.execute("INSERT INTO facts VALUES ('word', 'apple')")
    [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'facts'")
    return int(page)


def _noted(connection: sqlite3.Connection) -> list[str]:
    return [value for (value,) in connection.execute("SELECT value FROM facts")]


async def test_a_damage_that_several_find_at_once_is_mended_once(tmp_path: Path) -> None:
    path, aside = tmp_path / "memory.db", tmp_path / "memory.db.broken"
    async with open_index(path) as index:
        page = await index.write(_note)
    content = path.read_bytes()
    damaged = content[: (page - 1) * PAGE] + b"\xff" * PAGE + content[page * PAGE :]
    path.write_bytes(damaged)
    async with asyncio.timeout(20), open_index(path) as index:
        found = await asyncio.gather(index.read(_noted), index.read(_noted), return_exceptions=True)
        errors = [error for error in found if isinstance(error, BrokenIndex)]
        assert len(errors) == 2
        await asyncio.gather(*map(index.rebuild, errors))
        assert aside.read_bytes() == damaged
        await index.write(_note)
        await index.rebuild(errors[0])
        assert await index.read(_noted) == ["apple"]
