"""A Postgres and a model server for the tests of several daemons."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.model import EchoModel, echo_model


@pytest.fixture
async def model() -> AsyncIterator[EchoModel]:
    async with echo_model() as server:
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the sockets below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)
