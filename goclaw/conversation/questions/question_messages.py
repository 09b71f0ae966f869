"""Questions in chats: their wording and buttons, their delivery, and the parsing of answers.

A message loses its buttons once the question is decided. The question goes to the chat of its turn. If the person there
may not answer it, it goes to everyone who may and has a private chat; the first answer wins, and the messages of the
others say who gave it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import field, replace

import orjson

from goclaw.common.auth.users import Users
from goclaw.common.core.events import (
    ALLOW,
    ALWAYS,
    DENY,
    DETAILS,
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    AnswerRefusal,
    Choice,
    Delivery,
    Question,
)
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_order, printable, reveal
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.blobs import Blobs
from goclaw.tools.approval.requests import ApprovalRequest
from goclaw.tools.approval.sentences import fenced
from goclaw.tools.approval.sentences import in_words as arguments_in_words

NOBODY = "Only an admin can answer this, and I can reach none: somebody has to answer in a terminal."
OTHERS = "You cannot answer this yourself. I asked {names}."
SHOWN_INPUT = 3_000
"""Maximum characters of a call in a chat; of a longer text the beginning and the end are shown."""
MAX_SHOWN = 100_000
"""Maximum characters of a call's arguments in a terminal: more is not read."""
_NUMBER = re.compile(r"\(?([0-9]{1,3})[.)]?")
"""The form of an option's number; Python refuses to read a number of thousands of digits."""
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*\\n(?!\")")
"""The end of a line within a JSON string. It stays to be seen, so that no text passes for another argument."""
MAX_BUTTONS = 6
WHOLE_ON_A_BUTTON = 60
"""Characters of an option that a button shows whole."""
OVER = "This question is closed"
OPEN_FIRST = 'This is too long to show here. Press "Details" to see all of it; then you can allow it.'
NOW_OPEN = "This is all of it. Read it, then answer again."
"""The reply to a yes to a call of which the chat had shown parts only."""
ELSEWHERE = "Answer where the question stands."
"""The reply to a yes from a chat that shows nothing of the call, and where others may read."""
STARTING = "One moment: I have just started. Answer again, please."
KEPT_TEXT = 1_500
"""Characters of a question that stay in its message after the decision."""
MAX_ALWAYS = 50
"""Characters of a button for ALWAYS that says what for."""
_LABELS = {ALLOW: "Allow once", ALWAYS: "Always", DENY: "Deny"}
_DECISIONS = {ALLOW: "Allowed", ALWAYS: "Always allowed", DENY: "Denied"}


@record
class _Told:
    """A question that stands in chats."""

    question: Question
    text: str
    deliveries: tuple[Delivery, ...]
    whole: str = ""
    """Blob key of the whole call, if the text leaves some of it out."""
    opened: set[tuple[str, str]] = field(default_factory=set)
    """The chats that show the whole call, by channel and number."""

    @property
    def opened_text(self) -> str:
        """The text of a message after "Details"."""
        return in_words(self.question, f"{self.text}\n\n{self.question.details}", ids=True)


