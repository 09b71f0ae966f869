"""The two lanes of tests: the short one for every commit, the long one by hand before a release.

`scripts/test --long` sets `TESTS_LONG=1`, runs what is marked `long` or `deep`, and keeps a report.
"""

import os
from typing import TypeVar

ValueT = TypeVar("ValueT")

LONG = os.environ.get("TESTS_LONG") == "1"


def repeats(short: ValueT, long: ValueT) -> ValueT:
    """Return how much a test marked `deep` tries: the first value in the short lane, the second in the long one."""
    return long if LONG else short
