"""The engine that all tests of the lane share."""

from collections.abc import Iterator

import pytest

from tests.containers.engine import Engine, Missing, running_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A container engine; the tests are skipped where this machine cannot run one."""
    try:
        with running_engine() as started:
            yield started
    except Missing as missing:
        pytest.skip(str(missing))