class QuestionMessages:
    """The messages of questions."""

    def __init__(
        self, outbox: Outbox, blobs: Blobs, users: Users, may_answer: Callable[[Actor, Question, str], bool]
    ) -> None:
        self._outbox = outbox
        self._blobs = blobs
        self._users = users
        self._may_answer = may_answer
        self._told: dict[tuple[str, str], _Told] = {}
        """By turn and step."""

    def has_shown_all(self, turn: str, step: str, question: Question, actor: Actor, chat: Address | None) -> bool:
        """Whether the person has the whole call in view: clients show it, a chat first parts of a long one."""
        if actor.entry not in self._outbox.channels or not is_long(question):
            return True
        told = self._told.get((turn, step))
        return told is not None and chat is not None and _place(chat) in told.opened

    async def store(self, whole: str) -> str:
        """Store the text of a whole call; return its blob key, empty for none."""
        return await self._blobs.put(whole.encode(), "text/plain") if whole else ""

    async def ask(self, turn: Turn, step: str, question: Question, text: str, media: str) -> None:
        """Put a question into the chats where it belongs; `media`: see `store`. The same one again does nothing."""
        deliveries = self._messages(turn, step, question, text, is_whole=not media)
        self._told[turn.id, step] = _Told(question, text, tuple(deliveries), media)
        for delivery in deliveries:
            await self._outbox.promise(delivery)

    async def show_details(self, turn: str, step: str) -> bool:
        """Show in every message of a question the text of "Details". False: its turn has not got to it again."""
        told = self._told.get((turn, step))
        if told is None:
            return False
        for asked in told.deliveries:
            if not asked.choices:
                continue
            await self._send_whole(told, asked)
            opened = Delivery(f"{asked.id}:details", asked.address, told.opened_text, action="edit", of=asked.id)
            choices = tuple(choice for choice in buttons(told.question) if choice.answer != DETAILS)
            await self._outbox.promise(replace(opened, session=asked.session, choices=choices))
            told.opened.add(_place(asked.address))
        return True

    async def show_all(self, turn: str, step: str, actor: Actor, chat: Address | None) -> Acceptance:
        """Show the whole call to a person who said yes in a chat that does not show it; return the reply.

        A chat without the question gets it only if it is the person's private one: in others people may read along.
        """
        told = self._told.get((turn, step))
        if told is None:
            return answered(STARTING, AnswerRefusal.INVALID)
        if chat is not None and any(
            asked.choices and _place(asked.address) == _place(chat) for asked in told.deliveries
        ):
            await self.show_details(turn, step)
        elif chat is not None and ":".join(_place(chat)) == actor.key:
            asked = Delivery(f"{turn}:{step}:for:{actor.key}", chat, told.opened_text, asks=True)
            self._told[turn, step] = replace(told, deliveries=(*told.deliveries, asked))
            await self._outbox.promise(asked)
            await self._send_whole(told, asked)
            told.opened.add(_place(chat))
        else:
            return answered(ELSEWHERE, AnswerRefusal.INVALID)
        return answered(NOW_OPEN, AnswerRefusal.INVALID)

    async def _send_whole(self, told: _Told, asked: Delivery) -> None:
        if told.whole:
            name, caption = f"{told.question.about or 'question'}.txt", "All of it; the question is above."
            document = Delivery(f"{asked.id}:whole", asked.address, caption, media=told.whole, media_name=name)
            await self._outbox.promise(replace(document, asks=True))

    async def show_decision(self, turn: Turn, step: str, question: Question, text: str, answer: str, by: str) -> None:
        """Edit every message of a question to show its outcome."""
        told = self._told.pop((turn.id, step), None)
        # After a crash right behind the answer no one is asked again, but the messages are still there.
        deliveries = told.deliveries if told else self._messages(turn, step, question, text)
        yes = bool(by) and (answer in (ALLOW, ALWAYS) if question.kind == "approval" else bool(answer))
        words = decision(question, answer, name_of(self._users, by) if by else "")
        await self._close(question, text, deliveries, words, yes=yes)

    async def withdraw(self, turn: str) -> None:
        """Close the messages of a turn's unanswered questions when the turn ends."""
        for key in [key for key in self._told if key[0] == turn]:
            told = self._told.pop(key)
            await self._close(told.question, told.text, told.deliveries, OVER, yes=False)

    async def _close(
        self, question: Question, text: str, deliveries: Collection[Delivery], words: str, *, yes: bool
    ) -> None:
        said = decided_words(question, text, words, yes=yes)
        for asked in deliveries:
            await self._outbox.promise(
                Delivery(f"{asked.id}:closed", asked.address, said, action="edit", of=asked.id, session=asked.session)
            )

    def _messages(
        self, turn: Turn, step: str, question: Question, text: str, *, is_whole: bool = True
    ) -> list[Delivery]:
        """Return the message to the chat of the turn, and those to the other people who may answer.

        `is_whole`: the text shows the whole call; if not, Allow appears once the details were opened.
        """
        inbound, actor = turn.inbound, turn.inbound.actor
        name, session = f"{turn.id}:{step}", inbound.session
        others: list[tuple[str, Address]] = []
        is_theirs = self._may_answer(actor, question, session)
        choices = tuple(each for each in buttons(question) if is_whole or each.answer in (DENY, DETAILS))
        note = "" if is_whole else f"\n\n{OPEN_FIRST}"
        if question.kind == "approval" and not is_theirs:
            others = [
                (key, address)
                for key, address in private_chats(self._users, self._outbox)
                if self._may_answer(Actor(key, address.channel), question, session)
            ]
        names = ", ".join(name_of(self._users, key) for key, _ in others)
        asked = "" if is_theirs or question.kind == "question" else OTHERS.format(names=names) if others else NOBODY
        here = Delivery(
            name, inbound.address, in_words(question, f"{text}{note}", asked=asked), session=session, asks=True,
            choices=() if asked else choices,
        )  # fmt: skip
        there = f"For {name_of(self._users, actor.key)} ({actor.key}):\n\n{in_words(question, f'{text}{note}')}"
        found = [here] if inbound.address.channel != LOCAL else []
        return found + [
            Delivery(f"{name}:to:{key}", address, there, session=session, choices=choices, asks=True)
            for key, address in others
        ]


