"""Prove bubblewrap with the proxy as a plain user, and print how it went. Started by `test_proxy_port.py` as root."""

import asyncio
import sys

from goclaw.common.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.select import prove
from tests import plain_user


async def through_a_proxy() -> None:
    """The canary proves that the proxy's port answers, and nothing else."""
    try:
        async with open_bubblewrap() as sandbox:
            await prove(sandbox, "proxy", RealClock())
            sys.stdout.write(f"{sandbox.tier}: proxied\n")
    except SandboxUnavailable as error:
        sys.stdout.write(f"unavailable: {error}\n")


if __name__ == "__main__":
    plain_user.become()
    sys.exit(asyncio.run(through_a_proxy()))
