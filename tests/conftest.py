"""Nouns that many tests need."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from goclaw.clock import SteppedClock
from goclaw.net import LOOPBACK_ONLY
from goclaw.store.database import Database, open_database

# A busy machine is no reason to fail.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches anything but this machine."""
    monkeypatch.setenv(LOOPBACK_ONLY, "1")


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that stands still."""
    return SteppedClock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A new database file."""
    async with open_database(tmp_path / "goclaw.db") as opened:
        yield opened
