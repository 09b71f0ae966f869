"""Where the processes of a test keep what they know."""

import pytest

from goclaw.common.config.values import PostgresPlace


@pytest.fixture(params=["one process", "several processes"])
def store(request: pytest.FixtureRequest) -> PostgresPlace | None:
    """A schema that several processes share; None: a process is alone on a file, before the next one begins."""
    if request.param == "one process":
        return None
    place: PostgresPlace = request.getfixturevalue("place")
    return place
