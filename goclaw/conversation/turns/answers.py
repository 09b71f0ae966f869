"""A model's answers on their way to people: interim texts, masked pieces, and a line where one was cut.

An interim text, said before tool calls, is a chat message of its own. Its delivery is committed in the transaction of
the step, so that a crash neither loses nor doubles it. A text is held and put before the next one, the last answer
included, where the channel wants one message a turn (`telegram.interim`) or the chat had `MAX_A_MINUTE` of them in a
minute: a model that comments on each of fifty calls must not flood a chat, nor use up what Telegram lets a bot say in a
group (20 messages a minute). A text before a question or a sent file is never held: the person reads it first.

A turn for which no person waits (schedules, heartbeat, webhooks: `UnattendedTurns`) says at its end what it has to say,
with the calls that were refused because no person could be asked. An answer of `HEARTBEAT_OK` is not delivered. A
terminal reads transcripts, so the result of a turn in a session of its own is said in the session that it was made in.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from goclaw.channels.base import Channel
from goclaw.common.auth.access import Access
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, NOTHING_TO_SAY, Delivery, Inbound, Outcome, root_session
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import Masking, storable
from goclaw.conversation.schedules.scheduler import Scheduler
from goclaw.durable.engine.base import Engine, Turn
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement
from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import Emptiness, Finished, ModelEvent, Restarted, Stop, TextDelta, ThinkingDelta
from goclaw.tools.approval.requests import describe_refusals

log = logging.getLogger(__name__)

MAX_A_MINUTE = 6
SECONDS = 60.0
"""At most `MAX_A_MINUTE` such messages to a chat in any `SECONDS`."""
REPEATED = "[I ended the answer here because the model repeated itself.]"
READ_BEFORE = frozenset({"ask_user", "exit_plan_mode", "message"})
"""Tools that show a question, a text or a file to the person."""
SAID = ":said"
"""Suffix of the id of the text that says a turn's result in another session."""


class InterimTexts:
    """The interim texts of all turns that people in chats wait for; terminals have them from the bus."""

    def __init__(self, channels: Mapping[str, Channel], outbox: Outbox, clock: Clock) -> None:
        self._channels = channels
        self._outbox = outbox
        self._clock = clock
        self._sent: dict[tuple[str, str], deque[float]] = {}
        """When interim texts went to a chat, monotonic seconds, at most `MAX_A_MINUTE` times each."""
        self._waiting: defaultdict[str, dict[int, str]] = defaultdict(dict)
        """By turn: texts that stand before the next one, by the number of their answer."""

    def defers(self, inbound: Inbound, calls: Sequence[ToolCall]) -> bool:
        """Return whether a text next to `calls` must wait for the next one of its turn; if not, it counts."""
        address = inbound.address
        if address.channel == LOCAL:
            return False
        never_waits = any(call.name in READ_BEFORE for call in calls)
        channel = self._channels.get(address.channel)
        if channel is not None and not channel.capabilities.interim:
            return not never_waits
        now = self._clock.monotonic()
        self._sent = {chat: times for chat, times in self._sent.items() if times[-1] > now - SECONDS}
        times = self._sent.setdefault((address.channel, address.chat), deque(maxlen=MAX_A_MINUTE))
        if len(times) == MAX_A_MINUTE and times[0] > now - SECONDS and not never_waits:
            return True
        times.append(now)
        return False

    def delivery(self, turn: Turn, number: int, text: str) -> Delivery | None:
        """Return the delivery of the turn's `number`-th answer text, after the waiting ones; None: for a terminal."""
        inbound = turn.inbound
        if inbound.address.channel == LOCAL:
            return None
        text = _join([*self._texts(turn.id), text])
        name = f"{turn.id}:said:{number}"
        return Delivery(name, inbound.address, text, turn=turn.id, session=inbound.session, interim=True)

    def row(self, delivery: Delivery) -> BoundStatement:
        """Return the INSERT that promises a delivery, for the transaction of its step."""
        return self._outbox.row(delivery)

    def send(self, delivery: Delivery) -> None:
        """Send the delivery committed with `row`; nothing of its turn waits any more."""
        self._waiting.pop(delivery.turn, None)
        self._outbox.enqueue([delivery])

    def record(self, turn: str, number: int, text: str, *, waits: bool) -> None:
        """Note the text of an answer that was recorded without a delivery, or read back."""
        if waits:
            self._waiting[turn][number] = text
        else:
            self._waiting.pop(turn, None)

    def rest(self, turn: str) -> str:
        """Return what waits at the end of a turn, and forget it."""
        text = _join(self._texts(turn))
        self._waiting.pop(turn, None)
        return text

    def _texts(self, turn: str) -> list[str]:
        return [text for _, text in sorted(self._waiting.get(turn, {}).items())]


