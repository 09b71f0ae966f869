"""A Postgres for the tests of this folder: one server for each worker."""

from collections.abc import Iterator

import pytest

from goclaw.config.values import PostgresPlace
from tests.postgres import Server, fresh_place, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The newest major, shared by the tests that do not stop it."""
    with running() as started:
        yield started


@pytest.fixture
def place(server: Server) -> PostgresPlace:
    """A schema that does not exist yet."""
    return fresh_place(server)
