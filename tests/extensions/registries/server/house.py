"""A registry on a free port, with its people and their tokens."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from yarl import URL

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens, add_token
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.server.api import open_registry
from goclaw.gateway.servers.http import ListenerLimits

PEOPLE = {"tui:ann": {"roles": ["admin"]}, "tui:bob": {}, "tui:eve": {}, "tui:mal": {}}
"""Ann is an admin, Bob and Mal are publishers, Eve only reads."""


def document(name: str = "data-tools", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """An entry."""
    return {"kind": "toolset", "name": name, "version": version, "description": "Tables.", **more}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class House:
    """The registry, and whoever asks it."""

    port: int
    state: Path
    shelf: CatalogStore
    tokens: dict[str, str]
    http: aiohttp.ClientSession
    audit: list[AuditEntry] = field(default_factory=list)
    clock: SteppedClock = field(default_factory=SteppedClock)

    async def ask(self, method: str, path: str, user: str = "eve", body: Any = None, **headers: str) -> Answer:
        """One request; `path` is sent as it is written. `user` empty: without a token."""
        shown = {"Authorization": f"Bearer {self.tokens.get(user, user)}"} if user else {}
        data = orjson.dumps(body) if isinstance(body, dict) else body
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with (
            asyncio.timeout(10),
            self.http.request(method, url, data=data, headers={**shown, **headers}) as response,
        ):
            raw = await response.read()
            named = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, named, json.loads(raw) if raw else None)

    async def publish(self, user: str, entry: dict[str, Any]) -> int:
        """Publish an entry; the status."""
        return (await self.ask("PUT", address_of(entry), user, entry)).status


def address_of(entry: dict[str, Any]) -> str:
    """Where an entry is."""
    name = entry["name"].replace("/", "%2F")
    return f"/v1/entries/{entry['kind']}/{name}/versions/{entry['version']}"


@asynccontextmanager
async def open_house(
    folder: Path, caps: ListenerLimits | None = None, registries: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[House]:
    """`settings`: those of `registry_server`."""
    state = folder / "state"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = Config.model_validate(
        {
            "state_dir": state,
            "registries": registries or {},
            "registry_server": {"port": 0, "publishers": ["tui:bob", "tui:mal"], **settings},
        }
    )
    config.users_path.write_text(json.dumps({"users": PEOPLE}))
    clock = SteppedClock()
    secrets = {
        key.removeprefix("tui:"): add_token(config.tokens_path, key.removeprefix("tui:"), key, clock.now())
        for key in (*PEOPLE, "tui:gone")
    }
    tokens, audit = Tokens(config.tokens_path, clock), list[AuditEntry]()
    users = Users.read(config.users_path)
    async with (
        open_registry(config, users, tokens, clock, audit.append, caps) as port,
        aiohttp.ClientSession() as http,
    ):
        yield House(port, state, CatalogStore(state / FILE), secrets, http, audit, clock)
