"""A state folder whose plugins uv installs without a network."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.common.core.plugin_folder import deactivate


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder; nothing of its plugins is left in this process afterwards."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    before = set(sys.modules)
    yield folder
    deactivate()
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
