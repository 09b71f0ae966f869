"""The secret of the webhook is one for all processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from goclaw.channels.telegram.webhook import agreed_secret, is_kept
from goclaw.common.config.state import WEBHOOK_SECRET
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.state_files import StateFiles
from tests.acceptance.waiting import clock


@dataclass
class Process:
    """One process's state folder."""

    folder: Path
    files: StateFiles

    async def secret(self) -> str:
        return await agreed_secret(self.folder, self.files.agree)

    def kept(self) -> str:
        return (self.folder / "secrets" / WEBHOOK_SECRET).read_text()


@asynccontextmanager
async def process(place: PostgresPlace, folder: Path) -> AsyncIterator[Process]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    async with open_schema(place, clock) as database:
        yield Process(folder, StateFiles(database, folder, clock))


@pytest.mark.promise("P-telegram-replicas")
async def test_of_first_starts_at_the_same_time_all_get_one_secret(place: PostgresPlace, tmp_path: Path) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        for each in (one, two):
            await each.files.settle()
        secrets = set(await asyncio.gather(*(each.secret() for each in (one, two, one, two))))
        assert len(secrets) == 1
        [secret] = secrets
        assert len(secret) >= 32
        assert {one.kept(), two.kept()} == {secret}
        assert is_kept(secret, one.folder) and not is_kept("of the operator", one.folder)
        for each in (one, two):
            assert await each.files.send_changes() == 0, "the folder has what the database has"
            mode = (each.folder / "secrets" / WEBHOOK_SECRET).stat().st_mode
            assert mode & 0o777 == 0o600
    async with process(place, tmp_path / "three") as three:
        await three.files.settle()
        assert await three.secret() == secret


async def test_a_secret_of_before_stays_and_one_that_lost_is_replaced(place: PostgresPlace, tmp_path: Path) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        for each, words in ((one, b"of one"), (two, b"of two")):
            (each.folder / "secrets").mkdir(mode=0o700)
            (each.folder / "secrets" / WEBHOOK_SECRET).write_bytes(words)
        assert [await one.secret(), await two.secret()] == ["of one", "of one"]
        assert two.kept() == "of one"
