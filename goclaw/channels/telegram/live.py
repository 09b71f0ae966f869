"""The live view of a turn: the typing sign, and the answer while it is being written.

In private chats the answer grows in a draft, which any message replaces. In groups one message is sent and edited, and
the final answer is edited into that same message. All of this is for show: whatever fails here is dropped, and
`claim` makes sure that nothing of it arrives after the answer.
"""

import asyncio
import logging
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from telegram import Bot
from telegram.error import TelegramError

from goclaw.channels.telegram.calls import Target, edit_text, entities_of, rendered, send_text, target_of
from goclaw.channels.telegram.grown import Grown
from goclaw.channels.telegram.inbound import CHANNEL
from goclaw.channels.telegram.outlet import Outlet
from goclaw.channels.telegram.render import Chunk
from goclaw.channels.telegram.request import Flood
from goclaw.clock import Clock
from goclaw.errors import DeliveryError
from goclaw.events import (
    Address,
    GatewayPort,
    MessageStored,
    StreamRestarted,
    TextStreamed,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)

log = logging.getLogger(__name__)

TYPING_SECONDS = 4.5
"""Telegram shows the typing sign for five seconds."""
TYPING_LIMIT = 900.0
"""A turn that shows no sign of life for so long (it waits for an approval, say) is not typing."""
QUICK_SECONDS = 0.3
"""Answers that are done by then need no preview."""
DRAFT_SECONDS = 0.3
GROUP_SECONDS = 3.0
"""Between two versions of a preview. Groups take twenty messages a minute, edits included."""
FAILURES = 3
"""Previews of one turn that may fail before it goes on without."""
CLAIM_SECONDS = 3.0
"""How long an answer waits for a preview that is on its way, so that the older one cannot arrive later."""
REMEMBERED = 500
"""Turns whose answer has not come yet."""


