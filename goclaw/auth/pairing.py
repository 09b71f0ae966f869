"""Pairing: a stranger who writes to the bot in private gets a code, and an admin who knows it lets the stranger in.

Off by default. It makes one entry of users.json, for the number of the account that got the code, regardless of who
repeats it later and of the account's name. It never opens a group: the entry has `groups: false`.
Strangers learn nothing else, not even whether a code was wrong. Codes are kept over restarts, as facts of the store.
"""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from goclaw.auth.audit import AuditEntry
from goclaw.auth.users import Users, add_user
from goclaw.config.schema import PairingSettings
from goclaw.config.state import Facts
from goclaw.core.clock import Clock
from goclaw.core.events import Actor, Address, Delivery, Inbound
from goclaw.core.records import BoundedDict, record
from goclaw.core.redact import printable
from goclaw.errors import ConfigError

log = logging.getLogger(__name__)

FACT = "pairing"
"""Name of the stored fact: the open codes."""
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without what is mistaken for something else when it is read aloud."""
LENGTH = 8
"""Of 32 letters each: 40 bits, of which an admin tries at most `TRIES` an hour."""
CODE_SECONDS = 3_600.0
REMIND_SECONDS = 600.0
"""Minimum interval between two messages with the code to the same stranger."""
DENIED_SECONDS = 24 * 3_600.0
"""Time without a new code after a denial or an expired code."""
TRIES = 5
"""Wrong codes of one admin in an hour; after that none is looked at for the rest of it."""
MAX_REMEMBERED = 1_000
"""Denied people, and admins who tried, that are remembered."""
MAX_NAME = 40


@record
class PairingRequest:
    """An open request of a stranger."""

    code: str
    key: str
    """The actor key: the number of an account."""
    name: str
    """Name of the account, freely chosen by its owner."""
    channel: str
    chat: str
    until: float
    """Epoch seconds."""


class PairingRefused(Exception):
    """An admin's order cannot be carried out; the message says why."""


