"""Carries the events of sessions between the processes that share a store.

A process with readers of a session says so (a watch); the owner of the session then sends its state, and after that
every event. Without readers elsewhere an owner sends nothing. Subscribers of all sessions, and watchers (`Bus.watch`),
see only the events of their own process; that a session was forgotten is published by every process.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from pydantic import ValidationError

from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    AGENT_MARK,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionNow,
    TurnEvent,
)
from goclaw.common.core.fencing import Fence
from goclaw.common.core.supervise import background, run_with_restarts, set_within
from goclaw.durable.engine.views.mirrors import Mirror
from goclaw.durable.engine.views.parcels import BESIDE, NOTICE, PARCEL, RETRY_SECONDS, UNWATCH, WATCH, Parcel
from goclaw.durable.engine.views.stored_views import StoredViews
from goclaw.durable.engine.views.watchers import Inspect, Watchers
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.replicas import EVERYONE, Exchange
from goclaw.errors import StateError

log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""Seconds for which a watch holds: a process that is gone is sent nothing after that."""
RENEW_SECONDS = 10.0
"""Seconds between two renewals, and between two looks at turns that nothing is heard of."""
SETTLE_SECONDS = 0.05
"""Seconds before a session is watched: the message of a client that has just come may make it this process's."""
GRACE_SECONDS = 30.0
"""Seconds for which a session is watched that has lost its last reader, who may be back."""
STATE_SECONDS = 2.0
"""Seconds that a client waits for the state of a session whose owner does not answer; it follows as events."""
AGENT_SECONDS = 0.5
"""The same for an agent's session, whose agent may have ended long ago: then no process tells of it."""
END_SECONDS = 1.0
"""Seconds for what waits to be sent when the process ends."""