@dataclass(eq=False)
class View:
    """One turn that people in Telegram wait for."""

    turn: str
    target: Target
    alive_at: float
    text: str = ""
    starts_anew: bool = False
    """The next text is the begin of another message: the model used a tool in between."""
    shown: str = ""
    message_id: int | None = None
    """The message that grows in a group."""
    failures: int = 0
    not_before: float = 0.0
    abandoned: bool = False
    """The answer went out without waiting for the preview that is on its way."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, text: str) -> None:
        """The answer goes on."""
        self.text = text if self.starts_anew else self.text + text
        self.starts_anew = False
        self.changed.set()

    def end(self) -> None:
        """Nothing more is to be shown."""
        self.ended.set()
        self.changed.set()


class LiveViews:
    """The views of all turns that came through Telegram."""

    def __init__(self, bot: Bot, outlet: Outlet, grown: Grown, clock: Clock) -> None:
        self._bot = bot
        self._outlet = outlet
        self._grown = grown
        self._clock = clock
        self._views: OrderedDict[str, View] = OrderedDict()

    async def run(self, gateway: GatewayPort) -> None:
        """Follow all turns until cancelled."""
        while True:
            async with gateway.subscribe(None) as events, asyncio.TaskGroup() as tasks:
                async for event in events:
                    self._follow(event, tasks)
                # The stream ended because we lagged behind: the turns that we watched go on without a view.
                for view in self._views.values():
                    view.end()

    async def claim(self, turn: str) -> int | None:
        """End the view of a turn because its answer goes out now; returns the message that grew in a group."""
        view = self._views.pop(turn, None)
        if view is None:
            return self._grown.message_of(turn)
        view.end()
        try:
            async with asyncio.timeout(CLAIM_SECONDS), view.sending:
                pass
        except TimeoutError:
            view.abandoned = True
            log.debug("a preview of turn %s is stuck; its answer goes out without it", turn)
        return view.message_id

    async def remove(self, target: Target, message_id: int) -> None:
        """Take a grown message away that its answer cannot be edited into."""
        try:
            await self._bot.delete_message(target.chat, message_id)
        except TelegramError as error:
            log.debug("a preview could not be removed: %s", error.message)

    def _follow(self, event: TurnEvent, tasks: asyncio.TaskGroup) -> None:
        if isinstance(event, TurnStarted):
            if event.address.channel == CHANNEL:
                self._open(event.turn, event.address, tasks)
            return
        view = self._views.get(event.turn)
        if view is None:
            return
        view.alive_at = self._clock.monotonic()
        match event:
            case TextStreamed():
                view.add(event.text)
            case StreamRestarted() | ToolStarted() | MessageStored():
                view.starts_anew = True
            case TurnFinished():
                view.end()

    def _open(self, turn: str, address: Address, tasks: asyncio.TaskGroup) -> None:
        try:
            known = self._grown.message_of(turn)
            view = View(turn, target_of(address), self._clock.monotonic(), message_id=known)
        except DeliveryError:
            return  # whoever made this address up learns it when the answer is delivered
        if turn in self._views:
            self._views[turn].end()
        self._views[turn] = view
        while len(self._views) > REMEMBERED:
            self._views.popitem(last=False)[1].end()
        tasks.create_task(self._keep_typing(view), name=f"typing {turn}")
        tasks.create_task(self._keep_showing(view), name=f"preview {turn}")

    async def _keep_typing(self, view: View) -> None:
        while not view.ended.is_set() and self._clock.monotonic() - view.alive_at < TYPING_LIMIT:
            await self._quietly(view, self._type)
            await self._either(view.ended, TYPING_SECONDS)

    async def _type(self, view: View) -> None:
        await self._bot.send_chat_action(view.target.chat, "typing", message_thread_id=view.target.thread)

    async def _keep_showing(self, view: View) -> None:
        await self._either(view.ended, QUICK_SECONDS)
        while not view.ended.is_set() and view.failures < FAILURES:
            await view.changed.wait()
            view.changed.clear()
            if self._clock.monotonic() >= view.not_before:
                async with view.sending:
                    # A missing typing sign says nothing about previews, so only these count.
                    if not await self._quietly(view, self._show):
                        view.failures += 1
            await self._either(view.ended, DRAFT_SECONDS if view.target.is_private else GROUP_SECONDS)

    async def _show(self, view: View) -> None:
        """Show the text so far, unless it is shown already or the answer is on its way."""
        text = view.text
        chunks = await rendered(text) if text != view.shown else []
        if not chunks or view.ended.is_set():
            return
        if view.target.is_private:
            # The end is where the writing happens; the beginning of a long answer comes with the answer.
            await self._draft(view, chunks[-1])
        elif self._outlet.spare(view.target.chat):
            await self._grow(view, chunks[0])
        else:
            view.changed.set()
            return
        view.shown = text
        view.failures = 0

    async def _draft(self, view: View, chunk: Chunk) -> None:
        await self._bot.send_message_draft(
            view.target.chat,
            draft_id(view.turn),
            chunk.text,
            message_thread_id=view.target.thread,
            entities=entities_of(chunk),
        )

    async def _grow(self, view: View, chunk: Chunk) -> None:
        if view.message_id is not None:
            await edit_text(self._bot, view.target, view.message_id, chunk)
            return
        sent = await send_text(self._bot, view.target, chunk)
        if view.abandoned:
            # It would stand beside the answer, which could not wait for it any longer.
            await self.remove(view.target, sent)
        else:
            view.message_id = sent
            await self._grown.remember(view.turn, sent)

    async def _quietly(self, view: View, show: Callable[[View], Awaitable[None]]) -> bool:
        """Do something for show. False: it failed, which nobody else needs to know; a wish to wait is no failure."""
        try:
            await show(view)
        except Flood as error:
            view.not_before = self._clock.monotonic() + error.seconds
            view.changed.set()
        except TelegramError as error:
            log.debug("the live view of turn %s failed: %s", view.turn, error.message)
            return False
        return True

    async def _either(self, event: asyncio.Event, seconds: float) -> None:
        """Return when `event` is set or the time has passed."""
        tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


def draft_id(turn: str) -> int:
    """A number that names a turn's draft; Telegram wants it to be positive and not zero."""
    return zlib.crc32(turn.encode()) % 0x7FFFFFFF + 1