@dataclass(slots=True, eq=False)
class Pairing:
    """The open codes."""

    settings: PairingSettings
    users: Users
    users_path: Path
    clock: Clock
    audit: Callable[[AuditEntry], None]
    promise: Callable[[Delivery], Awaitable[bool]]
    """Puts a message to a chat into the outbox."""
    facts: Facts
    _asking: dict[str, PairingRequest] | None = None
    """By code; None: not read from the store yet."""
    _reminded: BoundedDict[str, float] = field(default_factory=lambda: BoundedDict(MAX_REMEMBERED))
    """Monotonic time of the last message with the code, by key."""
    _rests: BoundedDict[str, float] = field(default_factory=lambda: BoundedDict(MAX_REMEMBERED))
    """Monotonic time until which no new code is made, by key."""
    _tries: BoundedDict[str, tuple[int, float]] = field(default_factory=lambda: BoundedDict(MAX_REMEMBERED))
    """Wrong codes by admin: how many, and until when they count, monotonic."""
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while codes are made, looked up or used: a code is used once."""

    @property
    def enabled(self) -> bool:
        return self.settings.enabled

    async def request_code(self, inbound: Inbound) -> None:
        """Send a stranger who wrote in a private chat the code, at most once per `REMIND_SECONDS`."""
        actor, address = inbound.actor, inbound.address
        # A private chat has the number of its person; a listed user needs no code.
        private = actor.key == f"{address.channel}:{address.chat}" == inbound.session and actor.entry == address.channel
        known = self.users.get(actor.key) is not None
        if (
            not self.enabled
            or not private
            or known
            or inbound.edited
            or address.reply_to
            or actor.behalf
            or actor.owner
        ):
            return
        async with self._one:
            asking = await self._code_for(actor, address)
            if asking is None or not self._is_time_to_remind(actor.key):
                return
            await self.promise(Delivery(f"{inbound.id}:pairing", address, _code_message(asking.code)))

    async def list(self) -> Sequence[PairingRequest]:
        """Return open requests, the oldest first."""
        async with self._one:
            return list((await self._open()).values())

    async def approve(self, by: Actor, code: str) -> PairingRequest:
        """Let in the person who got this code.

        Raises:
            Refused: there is no such code (any more), or too many wrong ones came before; or users.json cannot take it.
        """
        async with self._one:
            asking = await self._found(by, code)
            settings = self.settings
            name = _name(asking.name)
            try:
                await asyncio.to_thread(
                    add_user,
                    self.users_path,
                    asking.key,
                    name=name,
                    roles=[settings.role],
                    allowed_tools=settings.allowed_tools,
                    groups=False,
                )
            except ConfigError as error:
                self._note(by, asking, "pairing.approve", "failed")
                await self.users.refresh()
                if self.users.get(asking.key):
                    await self._close(asking)  # the entry was written meanwhile
                raise PairingRefused(
                    f"{asking.key} is not let in, users.json cannot take it: {'; '.join(error.problems)}"
                ) from error
            await self._close(asking)
            await self.users.refresh()
            self._note(by, asking, "pairing.approve", "ok")
            welcome = "You are let in. Say what you want to know, or /help."
            address = Address(asking.channel, asking.chat)
            await self.promise(Delivery(f"pairing:{asking.code}:{asking.until:.0f}", address, welcome))
            return asking

    async def deny(self, by: Actor, code: str) -> PairingRequest:
        """Forget a code; its owner gets no other one for a day.

        Raises:
            Refused: as `approve`.
        """
        async with self._one:
            asking = await self._found(by, code)
            await self._close(asking)
            self._rests[asking.key] = self.clock.monotonic() + DENIED_SECONDS
            self._note(by, asking, "pairing.deny", "ok")
            return asking

    async def _code_for(self, actor: Actor, address: Address) -> PairingRequest | None:
        """Return the stranger's open code, made if need be; None when no code may be made now."""
        now, asking = self.clock.now(), await self._open()
        if found := next((each for each in asking.values() if each.key == actor.key), None):
            return found
        if self._rests.get(actor.key, 0.0) > self.clock.monotonic():
            return None
        if len(asking) >= self.settings.waiting:
            log.warning("pairing: %d codes are open, so %s gets none (pairing.waiting)", len(asking), actor.key)
            return None
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        made = PairingRequest(code, actor.key, actor.name, address.channel, address.chat, now + CODE_SECONDS)
        await self._keep({**asking, code: made})
        # A stranger who lets it expire and goes on writing was not told to expect a code.
        self._rests[actor.key] = self.clock.monotonic() + DENIED_SECONDS
        self._note(actor, made, "pairing.ask", "code given")
        log.info("pairing: %s asks to be let in; `goclaw pair list` shows the code", actor.key)
        return made

    async def _found(self, by: Actor, code: str) -> PairingRequest:
        now, tried = self.clock.monotonic(), code.strip().upper().replace("-", "")
        times, until = self._tries.get(by.key, (0, 0.0))
        if until <= now:
            times, until = 0, now + CODE_SECONDS
        if times >= TRIES:
            minutes = max(1, round((until - now) / 60))
            raise PairingRefused(f"Too many wrong codes. Try again in {minutes} min.")
        found = None
        for each in (await self._open()).values():
            if hmac.compare_digest(each.code.encode(), tried.encode(errors="replace")):
                found = each
        if found is None:
            self._tries[by.key] = (times + 1, until)
            self.audit(AuditEntry("pairing.approve", "code", by, allowed=False, rule="no such code"))
            raise PairingRefused(
                "No such code is open: it may be over (an hour), used, or mistyped. `/pair list` shows them."
            )
        return found

    async def _open(self) -> dict[str, PairingRequest]:
        """Return the codes that are still good."""
        if self._asking is None:
            self._asking = _read(await self.facts.fact(FACT))
        now = self.clock.now()
        if any(each.until <= now for each in self._asking.values()):
            await self._keep({code: each for code, each in self._asking.items() if each.until > now})
        return self._asking

    async def _close(self, asking: PairingRequest) -> None:
        await self._keep({code: each for code, each in (await self._open()).items() if code != asking.code})
        self._reminded.pop(asking.key, None)

    async def _keep(self, asking: dict[str, PairingRequest]) -> None:
        """Write the requests to disk before a code is sent."""
        await self.facts.learn(FACT, [asdict(each) for each in asking.values()])
        self._asking = asking

    def _is_time_to_remind(self, key: str) -> bool:
        now = self.clock.monotonic()
        if key in self._reminded and now - self._reminded[key] < REMIND_SECONDS:
            return False
        self._reminded[key] = now
        return True

    def _note(self, by: Actor, asking: PairingRequest, action: str, result: str) -> None:
        rule = "config pairing.enabled" if action == "pairing.ask" else "command.admin"
        self.audit(AuditEntry(action, asking.key, by, rule=rule, result=result))


def shown(asking: PairingRequest, now: float) -> str:
    """Format a line for an admin. The name was chosen by the account, and is in quotes: only the number counts."""
    minutes = max(1, round((asking.until - now) / 60))
    name = _name(asking.name)
    called = f", calls itself {name!r}" if name else ""
    return f"{asking.code[:4]}-{asking.code[4:]}  {asking.key}{called}, {minutes} min left"


def _code_message(code: str) -> str:
    return (
        "I do not know you. If the person who runs this bot expects you, give them this code within an hour: "
        f"{code[:4]}-{code[4:]}"
    )


def _name(name: str) -> str:
    """Return a display name that is nothing but one: a line, short, without what reads differently from what it is."""
    line = " ".join("".join(letter for letter in printable(name) if letter.isprintable()).split())
    return line if len(line) <= MAX_NAME else f"{line[:MAX_NAME]}…"


def _read(known: Any) -> dict[str, PairingRequest]:
    try:
        return {each["code"]: PairingRequest(**each) for each in known or ()}
    except (TypeError, KeyError):
        return {}
