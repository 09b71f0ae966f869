"""Notices to people: their conversation waits for a gateway that is gone and that alone has its files.

Only where each gateway has a workspace of its own (`replica.workspaces: own`). The first gateway to notice an absence
announces it, once.
"""

from collections.abc import Callable

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Delivery, Notice
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.ownership import LeaseStore

LOOK_SECONDS = 5.0
"""Seconds between two looks: the gateway counts as gone after `replica.stall_seconds`."""
WORDS = (
    "The gateway {name}, which has the files of this conversation, is away. Your message waits for it and is answered "
    "when it is back."
)


class AbsentGateways:
    """Tells those who wait."""

    def __init__(
        self,
        ownership: LeaseStore,
        journal: Journal,
        outbox: Outbox,
        publish: Callable[[Notice], None],
        clock: Clock,
    ) -> None:
        self._ownership = ownership
        self._journal = journal
        self._outbox = outbox
        self._publish = publish
        self._clock = clock

    async def run(self) -> None:
        """Look again and again, until cancelled.

        Raises:
            StateError: the store cannot be reached.
        """
        while True:
            for session, name in await self._ownership.left_waiting():
                await self._notify(session, WORDS.format(name=name))
            await self._clock.sleep(LOOK_SECONDS)

    async def _notify(self, session: str, words: str) -> None:
        self._publish(Notice(session, words))
        waiting = await self._journal.open_turns(session)
        if waiting and waiting[-1].inbound.address.channel != LOCAL:
            last = waiting[-1].inbound
            # Of no session: the gateway that is gone would send it.
            await self._outbox.promise(Delivery(f"{last.id}:absent", last.address, words))
