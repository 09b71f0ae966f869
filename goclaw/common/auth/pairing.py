"""Pairing: a stranger writing to the bot in private gets a code, and an admin who knows it lets the stranger in.

Who was invited (`invitations`) comes in by their own code. Pairing is off by default. It makes one entry of
users.json, for the number of the account that got the code, regardless of who repeats it later and of the account's
name. It never opens a group: the entry has `groups: false`. Strangers learn nothing else, not even whether a code was
wrong. Codes and wrong tries are facts of the store, a row each: they are kept over restarts, and are the same for all
processes that share it.
"""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.invitations import FACT as INVITATIONS
from goclaw.common.auth.invitations import Invitation, make_code, read_code, take_invitation
from goclaw.common.auth.preset_entries import entry_of
from goclaw.common.auth.presets import GUESTS, find_guest_preset
from goclaw.common.auth.users import User, Users, add_user, put_users
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import Config
from goclaw.common.config.state import SharedFacts
from goclaw.common.core.clock import APART_SECONDS, Clock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.files import Writer
from goclaw.common.core.records import record
from goclaw.common.core.redact import printable
from goclaw.errors import ConfigError

log = logging.getLogger(__name__)

FACT = "pairing"
"""Name of the stored facts: what each stranger was given; after a ":" the stranger's key."""
TRIES_FACT = "pairing tries"
"""Name of the stored facts: when each wrong code of an admin is over; the admin's key and a random number follow."""
INVITATION_TRIES = "invitation tries"
"""Name of the stored facts: the same for codes that strangers send; the stranger's key and a random number follow."""
AS = "AS"
"""Begins the id of the question by which preset a person was let in; the number of the account follows. Ids of other
questions have no capitals."""
CODE_SECONDS = 3_600.0
REMIND_SECONDS = 600.0
"""Minimum interval between two messages with the code to the same stranger."""
DENIED_SECONDS = 24 * 3_600.0
"""Time without a new code after a denial or an expired code."""
TRIES = 5
"""Wrong codes of one admin in an hour; after that none is looked at until the first of them is an hour old."""
MAX_NAME = 40
WELCOME = "You now have access. Ask me something, or send /help."


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

    config: Config
    users: Users
    writer: Writer
    """Changes users.json."""
    clock: Clock
    audit: Callable[[AuditEntry], None]
    promise: Callable[[Delivery], Awaitable[bool]]
    """Puts a message to a chat into the outbox."""
    facts: SharedFacts
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while this process makes, looks up or uses a code: a code is used once."""

    @property
    def enabled(self) -> bool:
        return self.config.pairing.enabled

    async def request_code(self, inbound: Inbound) -> None:
        """Let in a stranger who wrote an invitation in a private chat; send others the code, where pairing is on.

        They get it at most once per `REMIND_SECONDS`.
        """
        actor, address = inbound.actor, inbound.address
        # A private chat has the number of its person; a listed user needs no code.
        private = actor.key == f"{address.channel}:{address.chat}" == inbound.session and actor.entry == address.channel
        is_known = actor.owner or self.users.get(actor.key) is not None
        if not private or is_known or inbound.edited or address.reply_to or actor.behalf or inbound.forwarded:
            return
        async with self._one:
            if (code := read_code(inbound.text)) and await self._let_in_invited(inbound, code):
                return
            if not self.enabled:
                return
            asking, now = await self._code_for(actor, address), self.clock.now()
            if asking is None or 0 <= now - asking.told_at < REMIND_SECONDS:
                return
            if not asking.told_at and self.config.pairing.tell_admins:
                await self._tell_admins(asking)
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

    async def approve(self, by: Actor, code: str, preset: str = "") -> PairingRequest:
        """Let in the person who got this code, with a preset; without one, with `pairing.role`.

        Raises:
            Refused: there is no such code (any more), or too many wrong ones came before; or no such preset; or
                users.json cannot take it.
        """
        if preset:
            _check_preset(preset)
        async with self._one:
            asking = await self._find(by, code)
            try:
                await self._add(asking.key, _name(asking.name), preset or self.config.pairing.role)
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
            address = Address(asking.channel, asking.chat)
            await self.promise(Delivery(f"pairing:{asking.code}:{asking.until:.0f}", address, WELCOME))
            return asking

    async def change_preset(self, by: Actor, key: str, preset: str) -> str:
        """Give a person who is no admin another preset; return the words for the admin who chose it.

        Raises:
            Refused: there is no such preset or person, or users.json cannot take it.
        """
        _check_preset(preset)
        before = self.users.get(key)
        if before is None or ADMIN in before.roles:
            raise PairingRefused(f"{key} is not listed any more." if before is None else f"{key} is an admin.")
        entry = self._entry(key, "", preset, before)
        try:
            await asyncio.to_thread(put_users, self.config.users_path, {key: entry}, {key: before}, writer=self.writer)
        except ConfigError as error:
            raise PairingRefused("; ".join(error.problems)) from error
        await self.users.refresh()
        self.audit(AuditEntry("pairing.preset", key, by, rule="command.admin", result=preset))
        return f"{before.name or key} is now {preset}: {GUESTS[preset].about}."

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

    async def _let_in_invited(self, inbound: Inbound, code: str) -> bool:
        """Let in who sends the code of an invitation. A wrong one is counted, and nothing is said about it."""
        actor, now = inbound.actor, self.clock.now()
        fact, seconds = await count_try(self.facts, f"{INVITATION_TRIES}:{actor.key}", now)
        if seconds:
            return False
        invitation = await take_invitation(self.facts, code, now)
        if invitation is None:
            self.audit(AuditEntry("invitation.use", "code", actor, allowed=False, rule="no such code"))
            return False
        await self.facts.unlearn(fact)
        try:
            await self._add(actor.key, invitation.name, invitation.preset)
        except ConfigError as error:
            await self.facts.learn(f"{INVITATIONS}:{invitation.code}", asdict(invitation))  # it stays good
            log.error("%s could not be let in by an invitation: %s", actor.key, "; ".join(error.problems))
            return False
        await self.users.refresh()
        self.audit(AuditEntry("invitation.use", actor.key, actor, rule=f"preset {invitation.preset}", result="ok"))
        await self.promise(Delivery(f"{inbound.id}:invited", inbound.address, WELCOME))
        await self._tell(f"{inbound.id}:invited", inbound.address.channel, _in_by(invitation, actor.key))
        return True

    async def _add(self, key: str, name: str, role: str) -> None:
        """Write the entry of a new person; raises ConfigError as `add_user`."""
        entry = self._entry(key, name, role, None)
        await asyncio.to_thread(
            add_user,
            self.config.users_path,
            key,
            name=name,
            roles=entry["roles"],
            allowed_tools=entry.get("allowedTools"),
            groups=False,
            workspace=entry.get("workspace", ""),
            quiet_hours=entry.get("quietHours", ""),
            writer=self.writer,
        )

    def _entry(self, key: str, name: str, role: str, before: User | None) -> dict[str, Any]:
        """Return the entry for users.json, by a preset or another role. It never opens a group."""
        preset, settings = GUESTS.get(role), self.config.pairing
        entry = entry_of(preset, self.config, key, name, before) if preset else {"name": name, "roles": [role]}
        if before is None and role == settings.role and settings.allowed_tools is not None:
            entry["allowedTools"] = list(settings.allowed_tools)
        return {**entry, "groups": False} if before is None else entry

    async def _tell_admins(self, asking: PairingRequest) -> None:
        """Say that a person knocks: with the first message of a day, and without the code, which they have to say."""
        name = _name(asking.name)
        called = f" and says their name is {name!r}" if name else ""
        text = (
            f"Somebody I do not know wrote to me ({asking.key}){called}. If you know them, have them read you their "
            "code and send me /pair approve CODE. Otherwise you need to do nothing."
        )
        await self._tell(f"pairing:{asking.code}:{asking.until:.0f}:knock", asking.channel, text)

    async def _tell(self, delivery: str, channel: str, text: str) -> None:
        for user in self.users.all():
            if ADMIN in user.roles and user.key.startswith(f"{channel}:"):
                chat = user.key.partition(":")[2]
                await self.promise(Delivery(f"{delivery}:{chat}", Address(channel, chat), text))

    async def _code_for(self, actor: Actor, address: Address) -> PairingRequest | None:
        """Return the stranger's open code, made if need be; None when no code may be made now."""
        now, known = self.clock.now(), await self._load()
        asking = {key: each for key, each in known.items() if _is_open(each, now)}
        if actor.key in known:
            return asking.get(actor.key)
        if len(asking) >= self.config.pairing.waiting:
            log.warning("pairing: %d codes are open, so %s gets none (pairing.waiting)", len(asking), actor.key)
            return None
        code = make_code()
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


def _check_preset(name: str) -> None:
    try:
        find_guest_preset(name)
    except ConfigError as error:
        raise PairingRefused(f"{error}.") from None


def _in_by(invitation: Invitation, key: str) -> str:
    return f"{invitation.name} ({key}) has used your invitation and is in as {invitation.preset}."


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
