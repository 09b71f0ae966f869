"""The end of turns for which no person waits (schedules, heartbeat, webhooks), and texts that are said word for word.

What such a turn has to say is delivered at its end, with the calls that were refused because no person could be asked.
An answer of `HEARTBEAT_OK` is not delivered. A terminal reads transcripts, so the result of a turn in a session of its
own is said in the session that it was made in.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goclaw.common.core.events import LOCAL, NOTHING_TO_SAY, Delivery, Inbound, Outcome, root_session
from goclaw.tools.toolkit.consent import about_refused

SAID = ":said"
"""Suffix of the id of the text that says a turn's result in another session."""


async def _no_job(inbound: Inbound, outcome: Outcome, text: str, cost: float | None) -> str | None:
    return ""


async def _no_lane(inbound: Inbound) -> None:
    return None


async def _all_of_them(inbound: Inbound, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    return deliveries


class UnattendedPort:
    """Reaches what made an unattended turn; `app` binds it."""

    def __init__(self) -> None:
        self.ended: Callable[[Inbound, Outcome, str, float | None], Awaitable[str | None]] = _no_job
        """Records the outcome and cost of the turn; returns additional text for people, None: tell them nothing."""
        self.say: Callable[[Inbound], Awaitable[None]] = _no_lane
        """Has the text of an `Inbound` said in its session."""
        self.let_through: Callable[[Inbound, Sequence[Delivery]], Awaitable[Sequence[Delivery]]] = _all_of_them
        """Returns what of a turn's deliveries goes now; the rest comes after the person's quiet hours."""

    async def told(self, inbound: Inbound, outcome: Outcome, text: str, refused: Sequence[str], cost: float) -> str:
        """Return the message to the person about a turn that ended; empty: none, or it is said in another session."""
        if inbound.unattended and inbound.unattended.awaited:
            return "\n\n".join(filter(None, (text, about_refused(refused))))
        besides = await self.ended(inbound, outcome, text, cost or None)
        if besides is None:
            return ""
        said = "" if outcome.went_well and text.strip() == NOTHING_TO_SAY else text
        words = "\n\n".join(filter(None, (said, about_refused(refused), besides)))
        home = root_session(inbound.session)
        if words and inbound.address.channel == LOCAL and home != inbound.session:
            await self.say(replace(inbound, id=f"{inbound.id}{SAID}", session=home, text=words, foreign=()))
            return ""
        return words
