"""The secret of the webhook is one for all processes."""

import asyncio
from pathlib import Path

import pytest

from goclaw.channels.telegram.webhook import is_generated_secret, load_secret
from goclaw.common.config.state import WEBHOOK_SECRET
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.documents import writer_of


def secret(place: PostgresPlace, folder: Path) -> str:
    """The secret of the process with this state folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return load_secret(folder, writer_of(place, folder))


def kept(folder: Path) -> str:
    return (folder / "secrets" / WEBHOOK_SECRET).read_text()


@pytest.mark.promise("P-telegram-replicas")
async def test_of_first_starts_at_the_same_time_all_get_one_secret(place: PostgresPlace, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with open_database(place):
        made = await asyncio.gather(*(asyncio.to_thread(secret, place, each) for each in (one, two, one, two)))
    [found] = set(made)
    assert len(found) >= 32 and {kept(one), kept(two)} == {found}
    assert is_generated_secret(found, one) and not is_generated_secret("of the operator", one)
    assert (two / "secrets" / WEBHOOK_SECRET).stat().st_mode & 0o777 == 0o600
    assert secret(place, tmp_path / "three") == found


async def test_a_secret_of_before_stays_and_one_that_lost_is_replaced(place: PostgresPlace, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for each, words in ((one, b"of one"), (two, b"of two")):
        (each / "secrets").mkdir(mode=0o700, parents=True)
        (each / "secrets" / WEBHOOK_SECRET).write_bytes(words)
    async with open_database(place):
        assert [secret(place, one), secret(place, two)] == ["of one", "of one"]
    assert kept(two) == "of one"
