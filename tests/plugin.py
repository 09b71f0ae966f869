"""Packages with plugins, as an installer leaves them behind."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.packaged import PackagedSource, dump_set_values
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import SettingsSource, combine
from goclaw.tools.toolkit.parts import PackageParts


def install(
    folder: Path, name: str, modules: Mapping[str, str], points: Mapping[str, str], version: str = "1.0"
) -> Path:
    """Write the package `name` into `folder`: the source of its modules, and its lines for `goclaw.plugins`."""
    described = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {path}" for point, path in points.items()]
    (described / "entry_points.txt").write_text("\n".join(["[goclaw.plugins]", *lines, ""]))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return folder


def merged(parts: PackageParts, config: Config | None = None) -> Config:
    """A configuration with what these parts declare below it."""
    above = dump_set_values(config or Config())
    return combine([SettingsSource(above), PackagedSource(parts.packaged)])


def with_packages(folder: Path, **settings: Any) -> Loaded:
    """The configuration of a daemon whose state folder is there, with what installed packages declare."""
    return load_config(overrides={"state_dir": str(folder), **settings}, environ={}, container_secrets=folder)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path of this process, where packages are found while the test runs."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(folder) in str(sys.modules[module].__file__):
            del sys.modules[module]
