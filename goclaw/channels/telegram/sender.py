"""Sending of deliveries: messages in order, files, reactions, edits, and the buttons below a message.

The sender decides what each failure means for the next try. A delivery of several messages resumes where it stopped,
also in the next run of the daemon: the `Handover` knows the parts that arrived. The update that Telegram sends for the
press of a button is read in `updates`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, ChatMigrated, TelegramError

from goclaw.channels.base import Doubt, Handover
from goclaw.channels.telegram.chat_access import BlockedChats
from goclaw.channels.telegram.chat_migrations import ChatMigrations
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.outgoing import (
    NO_TEXT,
    ChatTarget,
    OutgoingFile,
    Part,
    closed_topic_note,
    closes_chat,
    delete,
    edit_caption,
    edit_keyboard,
    edit_text,
    is_closed_topic,
    parts_of,
    react,
    refuses_topic,
    send_text,
    target_of,
    upload,
    with_note,
)
from goclaw.channels.telegram.previews import Preview
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.render import RenderedMessage
from goclaw.channels.telegram.request import Flood, Unanswered
from goclaw.common.config.values import reaction_of
from goclaw.common.core.events import Choice, Delivery, Receipt
from goclaw.errors import DeliveryError, OwnershipLost, StateError

log = logging.getLogger(__name__)


NOTES = {
    Doubt.NONE: "",
    Doubt.RESTART: "(sent again after a restart)\n\n",
    Doubt.SILENCE: "(sent again: the first try may have arrived)\n\n",
}
"""The mark in front of a part that may have arrived already."""
MOVE_SECONDS = 0.1
"""Seconds before a delivery goes to the group's new id."""


