"""A session as readers of this process see it, whichever process owns it.

The owner publishes each event. Where something may have been missed (at the beginning, after a break, when another
process is the owner) it tells the state of the session, and readers get what makes theirs the same: no word that they
have comes again, and no row is left out.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    LOCAL,
    Address,
    MessageStored,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    TurnEvent,
    TurnStarted,
)
from goclaw.common.core.fencing import Fence
from goclaw.durable.engine.views.parcels import BESIDE, NOW, ROW, Parcel
from goclaw.durable.engine.views.stored_views import StoredViews
from goclaw.errors import StateError

log = logging.getLogger(__name__)

GOES_ON = "another process goes on with it"
"""The reason of a `StreamRestarted` after the owner of a session has gone."""
MAX_WAITING = 10_000
"""Maximum messages of other processes that wait for a read of the store; beyond that the state is requested again."""


class Mirror:
    """The knowledge of one session that the readers of this process share.

    Methods that wait are called one at a time, and raise `DiskError` when the store cannot be read.
    """

    def __init__(
        self,
        session: str,
        stored: StoredViews,
        clock: Clock,
        show: Callable[[TurnEvent, float], None],
        now: Callable[[], SessionNow],
    ) -> None:
        """Begin without knowing anything.

        Args:
            session: its key.
            stored: the state according to the store.
            clock: the time.
            show: hands an event to the readers here, with the time at which a turn began, or 0.
            now: returns the running turn as readers here know it.
        """
        self.session = session
        self.row: int | None = None
        """The last row that readers had as an event, or that was there before they came; None: not looked up yet."""
        self.readers = 0
        self.unread_since = self.heard_at = clock.monotonic()
        """When the last reader left, and when the owner was last heard of."""
        self.is_current = asyncio.Event()
        """Whether readers know the state of the session, except for messages on their way."""
        self.is_watched = False
        """Whether the other processes know of readers here."""
        self.inbox: asyncio.Queue[Parcel] = asyncio.Queue()
        self.working = asyncio.Lock()
        """Held while the session is brought up to date."""
        self._stored = stored
        self._clock = clock
        self._show_here = show
        self._now_here = now
        self.lease = ""
        """The session of the lease under which its owner has told of it last."""
        self._epoch = self._number = 0
        self._breaks = 0
        """Counts what may have been missed."""
        self._questions: dict[str, QuestionAsked] = {}
        self._todos: tuple[Todo, ...] = ()

    def now(self) -> SessionNow:
        """Return the state of the session as readers know it."""
        questions = tuple(asked.question for asked in self._questions.values())
        return replace(self._now_here(), questions=questions, todos=self._todos)

    def learn(self, now: SessionNow) -> None:
        """Take the state that new readers get of the session, which this process owns."""
        self._questions = {each.id: self._asked(now.turn, each) for each in now.questions}
        self._todos = now.todos

    def note(self, event: TurnEvent) -> None:
        """Note what readers are being told."""
        match event:
            case MessageStored():
                self._reach(event.row)
            case QuestionAsked():
                self._questions[event.question.id] = event
            case QuestionAnswered():
                self._questions.pop(event.question_id, None)
            case TodosChanged():
                self._todos = event.todos
            case SessionForgotten():
                self._questions, self._todos = {}, ()
            case _:
                pass

    def miss(self) -> None:
        """Note a possible gap: events are of no use until the owner sends the state again."""
        self._breaks += 1
        self.is_current.clear()
        self.is_watched = False
        waiting = [self.inbox.get_nowait() for _ in range(self.inbox.qsize())]
        for parcel in waiting:
            if parcel.kind == BESIDE:
                self.inbox.put_nowait(parcel)

    def receive(self, parcel: Parcel) -> None:
        """Receive a message from another process, in the order of arrival."""
        self.heard_at = self._clock.monotonic()
        if self.inbox.qsize() >= MAX_WAITING:
            self.miss()
        self.inbox.put_nowait(parcel)

    async def start(self) -> None:
        """Look up which rows were there before there was a reader."""
        if self.row is None:
            # Another reader may have come meanwhile, and have had rows as events.
            self._reach(await self._stored.last_row(self.session))

    async def run(self, owned: Callable[[], bool], missed: Callable[[], None]) -> None:
        """Show what other processes tell, until cancelled; `owned`: whether this process owns the session meanwhile."""
        while True:
            parcel = await self.inbox.get()
            async with self.working:
                if owned() and parcel.kind != BESIDE:
                    continue
                try:
                    is_well = await self._apply(parcel)
                except StateError as error:
                    log.debug("a session of another process is not shown now: %s", error)
                    is_well = False
                if not is_well:
                    self.miss()
                    missed()

    async def _apply(self, parcel: Parcel) -> bool:
        """Apply a message to the view. False: something before it is missing."""
        if parcel.kind == BESIDE:
            self._publish(parcel.event)
            return True
        if (parcel.epoch, parcel.number) <= (self._epoch, self._number):
            return True  # of an owner that is none any more, or sent twice
        if parcel.kind == NOW:
            breaks = self._breaks
            if not self._epoch:
                # What is stored and was not published yet is still to come, though it was there before the reader.
                self.row = min(self.row or 0, parcel.row)
            await self.bring_up(parcel.now or SessionNow(), parcel.row, parcel.address)
            self._epoch, self._number, self.lease = parcel.epoch, parcel.number, parcel.lease
            if breaks == self._breaks:
                self.is_current.set()
            return True
        if not self.is_current.is_set():
            return True
        if parcel.epoch != self._epoch:
            return False
        self._number = parcel.number
        if parcel.kind == ROW:
            self._show_rows(await self._stored.rows(self.session, self.row or 0), parcel.row)
        else:
            self._publish(parcel.event)
        return True

    async def own(self, fence: Fence, now: SessionNow) -> None:
        """Go on from what readers know as the owner, under which nothing has begun yet."""
        async with self.working:
            self.miss()
            self._epoch, self._number, self.lease = fence.epoch, 0, fence.session
            await self.start()
            await self.bring_up(SessionNow(questions=now.questions, todos=now.todos), None, None)
            self.is_current.set()

    async def check(self) -> None:
        """Check whether a turn that readers believe to be running has ended without a word."""
        async with self.working:
            turn = self._now_here().turn
            if turn and not await self._stored.is_open(turn):
                questions = tuple(each.question for each in self._questions.values() if not each.question.has_turn)
                await self.bring_up(SessionNow(questions=questions, todos=self._todos), None, None)

    async def bring_up(self, now: SessionNow, row: int | None, address: Address | None) -> None:
        """Bring readers to the state that the owner reports; None: rows up to the last one there is."""
        rows = await self._stored.rows(self.session, self.row or 0)
        had, ended = self._now_here().turn, None
        if had and had != now.turn and not await self._stored.is_open(had):
            ended = await self._stored.end_of(self.session, had)
        # From here on nothing waits: no reader comes in between.
        self._show_rows(rows, row)
        if ended is not None:
            self._show(ended)
        elif had and had != now.turn and (self._now_here().text or self._now_here().thinking):
            self._show(StreamRestarted(had, self.session, GOES_ON))
        if now.turn and now.turn != had:
            self._show(TurnStarted(now.turn, self.session, address or Address(LOCAL, "")), now.since)
        if now.turn:
            self._show_text(now)
        self._show_questions(now)
        if now.todos != self._todos:
            self._show(TodosChanged(now.turn or had, self.session, now.todos))

    def _show_rows(self, rows: Sequence[MessageStored], last: int | None) -> None:
        for event in rows:
            if (self.row or 0) < event.row and (last is None or event.row <= last):
                self._show(event)
        self._reach(last or 0)

    def _reach(self, row: int) -> None:
        self.row = max(self.row or 0, row)

    def _show_text(self, now: SessionNow) -> None:
        """Show the text that the owner has streamed of an answer; where readers have other text, resend all of it."""
        known = self._now_here()
        if not (now.text.startswith(known.text) and now.thinking.startswith(known.thinking)):
            self._show(StreamRestarted(now.turn, self.session, GOES_ON))
            known = SessionNow()
        if thinking := now.thinking[len(known.thinking) :]:
            self._show(ThinkingStreamed(now.turn, self.session, thinking))
        if text := now.text[len(known.text) :]:
            self._show(TextStreamed(now.turn, self.session, text))

    def _show_questions(self, now: SessionNow) -> None:
        turn, there = now.turn or self._now_here().turn, {each.id for each in now.questions}
        for asked in [each for each in self._questions.values() if each.question.id not in there]:
            self._show(QuestionAnswered(asked.turn, self.session, asked.question.id, ""))
        for question in now.questions:
            if question.id not in self._questions:
                self._show(self._asked(turn, question))

    def _asked(self, turn: str, question: Question) -> QuestionAsked:
        """Return the event of a question that is open while `turn` runs."""
        return QuestionAsked(turn if question.has_turn else "", self.session, question)

    def _publish(self, event: TurnEvent | None) -> None:
        if event is not None:
            self._show(event)

    def _show(self, event: TurnEvent, since: float = 0.0) -> None:
        self.note(event)
        self._show_here(event, since)
