"""Every tier that works on this machine, opened."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from goclaw.common.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.sandbox.broker import open_broker
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.select import prove

TIERS: dict[str, Callable[[], AbstractAsyncContextManager[Sandbox]]] = {
    "bubblewrap": open_bubblewrap,
    "broker": open_broker,
}
_PROVEN = set[str]()
"""Tiers that have run the canary in this process: once is enough, and it costs more than most tests."""


@pytest.fixture(params=list(TIERS))
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    try:
        async with TIERS[request.param]() as opened:
            if request.param not in _PROVEN:
                await prove(opened, "none", RealClock())
                _PROVEN.add(request.param)
            yield opened
    except SandboxUnavailable as error:
        if "could be" in str(error):
            raise  # it runs commands here and does not contain them: that is no reason to look away
        pytest.skip(f"{request.param} does not work here: {error}")
