"""Previews of a turn: the text so far and the tools that run, in a draft or in a message that grows.

Any message replaces a draft. Drafts exist in private chats only; elsewhere, and where the server knows none, one
message is sent and edited until the answer is edited into it. All of this is for show: a failure is retried later with
the text of that moment, and never holds up an answer.
"""

import logging
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from telegram import Bot
from telegram.error import BadRequest, InvalidToken, TelegramError

from goclaw.channels.telegram.live_message_ids import LiveMessageIds
from goclaw.channels.telegram.outgoing import ChatTarget, delete, edit_text, entities_of, render_off_loop, send_text
from goclaw.channels.telegram.rate_limits import CircuitBreaker, RateLimiter
from goclaw.channels.telegram.render import RenderedMessage
from goclaw.channels.telegram.request import Flood, Unanswered, call
from goclaw.channels.telegram.turn_view import TurnView, with_line
from goclaw.common.core.clock import Clock
from goclaw.common.core.fencing import AUTHORITY
from goclaw.common.core.records import record
from goclaw.errors import OwnershipLost

log = logging.getLogger(__name__)


DRAFT_SECONDS = 0.3
EDIT_SECONDS = 1.0
GROUP_SECONDS = 3.0
"""Seconds between two versions of a preview. Groups take twenty messages a minute, edits included."""
KEEP_SECONDS = 25.0
"""Seconds after which a draft is sent again, changed or not: Telegram shows one for thirty seconds."""
UNKNOWN_SECONDS = 3600.0
"""Seconds before a server is asked again for a feature it does not know: drafts, a Stop button."""
NOTHING = RenderedMessage("…")
"""The text of a live message without text or tool yet."""
MANY_CHATS = 1_000


@record
class Preview:
    """A message that grew while the answer was written."""

    message_id: int
    shown: RenderedMessage | None
    """Its current content; None where unknown."""
    is_kept: bool = True
    """Whether it is found again after a crash."""


