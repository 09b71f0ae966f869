"""Telegram's side of a webhook: posts updates, those of one chat one after the other, again and again until a 2xx."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from goclaw.common.net import is_loopback
from tests.fake_telegram.world import Json, World

RETRY_SECONDS = 0.1
"""Telegram waits longer; nobody wants to."""
PATIENCE = 20.0
"""Seconds that an answer may take. Telegram's is about a minute."""


@dataclass
class Post:
    """One call of the webhook's."""

    update_id: int
    status: int
    """0: no answer."""


@dataclass
class Caller:
    """Calls the webhook while there is one."""

    world: World
    posts: list[Post] = field(default_factory=list)
    lost_answers: int = 0
    """So many coming answers get lost on their way: the update is sent again."""
    _busy: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Post what waits, until cancelled."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as tasks:
            while True:
                async with self.world.changed:
                    await self.world.changed.wait_for(self._free_chats)
                for chat in self._free_chats():
                    self._busy.add(chat)
                    tasks.create_task(self._serve(chat, session))

    def _free_chats(self) -> list[str]:
        if not self.world.webhook:
            return []
        chats = {chat_of(update) for update in self.world.updates}
        return sorted(chats - self._busy)

    async def _serve(self, chat: str, session: aiohttp.ClientSession) -> None:
        """Post the updates of one chat, in order."""
        try:
            while self.world.webhook and (waiting := self._of(chat)):
                update = waiting[0]
                allowed = self.world.webhook_settings.get("allowed_updates")
                wanted = not allowed or bool(update.keys() & set(allowed))
                if not wanted or await self._post(update, session):
                    self.world.confirm_one(update["update_id"])
                else:
                    await self.world.clock.sleep(RETRY_SECONDS)
                await self.world.notify()
        finally:
            self._busy.discard(chat)
            await self.world.notify()

    def _of(self, chat: str) -> list[Json]:
        return [update for update in self.world.updates if chat_of(update) == chat]

    async def _post(self, update: Json, session: aiohttp.ClientSession) -> bool:
        headers = {}
        if secret := self.world.webhook_settings.get("secret_token"):
            headers["X-Telegram-Bot-Api-Secret-Token"] = secret
        status, trouble = 0, ""
        try:
            if not is_loopback(URL(self.world.webhook).host or ""):
                raise aiohttp.ClientError("Connection refused")  # nothing of a test leaves this machine
            async with session.post(self.world.webhook, json=update, headers=headers) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            trouble = str(error) or type(error).__name__
        self.posts.append(Post(update["update_id"], status))
        if 200 <= status < 300 and self.lost_answers == 0:
            return True
        if 200 <= status < 300:
            self.lost_answers -= 1
            trouble = "Read timeout expired"
        self.world.webhook_error = trouble or f"Wrong response from the webhook: {status}"
        self.world.webhook_error_at = int(self.world.clock.now())
        return False


def chat_of(update: Json) -> str:
    """What Telegram keeps in order: the chat of an update."""
    content: dict[str, Any] = next((value for value in update.values() if isinstance(value, dict)), {})
    message = content.get("message", content)
    return str(message.get("chat", {}).get("id", ""))
