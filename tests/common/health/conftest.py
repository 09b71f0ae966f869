"""What is logged by the room."""

import logging
from collections.abc import Iterator

import pytest

from tests.common.health.records import Records


@pytest.fixture
def records() -> Iterator[Records]:
    """Everything from now on."""
    kept = Records()
    logging.getLogger("goclaw.common.health").addHandler(kept)
    yield kept
    logging.getLogger("goclaw.common.health").removeHandler(kept)
