"""`python -m tests.acceptance.replica … gateway`: the very same daemon, changed where a test has no other hold on it.

Variables of the environment say what is changed; they have no prefix of ours, which would make them settings.
"""

import os
from pathlib import Path
from typing import Any

from goclaw.common.core.clock import RealClock
from goclaw.durable.engine import session_work
from goclaw.durable.store.postgres import database, sending
from goclaw.program.cli.program import main
from tests.acceptance import crashing

LINGER = "REPLICA_LINGER"
"""Seconds for which a session without work is kept."""
CLOCK = "REPLICA_CLOCK"
"""Seconds that this process's wall clock is ahead."""
MARKS = "REPLICA_MARKS"
"""Set: each transaction tells Postgres under which fence it is written (`replica_ledger`)."""
UNFENCED = "REPLICA_UNFENCED"
"""Set: no transaction checks its epoch; the negative control."""
FENCE = "tests.fence"
"""The variable of Postgres with a transaction's fence: epoch, blank, session; empty: none."""
_MARK = f"SELECT set_config('{FENCE}', %s, true)"


def set_clock(ahead: float) -> None:
    """Move the wall clock of this process; spans are measured as ever."""
    now = RealClock.now
    RealClock.now = lambda self: now(self) + ahead  # type: ignore[method-assign]  # the test's own


def mark_transactions() -> None:
    """Tell Postgres the fence of each transaction, before its statements."""
    room: Any = database
    sent = room.send

    async def marked(writer: Any, transaction: Any) -> Any:
        fence = transaction.fence
        await writer.execute(_MARK, (f"{fence.epoch} {fence.session}" if fence else "",))
        return await sent(writer, transaction)

    room.send = marked


def check_no_epoch() -> None:
    """Take the fence away: what the check says is not asked."""
    sending._CHECK = b"SELECT %s::text, %s::bigint"


def prepare(environment: "os._Environ[str]") -> None:
    """Do what the environment says."""
    if seconds := environment.get(LINGER):
        session_work.LINGER_SECONDS = float(seconds)
    if seconds := environment.get(CLOCK):
        set_clock(float(seconds))
    if environment.get(UNFENCED):
        check_no_epoch()
    if environment.get(MARKS):
        mark_transactions()
        crashing.wrap(Path(environment[crashing.TRIGGER]), crashing.wrap_postgres)


if __name__ == "__main__":
    prepare(os.environ)
    main()
