"""Every statement of a whole turn fails once: one answer, no tool twice, a sound database, and no restart.

After SQLite's own way of testing (sqlite.org/testing.html, "I/O error testing"): the n-th statement fails, for n from
one until nothing fails any more.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.errors import DiskError
from tests.harness import Answer, World
from tests.lanes import repeats
from tests.parts import Trail, acting

pytestmark = pytest.mark.sqlite("statements fail with errors of SQLite")

CALLS = (ToolCall("c1", "once", {}), ToolCall("c2", "again", {}))
SCRIPT = [Answer("Let me look.", calls=CALLS), Answer("All done.")]
FAULTS = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "io": (sqlite3.SQLITE_IOERR, "disk I/O error"),
    "locked": (sqlite3.SQLITE_BUSY, "database is locked"),
}

WAYS = [(fault, times) for times in (1, 40) for fault in FAULTS]
"""What fails, and how often one after the other: once, or for a while."""


class Plan:
    """Which statement of the writer fails, and how often."""

    def __init__(self) -> None:
        self.left = -1
        self.times = 0
        self.seen = 0
        self.fault = "full"

    def strike(self, connection: sqlite3.Connection) -> None:
        self.seen += 1
        self.left -= 1
        if self.left < 0 and self.times > 0:
            self.times -= 1
            # What SQLite does by itself, by the kind of the error (sqlite.org/lang_transaction.html).
            if self.fault != "locked" and connection.in_transaction:
                sqlite3.Connection.execute(connection, "ROLLBACK")
            code, words = FAULTS[self.fault]
            error = sqlite3.OperationalError(words)
            error.sqlite_errorcode = code
            raise error


@contextmanager
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """Connections for writing follow the plan, from when it is armed."""
    plan, connect = Plan(), sqlite3.connect

    class Faulty(sqlite3.Connection):
        writes = False

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            self.writes = self.writes or sql == "PRAGMA query_only=OFF"
            if self.writes:
                plan.strike(self)
            return super().execute(sql, *values)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=Faulty, **options))
        yield plan


async def talk(tmp_path: Path, plan: Plan, fault: str, number: int, times: int) -> tuple[World, Trail, Trail]:
    once, again = Trail(), Trail()
    tools = [acting("once", once.leave, idempotent=False), acting("again", again.leave)]
    folder = tmp_path / f"{fault}-{number}-{times}"
    folder.mkdir()
    world = World(folder, SCRIPT, tools=tools)
    plan.times = 0
    async with world.running() as core:
        plan.fault, plan.left, plan.times, plan.seen = fault, number, times, 0
        async with asyncio.timeout(20):
            while True:  # as Telegram does: what was not acknowledged comes again
                try:
                    await core.say("go", message_id="1")
                    break
                except DiskError:
                    continue
        await core.settled_in(world.clock)
        plan.times = 0
    return world, once, again


def check(world: World, once: Trail, again: Trail, where: str) -> None:
    told = [text for text in world.texts() if text != "All done."]
    assert world.texts().count("All done.") == 1, where
    assert world.texts()[-1] == "All done.", where
    assert max(Counter(told).values(), default=0) <= 1, f"{where}: told twice: {told}"
    assert not any("sent again" in text for text in world.texts()), where
    assert (once.times, again.times) == (1, 1), where
    with closing(sqlite3.connect(world.folder / "goclaw.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT state FROM inbox").fetchall() == [("done",)], where
        assert connection.execute("SELECT count(*) FROM steps").fetchall() == [(0,)], where
        assert connection.execute("SELECT DISTINCT state FROM deliveries").fetchall() == [("sent",)], where
        roles = [role for (role,) in connection.execute("SELECT role FROM messages ORDER BY id")]
    assert sorted(roles) == sorted(
        ["user", "assistant", "tool_use", "tool_use", "tool_result", "tool_result", "assistant"]
    ), where
    assert len(world.script.requests) == 2, f"{where}: the model was asked again"


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.promise("P-disk")
@pytest.mark.parametrize(("fault", "times"), WAYS)
async def test_whatever_statement_of_a_turn_fails_there_is_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, times: int
) -> None:
    # In the short lane they take turns: each statement fails, each of them in one way.
    step = repeats(len(WAYS), 1)
    number = WAYS.index((fault, times)) % step
    with faulty(monkeypatch) as plan:
        while True:
            world, once, again = await talk(tmp_path, plan, fault, number, times)
            check(world, once, again, f"{fault} at statement {number}, {times} times")
            if plan.left >= 0:
                break
            number += step
        assert number > 50, "the loop came to its end too early to have met every statement"
