"""The live view of a turn: the typing sign before its answer, and the answer while it is being written.

`previews` shows it. `claim` makes sure that nothing of it arrives after the answer.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import Any

from telegram import Bot
from telegram.error import TelegramError

from goclaw.channels.telegram.live_message_ids import LiveMessageIds
from goclaw.channels.telegram.outgoing import ChatTarget, Part, target_of
from goclaw.channels.telegram.previews import Preview, Previews, draft_id
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.render import RenderedMessage
from goclaw.channels.telegram.request import Flood, call
from goclaw.channels.telegram.turn_view import Display, Phase, TurnView
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    Address,
    AgentProgress,
    Delivery,
    GatewayPort,
    Inbound,
    MessageStored,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    StreamRestarted,
    TextStreamed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.records import BoundedDict
from goclaw.common.core.supervise import set_within
from goclaw.errors import DeliveryError, OwnershipLost, StateError

log = logging.getLogger(__name__)

TYPING_SECONDS = 4.5
"""Telegram shows the typing sign for five seconds."""
TYPING_LIMIT = 900.0
"""Seconds without any event after which a turn shows no typing sign."""
IDLE_SECONDS = 5.0
"""Seconds without a turn after which no message of a session counts as waiting, whatever became of it."""
QUICK_SECONDS = 0.3
"""An answer that is delivered by then needs neither a typing sign nor a preview."""
DRAFT_CLAIM_SECONDS = 1.0
CLAIM_SECONDS = 3.0
"""Seconds an answer waits for a draft or message under way, so that the older one cannot arrive later."""
REMEMBERED = 500
"""Maximum turns remembered while they have no answer."""


class LiveViews:
    """The views of all turns that came through Telegram."""

    def __init__(
        self,
        bot: Bot,
        limiter: RateLimiter,
        message_ids: LiveMessageIds,
        clock: Clock,
        holds: Callable[[str], bool],
    ) -> None:
        """`holds`: see `Previews`."""
        self._bot = bot
        self._limiter = limiter
        self._message_ids = message_ids
        self._clock = clock
        self._previews = Previews(bot, limiter, message_ids, clock, holds)
        self._views: OrderedDict[str, TurnView] = OrderedDict()
        self._busy: dict[str, str] = {}
        """The turn that runs in a session."""
        self._idle_since: BoundedDict[str, float] = BoundedDict(REMEMBERED)
        self._typed_at: BoundedDict[ChatTarget, float] = BoundedDict(REMEMBERED)
        self._claimed: deque[str] = deque(maxlen=REMEMBERED)
        """Deliveries in the middle of a turn that had their view."""
        self._beside: deque[str] = deque(maxlen=REMEMBERED)
        """The ones whose preview stays, because it could not be turned into a message."""
        self._tasks: asyncio.TaskGroup | None = None
        """Set while `run` runs."""

    async def run(self, gateway: GatewayPort) -> None:
        """Follow all turns until cancelled."""
        while True:
            async with gateway.subscribe(None) as events, asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                try:
                    async for event in events:
                        self._follow(event, tasks)
                finally:
                    # We lagged behind, or the channel ends: the turns that we watched go on without a view.
                    for view in self._views.values():
                        view.end()
                    self._views = OrderedDict((turn, view) for turn, view in self._views.items() if view.started)
                    self._tasks, self._busy = None, {}

    def show_acceptance(self, inbound: Inbound, acceptance: Acceptance) -> None:
        """Show that a message is on disk and will be answered, also while it waits for its turn."""
        if acceptance.kind is AcceptKind.TURN and self._tasks is not None and acceptance.turn not in self._views:
            session = acceptance.session or inbound.session
            self._idle_since[session] = self._clock.monotonic()
            self._open(acceptance.turn, session, inbound.address)

    def turn_of_draft(self, draft: int) -> str:
        """Return the turn that is shown in the draft with this id; empty for none."""
        return next((turn for turn in self._views if draft_id(turn) == draft), "")

    async def claim(self, delivery: Delivery) -> Preview | None:
        """End a turn's view because its content goes out now; a turn that goes on has another one from then on.

        Returns the message that grew, where one did.
        """
        known = self._message_ids.message_of(delivery.id)
        if delivery.interim and (known or delivery.id in self._claimed):
            return Preview(known, None) if known else None  # tried again: by now the view is that of the rest
        view = self._views.pop(delivery.turn, None)
        if view is not None:
            if delivery.interim and not view.ended.is_set():
                self._continue(view)
            view.end()
        shown = await self._drain(view) if view else None
        if delivery.interim:
            self._claimed.append(delivery.id)
            known = await self._handed_over(delivery)
            if rest := self._views.get(delivery.turn):
                rest.display.lost = self._message_ids.is_lost(delivery.turn)
        else:
            known = self._message_ids.message_of(delivery.turn)
        if known is None:
            return None
        return Preview(known, shown, is_kept=delivery.interim or await self._message_ids.store(delivery.turn))

    async def _handed_over(self, delivery: Delivery) -> int | None:
        """Return the message that grew for a text in the middle of a turn, which is that text's from here on."""
        try:
            return await self._message_ids.hand_over(delivery.turn, delivery.id)
        except StateError as error:
            log.warning("a preview stays next to its text: %s", error)
            self._beside.append(delivery.id)
            return None

    def is_clear(self, delivery: Delivery) -> bool:
        """Whether `claim` would return immediately, and no message."""
        turn, view = delivery.turn, self._views.get(delivery.turn)
        if not turn or delivery.interim:
            return not delivery.interim
        lost = self._message_ids.message_of(turn) is not None or self._message_ids.is_lost(turn)
        return not lost and (view is None or not view.display.sending.locked())

    def may_stand(self, delivery: Delivery, part: Part) -> bool:
        """Whether a preview that its answer cannot be edited into may show exactly this part already."""
        said = isinstance(part, RenderedMessage) and self._message_ids.may_match(delivery.turn, part.text)
        return said or delivery.id in self._beside

    async def _drain(self, view: TurnView) -> RenderedMessage | None:
        """Wait until nothing of a view that has ended is on its way; returns what its message says."""
        in_draft = view.target.is_private and view.display.message_id is None
        try:
            async with asyncio.timeout(DRAFT_CLAIM_SECONDS if in_draft else CLAIM_SECONDS), view.display.sending:
                pass
        except TimeoutError:
            # In either case it may arrive after the answer, so the answer must not be in the same message.
            view.display.abandoned = True
            await self._message_ids.intend(view.turn, view.session)
            log.debug("a preview of turn %s is stuck; the answer is sent without it", view.turn)
        return view.display.shown

    def _continue(self, view: TurnView) -> None:
        """Show the rest of a turn in another message."""
        rest = self._views[view.turn] = view.next_view()
        self._start_soon(rest, self._repeat_typing, "typing")
        self._start_soon(rest, self._repeat_shows, "preview")

    def _start_soon(self, view: TurnView, work: Callable[[TurnView], Coroutine[Any, Any, None]], name: str) -> None:
        """Start `work` on a view after a moment, unless the view ends before: a quick answer needs none."""

        def start() -> None:
            if self._tasks is not None and not view.ended.is_set():
                self._tasks.create_task(work(view), name=f"{name} {view.turn}")

        view.timers.append(self._clock.later(QUICK_SECONDS, start))

    async def remove(self, target: ChatTarget, message_id: int) -> None:
        """Take a message away that its answer cannot be edited into."""
        await self._previews.remove(target, message_id)

    def _follow(self, event: TurnEvent, tasks: asyncio.TaskGroup) -> None:
        if isinstance(event, TurnStarted):
            self._busy[event.session] = event.turn
            if event.address.channel == CHANNEL:
                self._start(event)
            return
        if isinstance(event, TurnFinished):
            self._finish(event, tasks)
        if isinstance(event, MessageStored) and event.joined in self._views:
            self._views.pop(event.joined).end()
        if view := self._views.get(event.turn):
            view.alive_at = self._clock.monotonic()
            self._note(view, event)

    def _note(self, view: TurnView, event: TurnEvent) -> None:
        progress = view.progress
        match event:
            case StreamRestarted():
                progress.starts_anew = True
                return
            case MessageStored():
                progress.stored(event.message)
                return
            case QuestionAsked() | QuestionAnswered():
                view.phase = Phase.ASKING if isinstance(event, QuestionAsked) else Phase.RUNNING
                return
            case TextStreamed():
                progress.add(event.text)
            case ToolStarted():
                progress.tool_started(event.call_id, event.name, event.input, event.hint)
            case AgentProgress():
                progress.agent_did(event.call_id, event.agent, event.doing)
            case ToolFinished():
                progress.tool_finished(event.call_id, "" if event.denied else event.hint)
            case TodosChanged():
                progress.todos_changed(event.todos)
            case Notice():
                progress.noticed(event.text)
            case _:
                return
        view.changed.set()

    def _start(self, event: TurnStarted) -> None:
        view = self._views.get(event.turn)
        if view is not None and view.started:
            view.end()  # it runs anew
            view = None
        view = view or self._open(event.turn, event.session, event.address)
        if view is not None:
            view.phase, view.alive_at = Phase.RUNNING, self._clock.monotonic()
            self._start_soon(view, self._repeat_shows, "preview")

    def _finish(self, event: TurnFinished, tasks: asyncio.TaskGroup) -> None:
        self._busy.pop(event.session, None)
        self._idle_since[event.session] = self._clock.monotonic()
        view = self._views.get(event.turn)
        if view is None:
            return
        view.end()
        if event.silent or not view.started:
            del self._views[event.turn]
        if event.silent and not view.progress.settling:
            tasks.create_task(self._previews.leave(view), name=f"preview {event.turn}")

    def _open(self, turn: str, session: str, address: Address) -> TurnView | None:
        if not self._previews.is_ours(session):
            return None
        display = Display(message_id=self._message_ids.message_of(turn), lost=self._message_ids.is_lost(turn))
        try:
            view = TurnView(turn, session, target_of(address), self._clock.monotonic(), display=display)
        except DeliveryError:
            return None  # the delivery of the answer reports this address
        self._views[turn] = view
        while len(self._views) > REMEMBERED:
            self._views.popitem(last=False)[1].end()
        self._start_soon(view, self._repeat_typing, "typing")
        return view

    async def _repeat_typing(self, view: TurnView) -> None:
        self._previews.guard(view)
        while not view.ended.is_set() and self._is_alive(view):
            await self._type(view)
            await self._either(view.ended, TYPING_SECONDS)
        if not view.started and self._views.get(view.turn) is view:
            del self._views[view.turn]

    def _is_alive(self, view: TurnView) -> bool:
        now = self._clock.monotonic()
        if view.started:
            return now - view.alive_at < TYPING_LIMIT
        return view.session in self._busy or now - self._idle_since.get(view.session, now) < IDLE_SECONDS

    async def _type(self, view: TurnView) -> None:
        """Show the typing sign in a turn's chat, unless shown, rate-limited, or the turn waits for a person."""
        target, now = ChatTarget(view.target.chat, view.target.thread), self._clock.monotonic()
        if view.phase is Phase.ASKING or not self._limiter.may_show(target.chat):
            return
        if now - self._typed_at.get(target, -TYPING_SECONDS) < TYPING_SECONDS:
            return
        self._typed_at[target] = now
        try:
            parameters = {"chat_id": target.chat, "action": "typing", "message_thread_id": target.thread}
            await call(self._bot, "sendChatAction", parameters)
        except OwnershipLost:
            view.end()
        except Flood as error:
            self._limiter.pause_shows(target.chat, error.seconds)
        except TelegramError as error:
            log.debug("the typing sign for turn %s failed: %s", view.turn, error.message)

    async def _repeat_shows(self, view: TurnView) -> None:
        self._previews.guard(view)
        while not view.ended.is_set():
            await self._either(view.changed, self._previews.seconds_until_refresh(view))
            view.changed.clear()
            if pause := self._previews.pause(view):
                view.changed.set()
                await self._either(view.ended, pause)
                continue
            async with view.display.sending:
                await self._previews.show(view)
            await self._either(view.ended, self._previews.interval(view))

    async def _either(self, event: asyncio.Event, seconds: float | None) -> None:
        """Return when `event` is set or the time has passed; None: there is no such time."""
        if seconds is None:
            await event.wait()
        else:
            await set_within(event, self._clock, seconds)
