"""Correction of stamps on disk when the wall clock is set: they are moved with it, so that ages stay true.

A machine without a battery for its clock boots years or days back, takes messages, and then learns the time. Without
this, an answer promised a minute before would count as days old and be dropped at the next start (`outbox`), and ids
that Telegram may still redeliver would be forgotten (`Journal.prune`). Order never rests on stamps: rows have numbers.
"""

import logging

from sqlalchemy import Column, Table, bindparam, update

from goclaw.clock import Clock
from goclaw.errors import StateError
from goclaw.store.database import Database, Statement
from goclaw.store.tables import deliveries, inbox

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
JUMP_SECONDS = 60.0
"""Minimum seconds of a change: smaller ones keep clocks right, and nothing here is judged by the minute."""


def _moved(table: Table, column: Column[float]) -> Statement:
    stamped = update(table).where(column >= bindparam("since"), column <= bindparam("until"))
    return Statement(stamped.values({column.name: column + bindparam("by")}))


_MOVES = (
    _moved(deliveries, deliveries.c.created_at),
    _moved(inbox, inbox.c.received_at),
    _moved(inbox, inbox.c.ended_at),
)


class ClockChange:
    """Watches the wall clock. `run` is its life."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._began = clock.now()
        self._offset = self._began - clock.awake_or_not()
        """Offset of the wall clock to the clock that cannot be set."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Move what was stamped if the clock was set since the last look."""
        now, steady = self._clock.now(), self._clock.awake_or_not()
        by = now - steady - self._offset
        if abs(by) < JUMP_SECONDS:
            return
        before = steady + self._offset
        # Forward: an earlier run may have stamped by the wrong clock, too, and rather an old answer is sent than a new
        # one dropped. Back: what is older than this run was stamped by the right one.
        since = 0.0 if by > 0 else self._began
        log.warning("the machine's clock was set %s by %.0f s", "forward" if by > 0 else "back", abs(by))
        try:
            await self._database.write(*(move(since=since, until=before, by=by) for move in _MOVES))
        except StateError as error:
            log.warning("the stamps before that could not be moved with it, next try in a moment: %s", error)
            return
        self._began, self._offset = self._began + by, self._offset + by
