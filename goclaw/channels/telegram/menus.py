"""The bot's command menus: one for everybody, and in their private chat with the bot one for each listed person.

A person's own is set at their first message after a start or a change of users.json, unless Telegram has it already:
the store keeps a digest of what was set last. It is deleted once the person is not listed any more. No message waits
for any of it, and a failure is tried again later.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Iterable

import orjson
from telegram import Bot, BotCommandScopeChat
from telegram.error import BadRequest, Forbidden, TelegramError

from goclaw.channels.base import People
from goclaw.channels.state import ChannelState
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import CommandInfo, GatewayPort, Inbound
from goclaw.common.specs import MCP
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MENU = f"{CHANNEL} menu"
"""Fact: the digest of a person's menu; the number of the person follows a colon."""
MENU_NAME = re.compile(r"[a-z0-9_]{1,32}")
MAX_SUMMARY = 256
"""Maximum characters in the description of a command (Bot API, BotCommand)."""
RETRY_SECONDS = 60.0
"""Seconds after a failure in which nothing is tried again."""


class Menus:
    """Sets the menus of one bot."""

    def __init__(self, bot: Bot, state: ChannelState, people: People, clock: Clock) -> None:
        self._bot = bot
        self._state = state
        self._people = people
        self._clock = clock
        self._everybodys: list[tuple[str, str]] | None = None
        """The menu that this process set last for everybody; None: none yet."""
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held while menus of people are set or deleted, so that the latest one stays."""
        self.settled: set[str] = set()
        """Keys of the people whose menu needs no look before users.json changes."""
        people.changes.append(self._on_change)

    async def run(self, gateway: GatewayPort) -> None:
        """Set the menu for everybody and delete those of people who are gone, until cancelled: for one process."""
        while True:
            self._changed.clear()
            if await _succeeds(self._review(gateway)):
                await self._changed.wait()
            else:
                await self._clock.sleep(RETRY_SECONDS)

    def offer(self, inbound: Inbound, gateway: GatewayPort, group: asyncio.TaskGroup) -> None:
        """Have the menu of a message's sender set in the background, if it is in their private chat."""
        key = inbound.actor.key
        if key == f"{CHANNEL}:{inbound.address.chat}" and key in self._people.in_force:
            self.settled.add(key)
            group.create_task(self._settle(inbound, gateway), name="telegram menu of a person")

    async def _settle(self, inbound: Inbound, gateway: GatewayPort) -> None:
        if not await _succeeds(self._set_own(inbound, gateway)):
            await self._clock.sleep(RETRY_SECONDS)
            self.settled.discard(inbound.actor.key)

    async def _set_own(self, inbound: Inbound, gateway: GatewayPort) -> None:
        chat = int(inbound.address.chat)
        async with self._turn:
            if inbound.actor.key not in self._people.in_force:
                return
            menu = menu_of(gateway.commands(inbound.actor))
            # Another bot at the same store has none of it yet.
            digest = hashlib.sha256(orjson.dumps([self._bot.token.partition(":")[0], menu])).hexdigest()
            if await self._state.fact(f"{MENU}:{chat}") != digest:
                await self._bot.set_my_commands(menu, BotCommandScopeChat(chat))
                await self._state.learn({f"{MENU}:{chat}": digest})

    async def _review(self, gateway: GatewayPort) -> None:
        if (menu := menu_of(gateway.commands(None))) != self._everybodys:
            await self._bot.set_my_commands(menu)
            self._everybodys = menu
        async with self._turn:
            for person in await self._state.facts(MENU):
                if f"{CHANNEL}:{person}" not in self._people.in_force:
                    await self._delete(int(person))

    async def _delete(self, person: int) -> None:
        try:
            await self._bot.delete_my_commands(BotCommandScopeChat(person))
        except (BadRequest, Forbidden) as error:
            log.info("telegram: the command menu of %d is gone with its chat: %s", person, error.message)
        await self._state.learn({f"{MENU}:{person}": None})

    def _on_change(self) -> None:
        self.settled.clear()
        self._changed.set()


def menu_of(commands: Iterable[CommandInfo]) -> list[tuple[str, str]]:
    """Return the commands that Telegram can show, as name and description.

    Prompts of MCP servers, which come and go with them, are left to /help.
    """
    shown = (info for info in commands if MENU_NAME.fullmatch(info.name) and not info.name.startswith(MCP))
    return [(info.name, info.summary[:MAX_SUMMARY]) for info in shown if info.summary]


async def _succeeds(work: Awaitable[None]) -> bool:
    try:
        await work
    except (TelegramError, StateError) as error:
        log.info("telegram: a command menu could not be set: %s", error)
        return False
    return True
