"""Pairing: a stranger writing to the bot in private gets a code, and an admin who knows it lets the stranger in.

Off by default. It makes one entry of users.json, for the number of the account that got the code, regardless of who
repeats it later and of the account's name. It never opens a group: the entry has `groups: false`.
Strangers learn nothing else, not even whether a code was wrong. Codes and wrong tries are facts of the store, a row
each: they are kept over restarts, and are the same for all processes that share it.
"""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users, add_user
from goclaw.common.config.schema import PairingSettings
from goclaw.common.config.state import SharedFacts
from goclaw.common.core.clock import APART_SECONDS, Clock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.files import Writer
from goclaw.common.core.records import record
from goclaw.common.core.redact import printable
from goclaw.errors import ConfigError

log = logging.getLogger(__name__)

FACT = "pairing"
"""Name of the stored facts: what each stranger was given; behind a ":" the stranger's key."""
TRIES_FACT = "pairing tries"
"""Name of the stored facts: when each wrong code of an admin is over; the admin's key and a random number follow."""
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without characters that are easily confused when read aloud."""
LENGTH = 8
"""Of 32 letters each: 40 bits, and an admin may try at most `TRIES` codes an hour."""
CODE_SECONDS = 3_600.0
REMIND_SECONDS = 600.0
"""Minimum interval between two messages with the code to the same stranger."""
DENIED_SECONDS = 24 * 3_600.0
"""Time without a new code after a denial or an expired code."""
TRIES = 5
"""Wrong codes of one admin in an hour; after that none is looked at until the first of them is an hour old."""
MAX_NAME = 40


@record
class PairingRequest:
    """A request of a stranger."""

    code: str
    key: str
    """The actor key: the number of an account."""
    name: str
    """Name of the account, freely chosen by its owner."""
    channel: str
    chat: str
    until: float
    """Epoch seconds."""
    told_at: float = 0.0
    """When the stranger was sent the code last, in epoch seconds."""
    denied: bool = False

    @property
    def rests_until(self) -> float:
        """The moment from which this stranger may get another code, in epoch seconds."""
        return self.until - CODE_SECONDS + DENIED_SECONDS


class PairingRefused(Exception):
    """An admin's order cannot be carried out; the message says why."""


