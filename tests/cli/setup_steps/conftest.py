"""No key of whoever runs the tests is found."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith("_API_KEY") or name.startswith("GOCLAW_") or name in ("OLLAMA_HOST", "TELEGRAM_BOT_TOKEN"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GOCLAW_LOOPBACK_ONLY", "1")