class Previews:
    """The previews of one bot."""

    def __init__(
        self,
        bot: Bot,
        limiter: RateLimiter,
        message_ids: LiveMessageIds,
        clock: Clock,
        holds: Callable[[str], bool],
    ) -> None:
        """`holds`: whether this process works on a session: only that one shows it."""
        self._bot = bot
        self._holds = holds
        self._limiter = limiter
        self._message_ids = message_ids
        self._clock = clock
        self._drafts = CircuitBreaker(clock)
        self._stop_button = CircuitBreaker(clock)
        self._chats: dict[int, CircuitBreaker] = {}

    def pause(self, view: TurnView) -> float:
        """Return the seconds until a preview may be tried in the view's chat."""
        return max(self._limiter.quiet(view.target.chat), self._chat(view.target.chat).wait(), 0.0)

    def interval(self, view: TurnView) -> float:
        """Return the seconds between two previews."""
        if self._is_draft(view):
            return DRAFT_SECONDS
        return EDIT_SECONDS if view.target.is_private else GROUP_SECONDS

    def seconds_until_refresh(self, view: TurnView) -> float | None:
        """Return the seconds until the content has to be shown again; None: it stays."""
        if not self._is_draft(view) or view.display.shown is None:
            return None
        return max(0.0, view.display.shown_at + KEEP_SECONDS - self._clock.monotonic())

    async def show(self, view: TurnView) -> None:
        """Show what there is now, unless it is shown already or the answer is on its way."""
        if view.progress.settling:
            return
        draft = self._is_draft(view)
        chunk = await self._content(view, draft=draft)
        if chunk is None or not self._is_shown_here(view) or view.ended.is_set():
            return
        if chunk == view.display.shown and self.seconds_until_refresh(view) != 0.0:
            return
        try:
            if draft:
                await self._draft(view, chunk)
            elif not await self._grow(view, chunk):
                return
        except OwnershipLost:
            view.end()
            return
        except Flood as error:
            # Drafts have limits of their own; what holds up a message here would hold up the answer, too.
            (self._limiter.pause_shows if draft else self._limiter.pause)(view.target.chat, error.seconds)
        except TelegramError as error:
            self._handle_failure(view, error, draft=draft)
        else:
            self._chat(view.target.chat).record_success()
            view.display.shown, view.display.shown_at = chunk, self._clock.monotonic()
            return
        view.changed.set()

    def guard(self, view: TurnView) -> None:
        """Have the current task's messages of a turn refused at the last moment where another process shows it."""
        AUTHORITY.set(replace(AUTHORITY.get(), before_sending=partial(self._refuse, view.session)))

    async def _refuse(self, session: str) -> None:
        if not self.is_ours(session):
            raise OwnershipLost("another process has taken over the session")

    def is_ours(self, session: str) -> bool:
        """Whether this process shows the turns of a session."""
        return self._holds(session)

    def _is_shown_here(self, view: TurnView) -> bool:
        """Whether this process shows a turn. Ask after each wait: the process may have been paused in it."""
        is_ours = self.is_ours(view.session)
        if not is_ours:
            view.end()
        return is_ours

    async def leave(self, view: TurnView) -> None:
        """The turn was stopped, so no answer comes: its text stays, its tool's line does not."""
        self.guard(view)
        async with view.display.sending:
            if view.display.message_id is None:
                return
            chunks = await render_off_loop(view.progress.text)
            if not chunks:
                with suppress(OwnershipLost):
                    await self.remove(view.target, view.display.message_id)
            elif chunks[0] != view.display.shown:
                try:
                    await edit_text(self._bot, view.target.chat, view.display.message_id, chunks[0])
                except (TelegramError, OwnershipLost) as error:
                    log.debug("a preview could not be tidied up: %s", error)

    async def remove(self, target: ChatTarget, message_id: int) -> None:
        """Take a message away that its answer cannot be edited into."""
        try:
            await delete(self._bot, target.chat, message_id)
        except TelegramError as error:
            log.info("telegram: a preview stays next to its answer: %s", error.message)

    def _is_draft(self, view: TurnView) -> bool:
        """Whether a turn is shown in a draft: once it has a live message, that one is used."""
        return (
            view.target.is_private
            and view.display.message_id is None
            and not view.display.lost
            and self._drafts.wait() == 0.0
        )

    async def _content(self, view: TurnView, *, draft: bool) -> RenderedMessage | None:
        """Return the content to show; None for nothing."""
        chunks = await render_off_loop(view.progress.text)
        if not chunks and not view.progress.line():
            return None if view.display.shown is None else RenderedMessage("") if draft else NOTHING
        # In a draft the end, where the writing happens; the beginning of a long answer comes with the answer.
        chunk = chunks[-1 if draft else 0] if chunks else RenderedMessage("")
        return with_line(chunk, view.progress.line())

    async def _draft(self, view: TurnView, chunk: RenderedMessage) -> None:
        if self._stop_button.wait() > 0:
            return await self._send_draft(view, chunk, can_stop=False)
        try:
            await self._send_draft(view, chunk, can_stop=True)
        except BadRequest:
            await self._send_draft(view, chunk, can_stop=False)
            log.info("telegram: this server supports no Stop button for drafts; /stop works everywhere")
            self._stop_button.shut(UNKNOWN_SECONDS)

    async def _send_draft(self, view: TurnView, chunk: RenderedMessage, *, can_stop: bool) -> None:
        parameters = {
            "chat_id": view.target.chat,
            "draft_id": draft_id(view.turn),
            "text": chunk.text,
            "message_thread_id": view.target.thread,
            "entities": entities_of(chunk),
            "can_stop": True if can_stop else None,
        }
        await call(self._bot, "sendMessageDraft", parameters)

    async def _grow(self, view: TurnView, chunk: RenderedMessage) -> bool:
        """Send or edit the message that grows. False: not now."""
        if view.display.lost:
            return False
        # The answer to an earlier message must not end up below this one.
        waits = view.display.message_id is None and self._limiter.is_pending(view.target.chat)
        if waits or not self._limiter.spare(view.target.chat):
            view.changed.set()
            return False
        view.display.shown = None  # until it is sure
        try:
            if view.display.message_id is None:
                said = chunk.text.removesuffix(f"\n\n{view.progress.line()}")
                is_noted = await self._message_ids.intend(view.turn, view.session, said)
            else:
                is_noted = await self._message_ids.store(view.turn)
            if not is_noted or not self._is_shown_here(view):
                return False
            if view.display.message_id is None:
                view.display.message_id = await self._send_first(view, chunk)
            else:
                await edit_text(self._bot, view.target.chat, view.display.message_id, chunk)
        finally:
            if view.display.abandoned and view.display.message_id is not None:
                # It would stand beside the answer, which could not wait for it any longer.
                await self.remove(view.target, view.display.message_id)
        return True

    async def _send_first(self, view: TurnView, chunk: RenderedMessage) -> int:
        """Send the message that will grow; returns its id."""
        try:
            sent = await send_text(self._bot, view.target, chunk)
        except Unanswered:
            view.display.lost = True
            raise
        if not view.display.abandoned:
            await self._message_ids.remember(view.turn, view.session, sent)
        return sent

    def _handle_failure(self, view: TurnView, error: TelegramError, *, draft: bool) -> None:
        log.debug("the preview of turn %s failed: %s", view.turn, error.message)
        # The library calls every 404 a wrong token; were it that, nothing at all would work.
        if draft and isinstance(error, InvalidToken):
            log.info("telegram: this server supports no drafts; private chats get messages that grow")
            self._drafts.shut(UNKNOWN_SECONDS)
            view.display.shown = None
        else:
            self._chat(view.target.chat).record_failure()

    def _chat(self, chat: int) -> CircuitBreaker:
        if chat not in self._chats:
            if len(self._chats) >= MANY_CHATS:
                self._chats = {other: breaker for other, breaker in self._chats.items() if breaker.wait() > 0}
            self._chats[chat] = CircuitBreaker(self._clock)
        return self._chats[chat]


def draft_id(turn: str) -> int:
    """Return the number that names a turn's draft; Telegram requires it to be positive."""
    return zlib.crc32(turn.encode()) % 0x7FFFFFFF + 1
