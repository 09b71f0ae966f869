"""No containment at all: only where the configuration says `tools.exec.sandbox: off`.

Commands run with all rights of the daemon's user. What remains is an own environment, limits and the certain end of
the whole tree: the broker's process does that, without dropping or restricting anything.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goclaw.sandbox.base import Tier
from goclaw.sandbox.broker import Broker, running


@asynccontextmanager
async def open_off() -> AsyncIterator[Broker]:
    """Run commands as they are."""
    async with running(Broker(contained=False)) as broker:
        yield broker


SANDBOX = Tier(name="off", open=open_off, describe=lambda: "no containment", remedy="")
