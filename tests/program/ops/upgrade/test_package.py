"""The way back of a package names what was installed, wherever that came from."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.program.ops.upgrade import package
from goclaw.program.ops.upgrade.package import Package
from tests.tables import table

COMMIT = {"vcs": "git", "commit_id": "1f0c2a", "requested_revision": "v0.1.0"}


@table(
    "origin, requirement",
    [
        ({}, "goclaw==0.1.0"),
        (
            {"url": "file:///home/ann/goclaw-0.1.0.whl", "archive_info": {}},
            "goclaw @ file:///home/ann/goclaw-0.1.0.whl",
        ),
        ({"url": "file:///home/ann/goclaw", "dir_info": {}}, "goclaw @ file:///home/ann/goclaw"),
        (
            {"url": "https://git.example.org/x.git", "vcs_info": COMMIT},
            "goclaw @ git+https://git.example.org/x.git@1f0c2a",
        ),
    ],
)
def test_the_way_back_names_what_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: dict[str, Any], requirement: str
) -> None:
    monkeypatch.setattr(package, "direct_url", lambda: origin)
    monkeypatch.setattr(package, "_extras", lambda: iter(()))
    assert requirement in Package(tmp_path).way_back("0.1.0")