def _place(address: Address) -> tuple[str, str]:
    return address.channel, address.chat


def private_chats(users: Users, outbox: Outbox) -> list[tuple[str, Address]]:
    """Return all listed people with their private chats: with a bot it has the person's own number."""
    found = [(user.key, *user.key.partition(":")[::2]) for user in users.all()]
    return [(key, Address(channel, chat)) for key, channel, chat in found if channel in outbox.channels and chat]


def name_of(users: Users, key: str) -> str:
    """Return a person's name for people."""
    user = users.get(key)
    return (user.name if user else "") or key


def answered(text: str, refusal: AnswerRefusal | None = None) -> Acceptance:
    """Return the reply to an answer: the words for the person, and why the answer does not count."""
    return Acceptance(AcceptKind.ANSWER, text=text, refusal=refusal)


NO_QUESTION = answered("This question does not exist, or is already closed.", AnswerRefusal.GONE)
"""The reply to an answer to a question that has expired or that the person may not answer."""


def parse_choice(question: Question, text: str, channel: str = LOCAL) -> str | Acceptance:
    """Return the answer that was meant by a message from `channel`: an option by its number or text, or free words.

    An `Acceptance` says why the message is no answer, and what helps.

    A number means the option that it labels on that screen, and nothing where no number stands.
    """
    said = text.strip()
    if said in question.options:
        return said
    named = {option for option in question.options if option.strip().casefold() == said.casefold()}
    found = _NUMBER.fullmatch(said)
    place = int(found[1]) if found and int(found[1]) <= len(question.options) else 0
    if place and _has_numbers(question, channel):
        return question.options[place - 1]
    counted = place and not any(option.strip().isdecimal() for option in question.options)
    if len(named) > 1 or (counted and not named):
        pressed = "press a button, or " if channel != LOCAL and buttons(question) else ""
        how = f'Please {pressed}answer in words, for example "{question.options[0]}".'
        return answered(f'"{said}" is ambiguous here. {how}', AnswerRefusal.INVALID)
    if named:
        return named.pop()
    if said and (question.free_text or not question.options):
        return said
    return answered(f"Please answer with one of: {', '.join(question.options)}.", AnswerRefusal.INVALID)


def _has_numbers(question: Question, channel: str) -> bool:
    """Whether the options stand there with numbers: buttons need none, and terminals have no buttons."""
    return question.is_numbered and (channel == LOCAL or not buttons(question))


def asking_text(wanted: ApprovalRequest, most: int = MAX_SHOWN) -> str:
    """Return the text of an approval: why it is asked, what follows, and what does not stand in the heading."""
    label = _remembered(wanted)
    for_good = f"Always: no more questions for {label}" if label and not _fits_a_button(wanted, label) else ""
    first, rest = wanted.grounds.lines, arguments_in_words(wanted.rest)
    return "\n\n".join(part for part in (*first, _parts_of(rest, most), for_good) if part)


def heading(wanted: ApprovalRequest, person: str, recipient: str = "", agent: str = "") -> str:
    """Return who wants what: the agent of a person (empty: of who runs this), or one that works for that agent."""
    kind, _, task = agent.partition(": ")
    agent = f" {kind} ({task})" if task else f" {agent}" if agent else ""
    whose = f"{person}'s agent{agent}" if person else f"The agent{agent}"
    key = wanted.grounds.recipient
    phrase = wanted.phrase.replace(f"`{key.partition(':')[2]}`", recipient) if recipient else wanted.phrase
    return f"{whose} wants to {phrase}"


def always_label(wanted: ApprovalRequest) -> str:
    """Return the words of the button that allows calls for good; empty: no button."""
    label = _remembered(wanted)
    return f"Always for {label}" if _fits_a_button(wanted, label) else "Always" if label else ""


def detailed(wanted: ApprovalRequest) -> str:
    """Return what contains a call, and the call as the model wrote it, as far as there is room in a chat."""
    shown = "" if len(asking_text(wanted)) > SHOWN_INPUT else shown_call(wanted.call)
    return "\n\n".join(part for part in (wanted.details, shown) if part)


def is_long(question: Question) -> bool:
    """Whether a chat shows only parts of the call that an approval is about."""
    return question.kind == "approval" and len(question.text) > SHOWN_INPUT


def _remembered(wanted: ApprovalRequest) -> str:
    return "; ".join(reveal(mask_order(label)) for label in wanted.grounds.labels)


