"""No test of this room may reach a real model."""

import pytest

from goclaw.net import LOOPBACK_ONLY


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOPBACK_ONLY, "1")