class Sender:
    """Hands deliveries over to Telegram."""

    def __init__(
        self,
        bot: Bot,
        limiter: RateLimiter,
        live: LiveViews,
        migrations: ChatMigrations,
        blocked: BlockedChats,
        load_blob: Callable[[str], Awaitable[bytes]],
    ) -> None:
        self._bot = bot
        self._limiter = limiter
        self._live = live
        self._migrations = migrations
        self._blocked = blocked
        self._load_blob = load_blob

    def sends_at_once(self, delivery: Delivery) -> bool:
        """Whether a text would go out right now: within the limits, and with no preview to be ended or edited."""
        if delivery.media is not None or not self._live.is_clear(delivery):
            return False
        try:
            chat = self._migrations.current(target_of(delivery.address).chat)
        except DeliveryError:
            return False
        return not self._limiter.wait(chat)

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        """Carry out the delivery in Telegram.

        Raises:
            DeliveryError: says whether and when to try again.
        """
        target = target_of(delivery.address)
        target = replace(target, chat=self._migrations.current(target.chat))
        self._blocked.ensure(target.chat)
        self._limiter.mark_pending(target.chat)
        try:
            receipt = await self._act(delivery, target, handover)
        except ChatMigrated as error:
            self._limiter.clear_pending(target.chat)
            raise await self._follow(target.chat, error.new_chat_id) from error
        except Flood as error:
            self._limiter.pause(target.chat, error.seconds)
            raise DeliveryError(error.message, retry_after=error.seconds) from error
        except TelegramError as error:
            if closes_chat(error):
                self._blocked.close(target.chat, f"telegram: {error.message}")
            if closes_chat(error) or isinstance(error, BadRequest):
                self._allow_preview(target.chat, handover)
            raise DeliveryError(
                f"telegram: {error.message}",
                permanent=isinstance(error, BadRequest),
                maybe_delivered=isinstance(error, Unanswered),
                closed=closes_chat(error),
            ) from error
        except (DeliveryError, OwnershipLost):
            self._allow_preview(target.chat, handover)
            raise
        self._allow_preview(target.chat, handover)
        self._blocked.open(target.chat)
        return receipt

    def _allow_preview(self, chat: int, handover: Handover) -> None:
        """Let a preview begin in a chat, unless more is to be sent there first."""
        if not handover.others_wait:
            self._limiter.clear_pending(chat)

    async def _follow(self, chat: int, new: int) -> DeliveryError:
        """Return the error that redirects a delivery after its group became a supergroup, which is another chat."""
        try:
            await self._migrations.remember(chat, new)
        except OwnershipLost:
            raise
        except StateError as error:
            return DeliveryError(
                f"the group moved to {new}, but this cannot be stored: {error}", retry_after=MOVE_SECONDS
            )
        if self._migrations.current(chat) == chat:
            return DeliveryError(f"telegram: the group moved to {new}, which cannot be followed", closed=True)
        return DeliveryError("the group moved to another chat id; now sending there", retry_after=MOVE_SECONDS)

    async def _act(self, delivery: Delivery, target: ChatTarget, handover: Handover) -> Receipt:
        if delivery.action == "send":
            return await self._send(delivery, target, handover)
        message_id = message_id_of(delivery)
        if delivery.action == "edit":
            return await self._edit(delivery, target, message_id, handover)
        reaction = _reaction_of(delivery) if delivery.action == "react" else ""
        await self._limiter.cool(target.chat)
        if delivery.action == "delete":
            await delete(self._bot, target.chat, message_id)
        else:
            await react(self._bot, target.chat, message_id, reaction)
        return Receipt(str(message_id))

    async def _send(self, delivery: Delivery, target: ChatTarget, handover: Handover) -> Receipt:
        """Send all parts that are not there yet; what grew while it was written becomes the first one."""
        parts = await parts_of(delivery, self._load_blob)
        preview = await self._live.claim(delivery) if delivery.turn else None
        keyboard = keyboard_of(delivery.choices)
        if not handover.parts:
            # The receipt names the first part, so its buttons can be found again.
            if preview is not None and await self._fill(preview, parts[0], target, keyboard, handover):
                await handover.arrived(str(preview.message_id), last=len(parts) == 1)
            else:
                stands = preview is None and self._live.may_stand(delivery, parts[0])
                last = len(parts) == 1 and preview is None
                await self._send_part(parts[0], target, keyboard, handover, stands=stands, last=last)
        if preview is not None and handover.parts[0] != str(preview.message_id):
            await self._live.remove(target, preview.message_id)
        for part in parts[len(handover.parts) :]:
            last = len(handover.parts) == len(parts) - 1
            await self._send_part(part, replace(target, reply_to=None), None, handover, last=last)
        return Receipt(handover.parts[0])

    async def _fill(
        self,
        preview: Preview,
        part: Part,
        target: ChatTarget,
        keyboard: InlineKeyboardMarkup | None,
        handover: Handover,
    ) -> bool:
        """Edit the message that grew to its final text. False: it cannot."""
        if isinstance(part, OutgoingFile):
            return False
        says_it = preview.shown == part and keyboard is None
        if not says_it:
            await self._limiter.pace(target.chat)
        if not preview.is_kept:
            await handover.sending()  # after a crash it is sent once more, for this message is not found again
        if says_it:
            return True
        try:
            await self._edit_chunk(target.chat, preview.message_id, part, keyboard)
        except BadRequest as error:
            if closes_chat(error):
                raise
            log.info("telegram: an answer cannot replace its preview and is sent as a new message: %s", error.message)
            return False
        return True

    async def _edit(self, delivery: Delivery, target: ChatTarget, message_id: int, handover: Handover) -> Receipt:
        """Change a message of ours; the rest without room follows. Without a text only its buttons change."""
        keyboard = keyboard_of(delivery.choices)
        if not delivery.text.strip():
            await self._limiter.cool(target.chat)
            await edit_keyboard(self._bot, target.chat, message_id, keyboard)
            return Receipt(str(message_id))
        parts = await parts_of(delivery, self._load_blob)
        if not handover.parts:
            if isinstance(parts[0], OutgoingFile):
                raise DeliveryError("an edit cannot turn a message into a file", permanent=True)
            await self._limiter.pace(target.chat)
            await self._edit_chunk(target.chat, message_id, parts[0], keyboard)
            await handover.arrived(str(message_id), last=len(parts) == 1)
        for part in parts[len(handover.parts) :]:
            last = len(handover.parts) == len(parts) - 1
            await self._send_part(part, replace(target, reply_to=None), None, handover, last=last)
        return Receipt(str(message_id))

    async def _edit_chunk(
        self, chat: int, message_id: int, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None
    ) -> None:
        """The same edit twice is one, so `sending` is not recorded for it."""
        try:
            await edit_text(self._bot, chat, message_id, chunk, keyboard)
        except BadRequest as error:
            if NO_TEXT in error.message.lower():
                await edit_caption(self._bot, chat, message_id, chunk, keyboard)
            elif chunk.spans and is_about_formatting(error):
                log.warning("telegram refused the formatting of an edit; sending it without: %s", error.message)
                await edit_text(self._bot, chat, message_id, RenderedMessage(chunk.text), keyboard)
            else:
                raise

    async def _send_part(
        self,
        part: Part,
        target: ChatTarget,
        keyboard: InlineKeyboardMarkup | None,
        handover: Handover,
        *,
        stands: bool = False,
        last: bool = False,
    ) -> None:
        """Send the next part, with a note where it may be there already; `stands`: as a preview."""
        doubt = Doubt.SILENCE if stands and handover.doubt is Doubt.NONE else handover.doubt
        *notes, noted = with_note(part, NOTES[doubt])
        for note in notes:
            await self._hand_over(note, target, None, handover)
        await handover.arrived(str(await self._hand_over(noted, target, keyboard, handover)), last=last)

    async def _hand_over(
        self, part: Part, target: ChatTarget, keyboard: InlineKeyboardMarkup | None, handover: Handover
    ) -> int:
        """Send one message when its turn comes; returns its id. Without its topic, the chat or General gets it."""
        await self._limiter.pace(target.chat)
        await handover.sending()
        try:
            return await self._hand_over_once(part, target, keyboard)
        except BadRequest as error:
            if target.thread is None or not refuses_topic(error):
                raise
            log.info("telegram: the chat gets a message for topic %d: %s", target.thread, error.message)
            *notes, part = with_note(part, closed_topic_note(target) if is_closed_topic(error) else "")
        # A reply would belong in the topic of the message that it answers.
        elsewhere = replace(target, thread=None, reply_to=None)
        for note in notes:
            await self._hand_over_once(note, elsewhere, None)
        return await self._hand_over_once(part, elsewhere, keyboard)

    async def _hand_over_once(self, part: Part, target: ChatTarget, keyboard: InlineKeyboardMarkup | None) -> int:
        try:
            if isinstance(part, OutgoingFile):
                return await upload(self._bot, part, target, keyboard)
            return await send_text(self._bot, target, part, keyboard)
        except BadRequest as error:
            if target.thread is None and is_closed_topic(error):
                raise self._blocked.report_closed_topic(target.chat) from error
            if isinstance(part, OutgoingFile) or not part.spans or closes_chat(error) or refuses_topic(error):
                raise
            log.warning("telegram refused the formatting of a message; sending it without: %s", error.message)
            return await send_text(self._bot, target, RenderedMessage(part.text), keyboard)