@dataclass(slots=True, eq=False)
class Pairing:
    """The open codes."""

    settings: PairingSettings
    users: Users
    users_path: Path
    writer: Writer
    """Changes that file."""
    clock: Clock
    audit: Callable[[AuditEntry], None]
    promise: Callable[[Delivery], Awaitable[bool]]
    """Puts a message to a chat into the outbox."""
    facts: SharedFacts
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while this process makes, looks up or uses a code: a code is used once."""

    @property
    def enabled(self) -> bool:
        return self.settings.enabled

    async def request_code(self, inbound: Inbound) -> None:
        """Send a stranger who wrote in a private chat the code, at most once per `REMIND_SECONDS`."""
        actor, address = inbound.actor, inbound.address
        # A private chat has the number of its person; a listed user needs no code.
        private = actor.key == f"{address.channel}:{address.chat}" == inbound.session and actor.entry == address.channel
        is_known = actor.owner or self.users.get(actor.key) is not None
        if not self.enabled or not private or is_known or inbound.edited or address.reply_to or actor.behalf:
            return
        async with self._one:
            asking, now = await self._code_for(actor, address), self.clock.now()
            if asking is None or 0 <= now - asking.told_at < REMIND_SECONDS:
                return
            await self.facts.learn(_fact(asking), asdict(replace(asking, told_at=now)))
            text = (
                "I do not know you. If the person who runs this bot expects you, send them this code within an hour: "
                f"{asking.code[:4]}-{asking.code[4:]}"
            )
            await self.promise(Delivery(f"{inbound.id}:pairing", address, text))

    async def list(self) -> Sequence[PairingRequest]:
        """Return open requests, the oldest first."""
        async with self._one:
            return sorted((await self._open()).values(), key=lambda asking: asking.until)

    async def approve(self, by: Actor, code: str) -> PairingRequest:
        """Let in the person who got this code.

        Raises:
            Refused: there is no such code (any more), or too many wrong ones came before; or users.json cannot take it.
        """
        async with self._one:
            asking = await self._find(by, code)
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
                    writer=self.writer,
                )
            except ConfigError as error:
                self._note(by, asking, "pairing.approve", "failed")
                await self.users.refresh()
                if self.users.get(asking.key):
                    await self.facts.unlearn(_fact(asking))  # the entry was written meanwhile
                raise PairingRefused(
                    f"{asking.key} was not approved because users.json cannot be written: {'; '.join(error.problems)}"
                ) from error
            await self.facts.unlearn(_fact(asking))
            await self.users.refresh()
            self._note(by, asking, "pairing.approve", "ok")
            welcome = "You now have access. Ask me something, or send /help."
            address = Address(asking.channel, asking.chat)
            await self.promise(Delivery(f"pairing:{asking.code}:{asking.until:.0f}", address, welcome))
            return asking

    async def deny(self, by: Actor, code: str) -> PairingRequest:
        """Forget a code; its owner gets no other one for a day.

        Raises:
            Refused: as `approve`.
        """
        async with self._one:
            asking = await self._find(by, code)
            now = self.clock.now()
            await self.facts.learn(_fact(asking), asdict(replace(asking, denied=True, until=now + CODE_SECONDS)))
            self._note(by, asking, "pairing.deny", "ok")
            return asking

    async def _code_for(self, actor: Actor, address: Address) -> PairingRequest | None:
        """Return the stranger's open code, made if need be; None when no code may be made now."""
        now, known = self.clock.now(), await self._load()
        asking = {key: each for key, each in known.items() if _is_open(each, now)}
        if actor.key in known:
            return asking.get(actor.key)
        if len(asking) >= self.settings.waiting:
            log.warning("pairing: %d codes are open, so %s gets none (pairing.waiting)", len(asking), actor.key)
            return None
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        made = PairingRequest(code, actor.key, actor.name, address.channel, address.chat, now + CODE_SECONDS)
        # On the disk before it is sent; another process may have made one at the same time, and sends that.
        if not await self.facts.learn_new(_fact(made), asdict(made)):
            return None
        self._note(actor, made, "pairing.ask", "code given")
        log.info("pairing: %s asks to be let in; `goclaw pair list` shows the code", actor.key)
        return made

    async def _find(self, by: Actor, code: str) -> PairingRequest:
        now, tried = self.clock.now(), code.strip().upper().replace("-", "")
        fact, seconds = await count_try(self.facts, f"{TRIES_FACT}:{by.key}", now)
        if seconds:
            raise PairingRefused(f"Too many wrong codes. Try again in {max(1, round(seconds / 60))} min.")
        found = None
        for each in (await self._open()).values():
            if hmac.compare_digest(each.code.encode(), tried.encode(errors="replace")):
                found = each
        if found is None:
            self.audit(AuditEntry("pairing.approve", "code", by, allowed=False, rule="no such code"))
            raise PairingRefused(
                "This code is not open: it has expired (after an hour), was used, or is mistyped. `/pair list` shows "
                "the open codes."
            )
        await self.facts.unlearn(fact)
        return found

    async def _open(self) -> dict[str, PairingRequest]:
        """Return the requests with codes that are still good, by the stranger's key."""
        now = self.clock.now()
        return {key: each for key, each in (await self._load()).items() if _is_open(each, now)}

    async def _load(self) -> dict[str, PairingRequest]:
        """Return the requests of the last day, by the stranger's key; older ones are forgotten."""
        now, found = self.clock.now(), dict[str, PairingRequest]()
        for key, value in (await self.facts.facts(FACT)).items():
            if not key:
                await self._part(value)
                return await self._load()
            asking = _parse(value)
            if asking is None or asking.rests_until <= now:
                await self.facts.unlearn(f"{FACT}:{key}")
            else:
                found[key] = asking
        return found

    async def _part(self, together: Any) -> None:
        """Store the codes that an older GoClaw kept as one fact as one each."""
        for value in together if isinstance(together, list) else ():
            if asking := _parse(value):
                await self.facts.learn_new(_fact(asking), value)
        await self.facts.unlearn(FACT)

    def _note(self, by: Actor, asking: PairingRequest, action: str, result: str) -> None:
        rule = "config pairing.enabled" if action == "pairing.ask" else "command.admin"
        self.audit(AuditEntry(action, asking.key, by, rule=rule, result=result))


async def count_try(facts: SharedFacts, name: str, now: float) -> tuple[str, float]:
    """Count a try of a code; a person has `TRIES` wrong ones within `CODE_SECONDS`, over all processes.

    It counts before the code is compared: several at the same time, in several processes, all count.

    Args:
        facts: the stored facts.
        name: the facts of the person's tries; a random number follows.
        now: epoch seconds.

    Returns:
        The fact of this try, to be unlearned where the code is right; and the seconds until another one is looked at,
        0 where this one is.
    """
    fact = f"{name}:{secrets.token_hex(8)}"
    await facts.learn(fact, now + CODE_SECONDS)
    count, until = 0, now
    for part, over in (await facts.facts(name)).items():
        if not now < over <= now + CODE_SECONDS + APART_SECONDS:  # or the clock was set
            await facts.unlearn(f"{name}:{part}")
        else:
            count, until = count + 1, over if until == now else min(until, over)
    if count <= TRIES:
        return fact, 0.0
    await facts.unlearn(fact)
    return fact, until - now


def format_request(asking: PairingRequest, now: float) -> str:
    """Format a line for an admin. The name was chosen by the account, and is in quotes: only the number counts."""
    minutes = max(1, round((asking.until - now) / 60))
    name = _name(asking.name)
    called = f", claims the name {name!r}" if name else ""
    return f"{asking.code[:4]}-{asking.code[4:]}  {asking.key}{called}, {minutes} min left"


def _name(name: str) -> str:
    """Return a display name that is nothing but one: a line, short, without misleading characters."""
    line = " ".join("".join(letter for letter in printable(name) if letter.isprintable()).split())
    return line if len(line) <= MAX_NAME else f"{line[:MAX_NAME]}…"


def _fact(asking: PairingRequest) -> str:
    return f"{FACT}:{asking.key}"


def _is_open(asking: PairingRequest, now: float) -> bool:
    return not asking.denied and now < asking.until


def _parse(known: Any) -> PairingRequest | None:
    try:
        return PairingRequest(**known)
    except TypeError:
        return None
