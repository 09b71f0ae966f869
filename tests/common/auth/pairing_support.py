"""Pairing on a real users.json, and the whole daemon with an admin."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.pairing import (
    Pairing,
)
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.files import lock_folder
from goclaw.program.app import open_app
from tests.channels.telegram.support import UNHURRIED
from tests.fake_telegram.server import FakeTelegram

BOSS, CARL, DORA = 5, 77, 78
ADMIN = Actor(f"telegram:{BOSS}", "telegram")


def knocking(user: int = CARL, text: str = "hi", *, number: int = 1, name: str = "Carl", **more: Any) -> Inbound:
    """What a stranger writes in private."""
    key = f"telegram:{user}"
    fields: dict[str, Any] = {
        "id": f"telegram:{user}:{number}",
        "actor": Actor(key, "telegram", name=name),
        "session": key,
        "text": text,
        "address": Address("telegram", str(user)),
        "received_at": 0.0,
    }
    return Inbound(**(fields | more))


class Desk:
    """Pairing on a real users.json, with what survives a restart."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "users.json"
        self.path.write_text(json.dumps({"users": {ADMIN.key: {"roles": ["admin"]}}}))
        self.path.chmod(0o600)
        pairing = {"enabled": True, "tell_admins": False, **settings}
        self.config = Config.model_validate({"state_dir": folder, "pairing": pairing})
        self.clock = SteppedClock()
        self.stored: dict[str, Any] = {}
        self.sent: list[Delivery] = []
        self.audited: list[AuditEntry] = []
        self.begin()

    def begin(self) -> None:
        """The daemon starts."""
        self.users = Users.read(self.path)
        self.pairing = Pairing(
            self.config,
            users=self.users,
            writer=lock_folder,
            clock=self.clock,
            audit=self.audited.append,
            promise=self._promise,
            facts=self,
        )

    async def _promise(self, delivery: Delivery) -> bool:
        self.sent.append(delivery)
        return True

    async def fact(self, name: str) -> Any:
        return json.loads(self.stored[name]) if name in self.stored else None

    async def learn(self, name: str, value: Any) -> None:
        await asyncio.sleep(0)
        self.stored[name] = json.dumps(value)

    async def facts(self, name: str) -> dict[str, Any]:
        found = sorted(each for each in self.stored if each == name or each.startswith(f"{name}:"))
        return {each[len(name) + 1 :]: json.loads(self.stored[each]) for each in found}

    async def learn_new(self, name: str, value: Any) -> bool:
        is_new = name not in self.stored
        await self.learn(name, json.loads(self.stored[name]) if not is_new else value)
        return is_new

    async def unlearn(self, name: str) -> bool:
        await asyncio.sleep(0)
        return self.stored.pop(name, None) is not None

    async def code(self, user: int = CARL) -> str:
        """The code that somebody is told."""
        await self.pairing.request_code(knocking(user))
        return self.sent[-1].text.rpartition(" ")[2]

    def entries(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text())["users"])


@asynccontextmanager
async def daemon(folder: Path, **pairing: Any) -> AsyncIterator[tuple[FakeTelegram, Path]]:
    """The whole daemon on a fake Telegram, where Ann is an admin and Eve a user."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    users = state / "users.json"
    users.write_text(json.dumps({"users": {ADMIN.key: {"roles": ["admin"]}, "telegram:6": {}}}))
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": [], "rest": {"text": "The agent speaks."}}))
    async with FakeTelegram() as telegram, asyncio.timeout(30):
        config = {
            "state_dir": state,
            "models": {"agent": [f"scripted:{script}"], "summary": []},
            "telegram": UNHURRIED
            | {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5, "groups": [-100]},
            "pairing": {"enabled": True, "tell_admins": False} | pairing,
        }
        async with open_app(Config.model_validate(config)):
            yield telegram, users


async def said_to(telegram: FakeTelegram, chat: int, count: int) -> str:
    return (await telegram.wait_sent(chat, count))[count - 1].text