def is_about_formatting(error: BadRequest) -> bool:
    """Whether Telegram took offence at the marks of a text rather than at the message."""
    return "entit" in error.message.lower() or "parse" in error.message.lower()


def _reaction_of(delivery: Delivery) -> str:
    """Return the reaction as Telegram writes it. Raises DeliveryError: it has no such reaction."""
    try:
        return reaction_of(delivery.emoji or "")
    except ValueError as error:
        raise DeliveryError(str(error), permanent=True) from None


def message_id_of(delivery: Delivery) -> int:
    """Return the id of the message that a reaction, an edit or a removal refers to.

    Raises:
        DeliveryError: it is missing.
    """
    try:
        return int(delivery.message_id or "")
    except ValueError:
        raise DeliveryError(f"{delivery.action} needs the numeric id of a message", permanent=True) from None


BUTTONS_PER_ROW = 2
MAX_BUTTON_DATA = 64
"""Maximum bytes of a button's data (Bot API, InlineKeyboardButton.callback_data)."""
MAX_BUTTON_LABEL = 60
"""Characters that still fit on half a telephone's width in two lines."""


def keyboard_of(choices: Sequence[Choice]) -> InlineKeyboardMarkup | None:
    """Return the keyboard below a message; None for no choices, which also removes one in an edit.

    A button carries `q:<question id>:<index>`, the index of its answer among the question's options.
    """
    buttons = []
    for index, choice in enumerate(choices):
        data = f"q:{choice.question}:{index if choice.place is None else choice.place}"
        if len(data.encode()) > MAX_BUTTON_DATA or not choice.label.strip():
            log.warning("a choice cannot be a button: %d bytes, %d at most", len(data.encode()), MAX_BUTTON_DATA)
            continue
        buttons.append(InlineKeyboardButton(button_label(choice.label), callback_data=data))
    rows = [buttons[first : first + BUTTONS_PER_ROW] for first in range(0, len(buttons), BUTTONS_PER_ROW)]
    return InlineKeyboardMarkup(rows) if rows else None


def button_label(label: str) -> str:
    """Return a label in one line."""
    line = " ".join(label.split())
    return line if len(line) <= MAX_BUTTON_LABEL else f"{line[: MAX_BUTTON_LABEL - 1]}…"
