"""The installation that an upgrade begins from."""

from pathlib import Path

import pytest

from goclaw.common.core import container
from goclaw.errors import StateError
from goclaw.program.ops.upgrade.recognise import recognise


def test_what_a_container_runs_is_upgraded_by_its_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cmdline").write_text("/sbin/docker-init\0--\0goclaw\0gateway\0")
    monkeypatch.setattr(container, "FIRST", tmp_path / "cmdline")
    monkeypatch.setattr(container, "is_container", lambda: True)
    with pytest.raises(StateError, match=r"pull the new image outside of it \(docs/docker.md\)"):
        recognise()
    (tmp_path / "cmdline").write_text("sleep\0infinity\0")  # a container for development
    with pytest.raises(StateError, match="editable install"):  # these tests' own
        recognise()
