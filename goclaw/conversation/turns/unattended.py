"""The end of turns for which no person waits (schedules, heartbeat, webhooks), and texts that are said word for word.

What such a turn has to say is delivered at its end, with the calls that were refused because no person could be asked.
An answer of `HEARTBEAT_OK` is not delivered. A terminal reads transcripts, so the result of a turn in a session of its
own is said in the session that it was made in.
"""

from collections.abc import Sequence
from dataclasses import replace

from goclaw.common.core.events import LOCAL, NOTHING_TO_SAY, Delivery, Inbound, Outcome, root_session
from goclaw.common.core.records import record
from goclaw.conversation.schedules.scheduler import Scheduler
from goclaw.durable.engine.base import Engine
from goclaw.tools.approval.requests import describe_refusals

SAID = ":said"
"""Suffix of the id of the text that says a turn's result in another session."""


def is_for_another(inbound: Inbound) -> bool:
    """Whether the result of a turn goes to another person than the one for whom it is done."""
    return inbound.unattended is not None and inbound.unattended.signed


@record
class UnattendedTurns:
    """Ends unattended turns."""

    scheduler: Scheduler
    engine: Engine

    async def filter(self, inbound: Inbound, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return what of a turn's deliveries goes now; the rest comes after the person's quiet hours."""
        if deliveries and is_for_another(inbound):
            return await self.scheduler.others.filter(inbound, deliveries)
        return await self.scheduler.quiet.filter(inbound, deliveries)

    async def told(self, inbound: Inbound, outcome: Outcome, text: str, refused: Sequence[str], cost: float) -> str:
        """Return the message to the person about a turn that ended; empty: none, or it is said in another session."""
        if inbound.unattended and inbound.unattended.awaited:
            return "\n\n".join(filter(None, (text, describe_refusals(refused))))
        besides = await self.scheduler.on_turn_end(inbound, outcome, text, cost or None)
        if besides is None:
            return ""
        said = "" if outcome.went_well and text.strip() == NOTHING_TO_SAY else text
        words = "\n\n".join(filter(None, (said, describe_refusals(refused), besides)))
        home = root_session(inbound.session)
        if words and inbound.address.channel == LOCAL and home != inbound.session:
            said_there = replace(inbound, id=f"{inbound.id}{SAID}", session=home, text=words, foreign=())
            await self.engine.submit(said_there, "say")
            return ""
        return words
