"""One call of a file tool or of exec in real surroundings."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.builtin.memory_support import Surroundings, surroundings


@pytest.fixture
async def around(tmp_path: Path) -> AsyncIterator[Surroundings]:
    async with surroundings(tmp_path, enabled=False) as made:
        yield made
