"""Brokers whose filters lack something, as on another kernel."""

import pytest

from goclaw.tools.execution.sandbox import broker


def filters_without(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the broker build its filters without this option."""
    path = "import sys; sys.path.insert(0, sys.argv[1])\nimport goclaw.tools.execution.sandbox.seccomp as s\n"
    build = f"real = s.build\ns.build = lambda *a, **k: real(*a, **{{**k, '{option}': False}})\n"
    monkeypatch.setattr(broker, "_BOOT", f"{path}{build}{broker._BOOT}")
