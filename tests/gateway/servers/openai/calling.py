"""A listener with `/v1` on the core of the daemon, and the programs that call it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from openai import AsyncOpenAI

from goclaw.gateway.servers.http import ListenerLimits
from tests.gateway.servers import calling
from tests.gateway.servers.calling import ANN
from tests.harness import Core, World

HELLO = [{"role": "user", "content": "Hello"}]


world_with = partial(calling.world_with, "openai")


@dataclass(frozen=True)
class Answered(calling.Answered):
    """What a program hears."""

    @property
    def error(self) -> Mapping[str, Any]:
        """The error in OpenAI's shape, with its four fields and no other."""
        assert set(self.said) == {"error"}, self.said
        assert set(self.said["error"]) == {"message", "type", "param", "code"}
        found: Mapping[str, Any] = self.said["error"]
        return found


@dataclass
class Service(calling.Service):
    """The listener with `/v1`, as programs reach it."""

    @asynccontextmanager
    async def client(self, user: str = ANN.key) -> AsyncIterator[AsyncOpenAI]:
        """OpenAI's own client, as a user's program has it."""
        async with AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.secret(user), max_retries=0) as client:
            yield client

    async def send(
        self,
        body: object,
        path: str = "/v1/chat/completions",
        *,
        method: str = "POST",
        user: str = ANN.key,
        **headers: str,
    ) -> Answered:
        """Send one request; `headers` with `_` for `-`, over those that a client has."""
        return await self.request(Answered, method, path, body, self.headers(user, headers))

    async def ask(self, text: str = "Hello", *, user: str = ANN.key, stream: bool = False, **headers: str) -> Answered:
        """Ask by a chat completion."""
        body = {"model": "goclaw", "messages": [{"role": "user", "content": text}], "stream": stream}
        return await self.send(body, user=user, **headers)


def content(answered: Answered) -> str:
    """The text of a chat completion."""
    assert answered.status == 200, answered.said
    found: str = answered.said["choices"][0]["message"]["content"]
    return found


def chunks(text: str) -> list[dict[str, Any]]:
    """The JSON data of a stream's events, without the end."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def streamed(text: str, field: str = "content") -> str:
    """What a stream of chunks says."""
    deltas = [choice["delta"] for chunk in chunks(text) for choice in chunk.get("choices", ())]
    return "".join(delta.get(field) or "" for delta in deltas)


def service(world: World, core: Core, caps: ListenerLimits | None = None) -> AbstractAsyncContextManager[Service]:
    """Serve `/v1` as the daemon does."""
    return calling.listening(Service, world, core, "openai", caps)
