"""The short form of `trees.py`: every shape of tree, in every tier."""

from pathlib import Path

import pytest

from goclaw.execution.sandbox.base import Sandbox
from tests.execution.sandbox.probes import program
from tests.execution.sandbox.trees import SHAPES, kill_one
from tests.lanes import repeats

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(not program(), reason="no python3 in /usr")]


@pytest.mark.deep
@pytest.mark.promise("P-exec-timeout")
@pytest.mark.parametrize("shape", SHAPES)
async def test_nothing_of_a_hostile_tree_is_left_after_half_a_second(
    shape: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    for _ in range(repeats(1, 3)):
        seconds, left = await kill_one(sandbox, tmp_path, shape)
        assert left == 0
        assert seconds < 0.5
