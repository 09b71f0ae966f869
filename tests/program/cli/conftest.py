"""A person's surroundings for commands that run in this process."""

import os
from pathlib import Path

import pytest

from goclaw.program.cli import systemd as service_manager
from goclaw.program.cli.process import CONNECTION, KEY_SUFFIX
from tests.program.cli.fake_systemd import FakeSystemd, fake_systemd


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the person who runs the tests is found."""
    for name in os.environ:
        if name.endswith("_API_KEY") or name.startswith("GOCLAW_") or name in ("OLLAMA_HOST", "TELEGRAM_BOT_TOKEN"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GOCLAW_LOOPBACK_ONLY", "1")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    """A home, a state folder and a systemd of the test's own, and nothing of this machine's environment."""
    for name in list(os.environ):
        if name.startswith("GOCLAW_") or name.endswith(KEY_SUFFIX) or name.lower() in CONNECTION:
            monkeypatch.delenv(name)
    for name in ("OLLAMA_HOST", "TELEGRAM_BOT_TOKEN", "LOG_LEVEL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(service_manager, "SYSTEM_UNITS", tmp_path / "system")
    fake = fake_systemd(tmp_path / "programs")
    monkeypatch.setenv("PATH", fake.path)
    return fake
