"""A connection that is kept through breaks."""

import asyncio
from pathlib import Path

import pytest

from goclaw.clients.tui import link as link_module
from goclaw.clients.tui.client import Received
from goclaw.clients.tui.link import Link, turn_of
from goclaw.common.core.events import MessageStored
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import Accepted, Attached
from tests.clients.tui.bad_line import open_bad_line
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, Stage


class Notes:
    """A watcher that writes everything down."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.resumed: list[bool] = []
        self.gone_on = 0
        self.accepted: list[str] = []
        self.refusals: list[str] = []
        self._changed = asyncio.Event()

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        self.rows += [row.row for row in attached.history]
        self.resumed.append(resumed)
        self._changed.set()

    async def went_on(self, attached: Attached) -> None:
        self.gone_on += 1
        self._changed.set()

    async def on_frame(self, received: Received) -> None:
        if isinstance(received, MessageStored):
            self.rows.append(received.row)
        elif isinstance(received, Accepted):
            self.accepted.append(received.id)
        self._changed.set()

    async def on_disconnect(self, reason: str) -> None:
        self._changed.set()

    async def on_refusal(self, reason: str) -> None:
        self.refusals.append(reason)
        self._changed.set()

    async def until(
        self, rows: int = 0, accepted: int = 0, refusals: int = 0, resumed: int = 0, gone_on: int = 0
    ) -> None:
        async with asyncio.timeout(PATIENCE):
            while (
                len(self.rows) < rows
                or len(self.accepted) < accepted
                or len(self.refusals) < refusals
                or len(self.resumed) < resumed
                or self.gone_on < gone_on
            ):
                self._changed.clear()
                await self._changed.wait()


async def test_rows_come_once_through_any_number_of_breaks(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    link = Link(stage.place.socket, SESSION, limit=10)
    async with background(link.run(notes), "link"):
        for run in range(3):
            stage.gateway.store("t", UserMessage("while nobody listened"))
            async with stage.daemon() as daemon:
                await notes.until(rows=2 * run + 1)
                daemon.tell("t", UserMessage("live"))
                await notes.until(rows=2 * run + 2)
    assert notes.rows == [1, 2, 3, 4, 5, 6]
    assert notes.resumed == [False, True, True]


async def test_what_was_not_acknowledged_is_sent_again_in_order_and_taken_once(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    link = Link(stage.place.socket, SESSION, limit=10)
    turns = [link.submit("one"), link.submit("two")]
    assert link.unsent() == ["one", "two"]
    async with background(link.run(notes), "link"):
        async with stage.daemon() as daemon:
            await notes.until(accepted=2)
            assert [heard.id for heard in daemon.heard] == turns
    assert link.unsent() == []


async def test_exactly_what_the_daemon_refuses_is_given_up(tmp_path: Path) -> None:
    link = Link(tmp_path / "s", SESSION, limit=10)
    link.submit("one")
    refused = link.submit("too many").removeprefix(turn_of(""))
    assert link.drop_message("somebody else's") is None
    assert link.drop_message(refused) == "too many"
    assert link.drop_message(refused) is None
    assert link.unsent() == ["one"]


async def test_what_is_decided_without_a_connection_is_not_decided_later(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    link = Link(stage.place.socket, SESSION, limit=10)
    assert link.decide("q1", "allow") == ""
    async with background(link.run(notes), "link"), stage.daemon() as daemon:
        link.submit("hello")
        await notes.until(accepted=1)
        decision = link.decide("q2", "deny")
        await notes.until(accepted=2)
        assert daemon.decided == [("q2", "deny")]
    assert notes.accepted[1] == decision


async def test_a_session_that_is_not_open_is_said_and_not_stormed(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    stage.gateway.closed = {"telegram:5"}
    link = Link(stage.place.socket, "telegram:5", limit=10)
    async with stage.daemon(), background(link.run(notes), "link"):
        await notes.until(refusals=1)
    assert notes.refusals[0].startswith(
        "you have no access to the session telegram:5 (telegram:5 is not a session of tui:"
    )
    assert not link.connected


async def test_what_was_left_behind_is_not_sent_to_the_next_session(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    stage.gateway.store("t", UserMessage("other"), session="tui:other")
    link = Link(stage.place.socket, SESSION, limit=10)
    link.submit("for me")

    left = link.enter("tui:other")
    link.submit("for the other")

    assert list(left.values()) == ["for me"] and link.unsent() == ["for the other"]
    async with stage.daemon() as daemon, background(link.run(notes), "link"):
        await notes.until(rows=1, accepted=1)
    assert [(heard.session, heard.text) for heard in daemon.heard] == [("tui:other", "for the other")]


async def test_a_session_that_is_left_forgets_what_it_saw(tmp_path: Path) -> None:
    stage, notes = Stage(tmp_path), Notes()
    stage.gateway.store("t", UserMessage("other"), session="tui:other")
    stage.gateway.store("t", UserMessage("mine"))
    link = Link(stage.place.socket, SESSION, limit=10)
    async with stage.daemon():
        async with background(link.run(notes), "link"):
            await notes.until(rows=1)
        link.enter("tui:other")
        async with background(link.run(notes), "link"):
            await notes.until(rows=2)
    assert notes.rows == [2, 1] and notes.resumed == [False, False]


async def test_after_a_break_it_goes_on_after_the_last_event_and_says_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(link_module, "ACK_SECONDS", 0.0)
    stage, notes = Stage(tmp_path), Notes()
    async with stage.daemon() as daemon, open_bad_line(tmp_path / "line", stage.place.socket) as line:
        link = Link(tmp_path / "line", SESSION, limit=10)
        async with background(link.run(notes), "link"):
            await notes.until(resumed=1)
            for number in range(3):
                daemon.tell("t", UserMessage("here"))
                await notes.until(rows=2 * number + 1)
                line.hang_up()
                daemon.tell("t", UserMessage("and there"))
                line.up.set()
                await notes.until(rows=2 * number + 2, gone_on=number + 1)
            async with asyncio.timeout(PATIENCE):
                while True:
                    if not daemon.bus._pasts[SESSION]._kept:
                        break
                    await asyncio.sleep(0)
    assert notes.rows == [1, 2, 3, 4, 5, 6] and notes.resumed == [False] and notes.gone_on == 3