class SpokenTexts:
    """The texts of one turn so far: those before tool calls, and the latest answer in its parts.

    `interim` delivers those before tool calls; None: no chat waits for them.
    """

    def __init__(self, turn: Turn, interim: InterimTexts | None) -> None:
        self.said: list[str] = []
        """Texts before tool calls, which are no part of the last answer."""
        self.begun = ""
        """The beginning of an answer; the rest was requested."""
        self._turn = turn
        self._interim = interim
        self._latest = ""
        self._notices: Sequence[str] = ()

    def promise(self, number: int, message: AssistantMessage) -> list[BoundStatement]:
        """Return the INSERT that promises the delivery of an interim text, for the transaction of its step."""
        delivery = self._delivery(number, message)
        return [self._interim.row(delivery)] if delivery and self._interim else []

    def record(self, number: int, message: AssistantMessage, notices: Sequence[str], *, replayed: bool) -> None:
        """Note an answer that is recorded, and have it delivered where that was promised with the record.

        Args:
            number: of the answer in its turn.
            message: the answer.
            notices: the notices below it for people.
            replayed: it was read back after a crash.
        """
        self._latest, self._notices = message.text, notices
        if not message.is_interim:
            if message.calls and self.begun:
                self.begun = f"{self.begun.rstrip()}\n\n"  # what comes behind the calls does not go on with it
            return
        text = self.begun + message.text
        if self._interim:
            promised = None if replayed else self._delivery(number, message)
            if promised:
                self._interim.send(promised)
            else:
                self._interim.record(self._turn.id, number, text, waits=message.deferred)
        self.said.append(text.strip())
        self.begun = ""

    def start_rest(self) -> None:
        """Note that the rest of the latest answer is requested."""
        self.begun = self.answered

    @property
    def answered(self) -> str:
        """The text of the latest answer, with the earlier parts of one that was continued, and the notices below."""
        written = self.begun + self._latest if self._latest else self.begun.rstrip()
        return "\n\n".join(filter(None, (written, *self._notices)))

    def _delivery(self, number: int, message: AssistantMessage) -> Delivery | None:
        """Return the delivery of an interim text; None where it is held for later, or empty."""
        if self._interim is None or message.deferred or not message.is_interim:
            return None
        return self._interim.delivery(self._turn, number, self.begun + message.text)


def _join(texts: list[str]) -> str:
    return "\n\n".join(text.strip() for text in texts)


def mask(event: ModelEvent, said: Masking, thought: Masking) -> ModelEvent:
    """Return the event without a secret, whichever pieces it comes in.

    Args:
        event: a piece of a stream.
        said, thought: the parts of the text and of the thinking held back so far.
    """
    match event:
        case TextDelta(text):
            return TextDelta(said.next(storable(text)))
        case ThinkingDelta(text):
            return ThinkingDelta(thought.next(storable(text)))
        case Restarted():
            said.rest()
            thought.rest()
            return event
        case _:
            return event


def log_answer(done: Finished, seconds: float) -> None:
    """Log which model answered, how long it took and its counts; nothing of its words.

    The last answer of a turn has no line of its own: its figures stand in that of the turn's end.
    """
    figures = figures_of(done, seconds)
    log.info("model %s answered in %s s", figures.pop("model"), figures.pop("model_seconds"), extra=figures)


def figures_of(done: Finished, seconds: float) -> dict[str, object]:
    """Return the log's data on an answer, by field."""
    usage = done.usage
    return {
        "model": done.spec,
        "model_seconds": round(seconds, 1),
        "tokens_in": usage.input,
        "tokens_out": usage.output,
    }


CUT = frozenset({Stop.LENGTH, Stop.WINDOW, Stop.FILTERED, Stop.REPETITION})
EMPTY_SENTENCES = {
    Emptiness.REFUSED: "(The model refused to answer.)",
    Emptiness.FILTERED: "(The provider's filter blocked the answer. Try other words or another model.)",
    Emptiness.MALFORMED: "(The model tried to call a tool, but the call is unreadable. Try again.)",
    Emptiness.THOUGHT: "(The model only thought and gave no answer. Try again, or ask for less thinking.)",
    Emptiness.LOADING: "(The model was still loading. Try again.)",
    Emptiness.WINDOW: "(The conversation fills the model's window. /compact or /new makes room.)",
    Emptiness.EMPTY: "(The model gave an empty answer.)",
}
"""The text that people read in place of an answer without text."""