class RemoteSessions:
    """Implements `OtherProcesses`. Events are exchanged only within `open`."""

    def __init__(
        self,
        bus: Bus,
        database: Database,
        exchange: Exchange,
        wanted_if_idle: Callable[[str], BoundStatement],
        clock: Clock,
    ) -> None:
        """`wanted_if_idle`: returns the statement that requests an owner for a session without one."""
        self._bus = bus
        self._clock = clock
        self._database = database
        self._exchange = exchange
        self._wanted_if_idle = wanted_if_idle
        self._stored = StoredViews(database)
        self._tasks: set[asyncio.Task[None]] = set()
        self._remote = Watchers(exchange, self._stored, clock, self._spawn)
        self._mirrors: dict[str, Mirror] = {}
        self._showing: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        """Set when there is something to watch."""
        self._talking = asyncio.Lock()
        """Held while the others are notified of the watched sessions: the last message wins."""

    @asynccontextmanager
    async def open(self, inspect: Inspect) -> AsyncIterator[None]:
        """Exchange events while the block runs. `inspect`: returns the state of a session of this process."""
        self._remote.inspect = inspect
        self._exchange.subscribe(self._receive, self._recover)
        queue = self._remote.queue
        sending = run_with_restarts("events for other processes", queue.run, self._clock)
        watching = run_with_restarts("events of other processes", self._watch_forever, self._clock)
        try:
            async with background(sending, "sending events"), background(watching, "watching sessions"):
                with self._bus.connected_to(self):
                    yield
            with suppress(TimeoutError, StateError):
                async with asyncio.timeout(END_SECONDS):
                    await queue.flush()
                    await self._exchange.unwatch([each for each in self._mirrors if self._mirrors[each].is_watched])
        finally:
            tasks = set(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def publish(self, event: TurnEvent) -> None:
        if mirror := self._mirrors.get(event.session):
            mirror.note(event)
        is_forgotten = isinstance(event, SessionForgotten)
        if is_forgotten or (not self._remote.publish(event) and _is_beside_turns(event)):
            self._remote.queue.broadcast(BESIDE, event.session, event)

    def send_notice(self, text: str, code: str) -> None:
        self._remote.queue.broadcast(NOTICE, text=text, code=code)

    async def on_acquire(self, fence: Fence) -> None:
        """Mark a session as owned by this process. Call it before anything is published for the session.

        Raises:
            DiskError: the store cannot be read.
        """
        mirrors = [each for each in self._mirrors.values() if fence.session in (each.session, each.lease)]
        for mirror in mirrors:
            now = await self._remote.inspect(mirror.session) if self._remote.inspect else SessionNow()
            await mirror.own(fence, now)
        self._remote.on_acquire(fence)
        for mirror in mirrors:
            if mirror.session != fence.session:
                self._remote.took_agent(mirror.session, fence.session)

    def on_release(self, session: str) -> None:
        """Mark a session as no longer owned by this process."""
        for each in self._remote.on_release(session):
            if (mirror := self._mirrors.get(each)) is not None:
                # What readers know is right until there is another owner.
                mirror.is_watched = False
                self._changed.set()
            else:
                self._bus.forget(each)

    async def state(self, session: str) -> SessionNow | None:
        mirror = await self._mirror(session)
        mirror.unread_since = self._clock.monotonic()
        if not self._remote.owns(session) and not mirror.is_current.is_set():
            await self._ask(mirror)
            seconds = STATE_SECONDS if _has_lease(session) else AGENT_SECONDS
            await set_within(mirror.is_current, self._clock, seconds)
        if self._remote.owns(session) or not mirror.is_current.is_set():
            if self._remote.inspect is None:
                return None
            now = await self._remote.inspect(session)
            mirror.learn(now)
            return now
        return mirror.now()

    @asynccontextmanager
    async def reading(self, session: str) -> AsyncIterator[None]:
        mirror = await self._mirror(session)
        mirror.readers += 1
        if not self._remote.owns(session) and not mirror.is_watched:
            self._changed.set()
        try:
            yield
        finally:
            mirror.readers -= 1
            mirror.unread_since = self._clock.monotonic()

    async def _mirror(self, session: str) -> Mirror:
        """Return what readers know of a session; for the first of them, from the rows on that there are now.

        Raises:
            DiskError: the store cannot be read.
        """
        mirror = self._mirrors.get(session)
        if mirror is None:
            mirror = self._mirrors[session] = Mirror(
                session, self._stored, self._clock, self._show_of_others, partial(self._bus.now, session)
            )
            owned = partial(self._remote.owns, session)
            showing = run_with_restarts(
                f"events of {session}", partial(mirror.run, owned, self._changed.set), self._clock
            )
            self._showing[session] = self._spawn(showing, f"events of {session}")
        if mirror.row is None:
            await mirror.start()
        return mirror

    async def _ask(self, mirror: Mirror) -> None:
        """Have the owner of a session tell its state; one that none owns gets an owner."""
        if not mirror.is_watched:
            await self._watch([mirror])
        if _has_lease(mirror.session):
            await self._database.write(self._wanted_if_idle(mirror.session))

    async def _watch_forever(self) -> None:
        """Watch sessions that are read here and owned elsewhere, until cancelled."""
        for mirror in self._mirrors.values():
            mirror.is_watched = False
        await self._remote.refresh()
        due = self._clock.monotonic()
        while True:
            if await set_within(self._changed, self._clock, due - self._clock.monotonic()):
                await self._clock.sleep(SETTLE_SECONDS)
                self._changed.clear()
                await self._watch([each for each in self._elsewhere() if not each.is_watched])
            if self._clock.monotonic() >= due:
                due = self._clock.monotonic() + RENEW_SECONDS
                await self._renew_watches()

    async def _renew_watches(self) -> None:
        """Renew the watches, and see to sessions that have gone silent."""
        await self._drop_unread()
        mirrors = self._elsewhere()
        if mirrors:
            await self._exchange.watch([mirror.session for mirror in mirrors], LEASE_SECONDS)
        if self._remote.are_there:
            await self._remote.refresh()
        for mirror in mirrors:
            if not mirror.is_current.is_set() and mirror.readers:
                mirror.is_watched = False
                await self._ask(mirror)
            elif self._clock.monotonic() - mirror.heard_at >= RENEW_SECONDS:
                await mirror.check()

    def _elsewhere(self) -> list[Mirror]:
        return [mirror for mirror in self._mirrors.values() if not self._remote.owns(mirror.session)]

    async def _watch(self, mirrors: list[Mirror]) -> None:
        """Have the owners of sessions publish them, beginning with their state."""
        if not mirrors:
            return
        async with self._talking:
            await self._exchange.watch([mirror.session for mirror in mirrors], LEASE_SECONDS)
            for mirror in mirrors:
                mirror.is_watched = True
            await self._exchange.send([(EVERYONE, self._word(WATCH, mirror.session)) for mirror in mirrors])

    async def _drop_unread(self) -> None:
        """Stop watching sessions that have had no reader for a while; a returning reader reads the rows."""
        self._bus.forget_pasts()
        async with self._talking:
            gone = [session for session, mirror in self._mirrors.items() if self._is_unread(mirror)]
            for session in gone:
                del self._mirrors[session]
                self._showing.pop(session).cancel()
                if not self._remote.owns(session):
                    self._bus.forget(session)
            if gone:
                await self._exchange.unwatch(gone)
                await self._exchange.send([(EVERYONE, self._word(UNWATCH, session)) for session in gone])

    def _is_unread(self, mirror: Mirror) -> bool:
        if mirror.readers or mirror.unread_since > self._clock.monotonic() - GRACE_SECONDS:
            return False
        # What its owner publishes is kept for clients that were cut off.
        return not (self._bus.has_past(mirror.session) and self._remote.owns(mirror.session))

    def _word(self, kind: str, session: str) -> str:
        return PARCEL.to_json(Parcel(kind, self._exchange.replica, session=session))

    def _receive(self, message: str) -> None:
        try:
            parcel = PARCEL.from_json(message)
        except ValidationError as error:
            # Without the values: they may be words of a conversation.
            log.debug("another process said what this one does not know: %s", error.errors(include_input=False))
            return
        if parcel.sender == self._exchange.replica:
            return
        mirror = self._mirrors.get(parcel.session)
        if parcel.kind == WATCH:
            self._remote.add(parcel.session, parcel.sender)
        elif parcel.kind == UNWATCH:
            self._remote.remove(parcel.session, parcel.sender)
        elif parcel.kind == NOTICE:
            for session in self._bus.subscribed_sessions():
                self._bus.show(Notice(session, parcel.text, for_admins=True, code=parcel.code))
        elif mirror is not None:
            mirror.receive(parcel)
        elif parcel.kind == BESIDE and isinstance(event := parcel.event, SessionForgotten):
            self._bus.publish_here(event)

    def _show_of_others(self, event: TurnEvent, since: float) -> None:
        if isinstance(event, SessionForgotten):
            self._bus.publish_here(event)
        else:
            self._bus.show(event, since)

    def _recover(self) -> None:
        for mirror in self._elsewhere():
            mirror.miss()
        self._changed.set()
        self._spawn(self._refresh(), "who watches what")

    async def _refresh(self) -> None:
        """Read who watches what, as often as it takes: of watches that it does not know, an owner hears no more."""
        while True:
            try:
                return await self._remote.refresh(anew=True)
            except StateError as error:
                log.debug("who watches what cannot be read: %s", error)
            await self._clock.sleep(RETRY_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _has_lease(session: str) -> bool:
    """Whether a session is always owned for itself; an agent's may be its person's."""
    return AGENT_MARK not in session


def _is_beside_turns(event: TurnEvent) -> bool:
    """Whether a process that does not own the session may publish the event."""
    return isinstance(event, Notice) or (isinstance(event, QuestionAsked | QuestionAnswered) and not event.turn)
