"""A Postgres for the tests of channels on several processes: one server for each worker that asks for it."""

from collections.abc import Iterator

import pytest

from goclaw.config.values import PostgresPlace
from tests.postgres import Server, fresh_place, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The newest major."""
    with running() as started:
        yield started


@pytest.fixture
def place(server: Server) -> PostgresPlace:
    """A schema that does not exist yet, for processes that share it."""
    return fresh_place(server)
