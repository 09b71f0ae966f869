"""A listener with `/api/v1` on the core of the daemon, and the programs that call it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from goclaw.common.core.supervise import background
from goclaw.gateway.servers.http import ListenerLimits
from tests.gateway.servers import calling
from tests.gateway.servers.calling import ANN
from tests.harness import Core, World, before_the_next_look

PREFIX = "/api/v1"


world_with = partial(calling.world_with, "api")


@dataclass(frozen=True)
class Answered(calling.Answered):
    """What a program hears."""

    @property
    def problem(self) -> Mapping[str, Any]:
        """The refusal as problem details."""
        assert self.headers["Content-Type"] == "application/problem+json", self.said
        found: Mapping[str, Any] = self.said
        assert set(found) <= {"type", "title", "status", "detail", "field"} and found["status"] == self.status
        return found


@dataclass
class Service(calling.Service):
    """The listener, as programs reach it."""

    async def send(
        self, method: str, path: str, body: object = None, *, user: str = ANN.key, **headers: str
    ) -> Answered:
        """Send one request to a path beneath `/api/v1`; `headers` with `_` for `-`."""
        return await self.request(Answered, method, f"{PREFIX}{path}", body, self.headers(user, headers))

    async def get(self, path: str, *, user: str = ANN.key) -> Answered:
        return await self.send("GET", path, user=user)

    async def post(self, path: str, body: object, *, user: str = ANN.key) -> Answered:
        return await self.send("POST", path, body, user=user)

    async def say(self, text: str, name: str = "1", *, user: str = ANN.key, session: str = "") -> Answered:
        """Send a message to a session; empty: the user's own."""
        return await self.post(f"{at(session or user)}/messages", {"id": name, "text": text}, user=user)


def at(session: str) -> str:
    """The path of a session."""
    return f"/sessions/{quote(session, safe='')}"


def service(world: World, core: Core, caps: ListenerLimits | None = None) -> AbstractAsyncContextManager[Service]:
    """Serve `/api/v1` as the daemon does."""
    return calling.listening(Service, world, core, "api", caps)


@asynccontextmanager
async def moving(world: World, step: float) -> AsyncIterator[None]:
    """Let time pass in steps of so many seconds."""

    async def move() -> None:
        while True:
            world.clock.advance(step)
            await before_the_next_look()

    async with background(move(), "time"):
        yield