def _fits_a_button(wanted: ApprovalRequest, label: str) -> bool:
    return len(wanted.grounds.labels) == 1 and len(label) + len("Always for ") <= MAX_ALWAYS and label.isprintable()


def in_words(question: Question, text: str, *, asked: str = "", ids: bool = False) -> str:
    """Return a question for a chat.

    Args:
        question: the question.
        text: its text there.
        asked: it is not for the person there to answer, and this says for whom it is.
        ids: whether an approval says how it is answered by its id, because there are no buttons.
    """
    lines = [f"**{question.title}**", text]
    if asked:
        lines.append(asked)
    elif question.kind == "approval":
        lines += [ways_in_words(question)] if ids else []
    elif question.options:
        lines += _options_in_words(question)
    return "\n\n".join(line for line in lines if line)


def ways_in_words(question: Question) -> str:
    """Return how an approval is answered by its id, in commands."""
    minutes = ((question.expires_at or 0) - question.asked_at) / 60
    more = f" or /approve {question.id} always" if ALWAYS in question.options else ""
    return f"/approve {question.id}{more} or /deny {question.id} (within {minutes:.0f} minutes)"


def _options_in_words(question: Question) -> list[str]:
    """Return the options and how to choose. Neither sign begins a list: Markdown would join and renumber it.

    Options that are whole on buttons are not said twice.
    """
    numbered = question.is_numbered and not buttons(question)
    options = [" ".join(option.split()) for option in question.options]
    shown = [f"({number}) {option}" if numbered else f"• {option}" for number, option in enumerate(options, 1)]
    if buttons(question):
        how = f"Press a button{' or answer in your own words' if question.free_text else ''}."
        return [how] if all(len(option) <= WHOLE_ON_A_BUTTON for option in options) else ["\n".join(shown), how]
    words = " or in your own words" if question.free_text else ""
    return ["\n".join(shown), f"Answer with {'a number' if numbered else 'one of these'}{words}."]


def buttons(question: Question) -> tuple[Choice, ...]:
    """Return a button for each option, in the order of the options; none for more than `MAX_BUTTONS`."""
    if len(question.options) > MAX_BUTTONS:
        return ()
    if question.kind != "approval":
        return tuple(Choice(option, question.id, option) for option in question.options)
    labels = {**_LABELS, ALWAYS: question.always or _LABELS[ALWAYS]}
    options = question.options if not question.details else (*question.options, DETAILS)
    return tuple(
        Choice(labels.get(option, "Details"), question.id, option, place) for place, option in enumerate(options)
    )


def decision(question: Question, answer: str, by: str) -> str:
    """Describe the outcome of a question briefly. `by`: the name of the person who answered; empty: unanswered."""
    if not by:
        return "Nobody answered in time" if question.expires_at is not None else OVER
    if question.kind == "approval":
        return f"{_DECISIONS.get(answer, 'Denied')} by {by}"
    return f"{by}: {answer}" if answer else f"Skipped by {by}"


def decided_words(question: Question, text: str, decided: str, *, yes: bool) -> str:
    """Return the message of a question after its decision: in one part, so that no second one has to follow."""
    kept = f"\n\n{text}" if text and len(text) <= KEPT_TEXT else ""
    if question.kind == "question":
        return f"**{question.title}**{kept}\n\n{'✓' if yes else '✗'} {printable(decided)[:KEPT_TEXT]}"
    return f"{'✓' if yes else '✗'} {printable(decided)[:KEPT_TEXT]}: **{question.title}**{kept}"


def whole_call(call: ToolCall) -> str:
    """Return a call's arguments, secrets masked, and everything that would not be seen as its code."""
    return reveal(mask_order(orjson.dumps(call.input, option=orjson.OPT_INDENT_2).decode()))


def shown_call(call: ToolCall, most: int = SHOWN_INPUT) -> str:
    """Return the same as a block of code, a script line by line, of at most so many characters."""
    return _parts_of(_in_lines(call), most, "json")


def _parts_of(text: str, most: int, language: str = "") -> str:
    """Return a text, a block of code if it has a language or is cut, of at most so many characters."""
    left = len(text) - most
    if left <= 0:
        return fenced(text, language) if language else text
    # The end as well: what matters is easily pushed out of sight behind what does not.
    beginning, end = text[: most // 2], text[-(most // 2) :]
    missing = (
        f"**{left:,} characters between these two parts are not shown. Deny the call unless you know what they say.**"
    )
    return "\n\n".join((fenced(beginning, language), missing, fenced(end, language)))


def _in_lines(call: ToolCall) -> str:
    return _LINE_END.sub(r"\g<0>\n", whole_call(call))
