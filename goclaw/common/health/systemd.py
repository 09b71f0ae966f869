"""Notifications to the service manager by sd_notify(3). Without one nothing is sent.

Podman and others that set NOTIFY_SOCKET get the same.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from goclaw.common.core.clock import Clock

log = logging.getLogger(__name__)

SOCKET, WATCHDOG, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
VARIABLES = (SOCKET, WATCHDOG, WATCHDOG_PID)
"""Variables with the manager's socket and watchdog interval. No child of ours may answer in our place."""
FULL_SECONDS = 0.05
PATIENCE_SECONDS = 5.0
"""Time for retries while the manager's queue is full, and the interval between them; then the message is dropped."""


class Notifier:
    """The line to the service manager."""

    def __init__(self, address: str, watchdog_seconds: float, clock: Clock) -> None:
        """`address`: a path, or `@name` for an abstract socket; empty: no manager. 0 seconds: no watchdog."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._clock = clock
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def of(cls, environ: MutableMapping[str, str], clock: Clock) -> "Notifier":
        """Return the notifier that the environment configures; its variables are removed, as they are for us alone."""
        address, microseconds, pid = (environ.pop(name, "") for name in VARIABLES)
        if address and not address.startswith(("/", "@")):
            log.warning("%s=%s is no Unix socket; the service manager is told nothing", SOCKET, address)
            address = ""
        ours = bool(address) and microseconds.isdigit() and pid in ("", str(os.getpid()))
        return cls(address, int(microseconds) / 1e6 if ours else 0.0, clock)

    async def notify(self, **state: str | int) -> None:
        """Send one message, `READY=1` and the like. A manager that does not listen is no reason to fail."""
        if not self._address:
            return
        message = "\n".join(f"{name}={value}" for name, value in state.items()).encode()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not self._send(message):
                    await self._clock.sleep(FULL_SECONDS)
        except OSError as error:
            # A time-out has no words of its own.
            reason = str(error) or "it does not read"
            log.warning("the service manager could not be told %s: %s", ", ".join(state), reason)

    async def feed_watchdog(self, status: Callable[[], str]) -> None:
        """Say in time that the loop lives, until cancelled. To be run in the loop that is watched."""
        while self.watchdog_seconds:
            await self.notify(WATCHDOG=1, STATUS=status())
            await self._clock.sleep(self.watchdog_seconds / 2)

    def _send(self, message: bytes) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            with suppress(BlockingIOError):
                line.sendto(message, self._address)
                return True
        return False