def empty_sentence(empty: Emptiness | None) -> str:
    """Return the sentence in place of an empty answer."""
    return EMPTY_SENTENCES[empty or Emptiness.EMPTY]


def is_cut(done: Finished) -> bool:
    """Return whether the text is cut; complete calls next to it are run, and the model goes on itself."""
    cut = done.stop in CUT and not done.message.calls and not is_asked_again(done)
    return cut and (done.empty is None or may_continue(done))


def may_continue(done: Finished) -> bool:
    """Return whether the rest of a cut answer can be requested: another request has an output limit of its own."""
    return done.stop is Stop.LENGTH and not done.message.calls and not is_asked_again(done)


def is_asked_again(done: Finished) -> bool:
    """Return whether the model is asked once more, because a call in its text could not be read."""
    return done.unread is not None and done.unread.again and not done.message.calls


def is_last(done: Finished) -> bool:
    """Return whether the turn ends with an answer, as far as the answer itself tells."""
    return not done.message.calls and not is_cut(done) and not is_asked_again(done)


def cut_line(done: Finished) -> str:
    """Return the notice at the end of an answer that was cut, for the person."""
    if done.stop is Stop.REPETITION:
        return REPEATED
    if done.stop is Stop.FILTERED:
        return "[The answer ends here: the provider's filter blocked the rest.]"
    if done.stop is Stop.WINDOW:
        return "[The answer ends here: the model's window is full. /compact makes room.]"
    return (
        '[The answer ends here: it reached the model\'s output limit or filled its window. Say "go on" for the rest.]'
    )


BAD_REQUEST = 400
"""The HTTP status of requests that are wrong for any reason."""
UNKNOWN_SHARE = 4
"""A request for an unknown reason refused may have been too long from this part of the window on."""


def may_be_too_long(error: ModelError, tokens: int, context_window: int) -> bool:
    """Whether to make room and ask once more.

    Args:
        error: why the request failed.
        tokens: of its prompt.
        context_window: of the model, as far as it is known.
    """
    if error.kind is ModelErrorKind.OVERFLOW:
        return True
    unknown = error.kind is ModelErrorKind.REJECTED and error.status == BAD_REQUEST
    return unknown and UNKNOWN_SHARE * tokens > context_window


def is_for_another(inbound: Inbound) -> bool:
    """Whether the result of a turn goes to another person than the one for whom it is done."""
    return inbound.unattended is not None and inbound.unattended.signed


def is_among_others(inbound: Inbound, access: Access) -> bool:
    """Whether others read the answer: it goes to a group, or, unasked, to a chat or session not the person's own."""
    address = inbound.address
    chat = root_session(inbound.session) if address.channel == LOCAL else f"{address.channel}:{address.chat}"
    if address.reply_to is not None or access.is_group(chat) or access.is_group(inbound.session):
        return True
    if inbound.unattended is None or inbound.unattended.awaited:
        return False  # whoever asked gets it: the person in this chat, or a program with their token
    return chat not in (inbound.actor.key, access.session_for(inbound.actor, inbound.actor.key))


def is_apart(inbound: Inbound) -> bool:
    """Whether a turn has a session of its own that no person reads, and its result is said in theirs."""
    awaited = inbound.unattended is None or inbound.unattended.awaited
    return not awaited and root_session(inbound.session) != inbound.session


@record
class UnattendedTurns:
    """Ends unattended turns."""

    scheduler: Scheduler
    engine: Engine

    async def filter(self, inbound: Inbound, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return what of a turn's deliveries goes now; the rest comes after the person's quiet hours."""
        if deliveries and is_for_another(inbound):
            return await self.scheduler.others.filter(inbound, deliveries)
        return await self.scheduler.quiet.filter(inbound, deliveries)

    async def told(self, inbound: Inbound, outcome: Outcome, text: str, refused: Sequence[str], cost: float) -> str:
        """Return the message to the person about a turn that ended; empty: none, or it is said in another session."""
        if inbound.unattended and inbound.unattended.awaited:
            return "\n\n".join(filter(None, (text, describe_refusals(refused))))
        besides = await self.scheduler.on_turn_end(inbound, outcome, text, cost or None)
        if besides is None:
            return ""
        said = "" if outcome.went_well and text.strip() == NOTHING_TO_SAY else text
        words = "\n\n".join(filter(None, (said, describe_refusals(refused), besides)))
        home = root_session(inbound.session)
        if words and inbound.address.channel == LOCAL and home != inbound.session:
            said_there = replace(inbound, id=f"{inbound.id}{SAID}", session=home, text=words, foreign=())
            await self.engine.submit(said_there, "say")
            return ""
        return words
