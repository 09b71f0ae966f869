"""Sessions: no error is lost."""

import pytest


@pytest.fixture(autouse=True)
def no_error_is_lost(nothing_is_lost: None) -> None:
    """Every test here keeps to it."""
