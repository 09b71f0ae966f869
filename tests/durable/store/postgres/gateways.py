"""Gateways on one schema of Postgres, as far as their state folders go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from goclaw.common.auth.users import Users, open_users
from goclaw.common.config.state import SET_ASIDE
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.documents import writer_of
from goclaw.durable.store.postgres.state_files import StateFiles
from goclaw.durable.store.postgres.stored_files import StoredFiles, stored_file
from tests.acceptance.waiting import clock, eventually

USERS, TOKENS, NOTE, AUDIT = "users.json", "access-tokens.json", "notes/telegram-5/tea.md", "logs/audit.jsonl"
SECOND = 1.0
"""Seconds within which a change is to be in force elsewhere."""
BUSY = 10.0
"""Further seconds for a machine that does much else."""


class Gateway:
    """The files of one gateway that runs, and its users."""

    def __init__(self, folder: Path, database: PostgresDatabase, files: StateFiles, users: Users) -> None:
        self.folder = folder
        self.database = database
        self.files = files
        self.users = users
        self.writer = writer_of(database.place, folder)

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.is_file() else ""

    def put(self, name: str, text: str) -> None:
        """Change a document."""
        path = self.folder / name
        with self.writer(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o600)

    def remove(self, name: str) -> None:
        with self.writer(self.folder / name):
            (self.folder / name).unlink()

    def aside(self) -> list[str]:
        return sorted(path.read_text() for path in (self.folder / SET_ASIDE).rglob("*") if path.is_file())


@asynccontextmanager
async def gateway(place: PostgresPlace, folder: Path, *, hears: bool = True) -> AsyncIterator[Gateway]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    async with (
        open_schema(place, clock) as database,
        StateFiles(database, folder, clock).open() as files,
        open_users(folder / USERS, clock) as users,
        background(database.notices.run(), "notices") if hears else nullcontext(),
    ):
        files.on_copy(users.refresh)
        yield Gateway(folder, database, files, users)


async def soon(condition: Callable[[], bool]) -> None:
    began = clock.monotonic()
    await eventually(condition, SECOND + BUSY)
    assert clock.monotonic() - began < SECOND + BUSY


def edit(folder: Path, name: str, content: bytes | str, mode: int = 0o600) -> None:
    """Change a file of the folder as an editor does, and as a gateway of the former version."""
    path = folder / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


async def store(database: PostgresDatabase, name: str, text: str) -> None:
    """Replace a document as a gateway of the former version does, without telling anybody."""
    stored = StoredFiles(database)
    known = await stored.get(name)
    await stored.put(name, known.sha256 if known else None, stored_file(text.encode(), 0o600, 1e9), text.encode())
