"""Invitations: a code for one person, who sends it to the bot and is let in with a preset. It is good once, for a week.

A row each in the store: kept over restarts, and the same for all processes that share it. It never makes an admin.
`pairing` uses them; `goclaw users` and `goclaw setup` make, list and revoke them.
"""

import hmac
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict

from goclaw.common.auth.presets import find_guest_preset
from goclaw.common.config.state import SharedFacts
from goclaw.common.core.records import record
from goclaw.common.core.redact import printable
from goclaw.errors import ConfigError

FACT = "invitations"
"""Name of the stored facts; after a ":" the code."""
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without characters that are easily confused when read aloud."""
LENGTH = 8
"""Of 32 letters each: 40 bits."""
DAY = 24 * 3_600.0
SECONDS = 7 * DAY
MAX_NAME = 40
_SENT = re.compile(rf"(?:/start(?:@\w+)?\s+)?([{ALPHABET}]{{4}}-?[{ALPHABET}]{{4}})", re.IGNORECASE)


@record
class Invitation:
    """An unused invitation."""

    code: str
    preset: str
    name: str
    until: float
    """Epoch seconds."""

    @property
    def shown(self) -> str:
        """The code, as people read it aloud."""
        return f"{self.code[:4]}-{self.code[4:]}"


def make_code() -> str:
    """Return a code that cannot be guessed."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def read_code(text: str) -> str:
    """Return the code that a message is: typed, or sent by a link (`/start CODE`); empty: it is no code."""
    found = _SENT.fullmatch(text.strip())
    return found[1].upper().replace("-", "") if found else ""


def is_code(text: str) -> bool:
    """Whether a word is a code as it is shown, with its dash: a name may have eight letters, too."""
    return text.strip()[4:5] == "-" and bool(read_code(text))


async def make_invitation(facts: SharedFacts, preset: str, name: str, now: float) -> Invitation:
    """Return a new invitation, which is kept."""
    made = Invitation(make_code(), preset, name, now + SECONDS)
    await facts.learn(f"{FACT}:{made.code}", asdict(made))
    return made


async def list_invitations(facts: SharedFacts, now: float) -> Sequence[Invitation]:
    """Return the invitations that are still good, the oldest first; the others are forgotten."""
    known = [Invitation(**each) for each in (await facts.facts(FACT)).values()]
    for each in known:
        if each.until <= now:
            await facts.unlearn(f"{FACT}:{each.code}")
    return sorted((each for each in known if now < each.until), key=lambda each: each.until)


async def revoke_invitation(facts: SharedFacts, code: str) -> bool:
    """Forget the invitation with this code. False: it is unknown or used."""
    return await facts.unlearn(f"{FACT}:{read_code(code)}")


async def carry_out(facts: SharedFacts, order: str, rest: str, now: float) -> str:
    """Carry out an admin's order, `invite PRESET NAME`, `revoke CODE` or `waiting`; return the answer.

    Raises:
        ConfigError: there is no such preset or code, or the name is missing.
    """
    match order:
        case "invite":
            wanted, _, name = rest.partition(" ")
            preset = find_guest_preset(wanted.lower())
            if not (name := " ".join(printable(name).split())[:MAX_NAME]):
                raise ConfigError(f"say who is invited: {preset.name} NAME")
            made = await make_invitation(facts, preset.name, name, now)
            return (
                f"{name} is invited as {preset.name}: {preset.about}. They send me this code in a private chat, once, "
                f"within seven days: {made.shown}"
            )
        case "revoke":
            if not await revoke_invitation(facts, rest):
                raise ConfigError(f"{rest[:40]}: there is no such invitation, or it was used or is over")
            return f"The invitation {rest.strip().upper()} is revoked."
        case _:
            lines = [
                f"{each.shown}  {each.name}, invited as {each.preset}, {math.ceil((each.until - now) / DAY)} days left"
                for each in await list_invitations(facts, now)
            ]
            return "\n".join(lines)


async def take_invitation(facts: SharedFacts, code: str, now: float) -> Invitation | None:
    """Return the invitation with this code, which is used up by that: one of several who send it at once has it."""
    found = None
    for each in await list_invitations(facts, now):
        if hmac.compare_digest(each.code.encode(), code.encode()):
            found = each
    return found if found and await facts.unlearn(f"{FACT}:{found.code}") else None
