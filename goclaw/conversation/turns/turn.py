"""The steps of one turn: each is journaled, stored, shown to clients, and added to the window.

A step that the journal has already is read back; its rows are in the store and so in the window, which is
reloaded after a crash.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound, MessageStored, Notice, StreamRestarted, TextStreamed, ThinkingStreamed
from goclaw.common.core.messages import Artifact, AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.core.redact import Masking, mask_known, storable
from goclaw.conversation.agent.context.model_messages import sound
from goclaw.conversation.agent.context.window import context_entry
from goclaw.conversation.sessions.modes import Withdrawal, Withdrawn
from goclaw.conversation.turns.agent_services import AgentServices, Opening
from goclaw.conversation.turns.answer_text import AnswerText
from goclaw.conversation.turns.answers import (
    SpokenTexts,
    cut_line,
    figures_of,
    is_asked_again,
    is_cut,
    is_last,
    log_answer,
    mask,
    may_be_too_long,
    may_continue,
)
from goclaw.conversation.turns.named_files import LINK
from goclaw.conversation.turns.shown_links import ShownLinks
from goclaw.conversation.turns.user_message import (
    USER,
    USER_STEP,
    earlier_messages,
    earlier_rows,
    pieces_of,
    speaker_of,
    user_rows,
)
from goclaw.conversation.turns.written_calls import note_for_model
from goclaw.durable.engine.base import Step
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.transcripts import Origin, StoredMessage, joining, rows_of
from goclaw.errors import MessageDenied, ModelError, ModelErrorKind
from goclaw.llm.base import Emptiness, Finished, ModelEvent, ModelLoading, Request, Restarted, TextDelta, ThinkingDelta
from goclaw.llm.text_calls import UnreadCall
from goclaw.tools.toolkit.dispatcher import error_text, outcome_unknown
from goclaw.tools.toolkit.scheduling import Slot, slots
from goclaw.tools.toolkit.scope import CallOptions

log = logging.getLogger(__name__)

MessageT = TypeVar("MessageT", bound=Message)

_FINISHED: Codec[Finished] = Codec(Finished)
_NOTE: Codec[AssistantMessage] = Codec(AssistantMessage)
_RESULT: Codec[ToolResult] = Codec(ToolResult)

SETTLE_STEP = "settle"
"""The last words of a turn that ended otherwise than the model chose."""
STOPPED_HERE = "[stopped here]"
"""Appended to an answer that a /stop, a limit or a failure cut."""
GO_ON = "[Your answer was cut by the output limit. Go on exactly where it stopped, without repeating anything.]"
STOPPED = "Stopped."
LOADING = "The model is loading."


class TurnRun:
    """Implements `agent.loop.TurnSteps` for one turn."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._turn = turn = services.agent_run.turn
        self._window = services.agent_run.session.window
        self._session = turn.inbound.session
        self._heard = False
        self.withheld = False
        """A hook keeps the agent's answer from the person."""
        self._partial: list[str] = []
        """The pieces of an unrecorded answer that the person was shown."""
        self.cut = False
        """The last answer was cut."""
        self.empty: Emptiness | None = None
        """Why the last answer is empty."""
        self._unread: UnreadCall | None = None
        """A call in the text of the last answer for which the model is asked again."""
        self._asked_again = False
        self.spoken = SpokenTexts(turn, self._services.interim)
        self._may_continue = False
        """The rest of the last answer may be requested."""
        self._continued = 0
        """Number of requests for the rest of an answer."""
        self._joined: list[Inbound] = []
        """Messages that came while the turn ran and joined it, oldest first."""
        self._denied: set[str] = set()
        """Messages that a hook did not let into this turn: they get an answer of their own, in their turn."""
        self.answers = 0
        """The number of answers."""
        self._asked: dict[str, ToolCall] = {}
        """Calls of the latest answer without a result yet, by step name."""
        self._slots: dict[str, Slot] = {}
        """The places of the calls of one answer among each other, by step name."""
        self._compress = False
        """Of the model that gave the latest answer: whether it gets what commands say compressed."""
        self._reminding: list[str] = []
        """Tools of the latest answer whose results have a reminder; journaled ones too, after a crash."""

    async def add_user_message(self) -> None:
        """Put the user's message into the transcript, with what came with it."""
        await self._store_user_message(self._user_message)

    async def _store_user_message(self, message: Callable[[Inbound], Awaitable[UserMessage]]) -> None:
        inbound = self._turn.inbound
        # The conversation that a program sent with its message; where hooks judge messages it is a part of this one.
        judged = self._services.hooks.judges_messages
        earlier = [] if judged else earlier_messages(inbound, self._services.now())

        def on_store(step: Step[UserMessage]) -> None:
            self._heard = True
            if not step.replayed:
                for row, each in zip(step.rows, earlier, strict=False):
                    self._window.append(
                        context_entry(StoredMessage(row, each.turn, each.message, each.at, each.sender))
                    )
            self._add(step, step.value, inbound, behind=len(earlier))

        await self._turn.step(
            USER_STEP,
            lambda: message(inbound),
            USER,
            rows=lambda message: [*earlier_rows(earlier, self._session), *self._user_rows(USER_STEP, message, inbound)],
            kept=on_store,
        )

    async def _join(self, inbound: Inbound) -> bool:
        """Take a message in that came while the turn ran; False: a hook does not let it in."""
        name = joining(inbound.id)
        if inbound.id in self._denied:
            return False
        try:
            await self._turn.join(
                name,
                inbound,
                self._user_message,
                USER,
                rows=lambda message: self._user_rows(name, message, inbound),
                kept=lambda step: self._add(step, step.value, inbound, joined=inbound.id),
                at=self._services.now(),
            )
        except MessageDenied:
            self._denied.add(inbound.id)
            return False
        self._joined.append(inbound)
        log.info("a message joined the turn", extra={"joined": inbound.id})
        return True

    def _user_rows(self, step: str, message: UserMessage, inbound: Inbound) -> list[BoundStatement]:
        rows = user_rows(message, self._origin(step, inbound, message), self._services.transcripts)
        return [*rows, *self._services.carrying.remove()]

    async def answer(self, number: int) -> AssistantMessage:
        """Take in what joins the turn, make the context fit, then ask the model."""
        name, began = f"model:{number}", self._services.now()

        def rows(done: Finished) -> list[BoundStatement]:
            stored = self._rows(name, [done.message, *self._below(done)])
            return [*stored, *self._services.cost(name, done), *self.spoken.promise(number, done.message)]

        def on_store(step: Step[Finished]) -> None:
            if self.answers < number:
                self._note_answer(number, step)
                seconds = self._services.now() - began
                if step.held:
                    self._services.agent_run.session.turn.last_answer = figures_of(step.value, seconds)
                elif not step.replayed:
                    log_answer(step.value, seconds)
            if not step.held:
                self._add_all(step, [step.value.message, *self._below(step.value)])
                if not step.replayed:
                    self._services.record_usage(name, step.value)

        step = await self._turn.step(
            name, lambda: self._ask_with_hooks(number, name), _FINISHED, rows=rows, kept=on_store, hold=is_last
        )
        return step.value.message

    def _below(self, done: Finished) -> Sequence[AssistantMessage]:
        """Return the notice below an answer that was cut and is not continued."""
        goes_on = may_continue(done) and self._continued < self._services.continuations
        return [AssistantMessage(cut_line(done), notice=True)] if is_cut(done) and not goes_on else []

    def _note_answer(self, number: int, step: Step[Finished]) -> None:
        """Note the model's answer, as soon as it is recorded or held."""
        message = step.value.message
        self._partial.clear()
        self.answers = number
        below = [notice.text for notice in self._below(step.value)]
        self.spoken.record(number, message, below, replayed=step.replayed)
        self._asked = {f"tool:{number}:{call.id}": call for call in message.calls}
        if self._asked:
            self._compress = self._services.compresses(step.value.spec)
            self._slots = dict(zip(self._asked, slots(len(self._asked)), strict=True))
        self._reminding = []
        self._services.agent_run.session.turn.artifacts.extend(message.artifacts)
        self.withheld = message.withheld
        self.cut = is_cut(step.value)
        self.empty = step.value.empty
        self._may_continue = may_continue(step.value)
        self._unread = step.value.unread if is_asked_again(step.value) else None
        self._asked_again = self._asked_again or self._unread is not None

    async def use(self, number: int, call: ToolCall) -> ToolResult:
        """Run one tool call; one that must not run twice leaves an intent first, once it is agreed to."""
        name = f"tool:{number}:{call.id}"
        agent = self._services.agent_run.kind.name
        repeatable = self._services.dispatcher.is_idempotent(call, self._turn.inbound.actor, agent)
        slot = self._slots.get(name) or Slot()
        explains = self._services.agent_run.policy.explains
        options = CallOptions(name, slot, compress=self._compress, explains=explains)

        def on_store(step: Step[ToolResult]) -> None:
            self._add(step, step.value)
            self._asked.pop(name, None)
            if step.value.denied:
                self._services.agent_run.session.turn.refused.append(call.name)

        try:
            step = await self._turn.step(
                name,
                lambda: self._call(call, options),
                _RESULT,
                rows=lambda result: rows_of(result, self._origin(name)),
                kept=on_store,
                unknown=None if repeatable else lambda: outcome_unknown(call),
            )
        finally:
            slot.end()  # also of a call that was read back, or never ran
        if step.value.reminds:
            self._reminding.append(call.name)
        self._services.agent_run.session.turn.artifacts.extend(step.value.artifacts)
        return step.value

    async def request_rest(self, number: int) -> bool:
        """Ask for the rest of a cut answer, if that is wanted and not too often done, or for a call to be mended."""
        if self._unread:
            await self.add_instruction(f"unread:{number}", note_for_model(self._unread))
            return True
        if not self._may_continue or self._continued >= self._services.continuations:
            return False
        self._continued += 1
        self.spoken.start_rest()
        await self.add_instruction(f"continue:{number}", GO_ON)
        return True

    @property
    def answered(self) -> str:
        """The text of the latest answer; see `SpokenTexts.answered`."""
        return self.spoken.answered

    async def add_answer(self, inbound: Inbound) -> None:
        """Add a text as the agent's answer, without asking the model; foreign parts stay marked as such."""
        if inbound.foreign:
            await self._note("say", UserMessage(inbound.text, foreign=inbound.foreign), USER)
        else:
            files = await self._services.find_files(inbound.text)
            await self._note("say", AssistantMessage(inbound.text, artifacts=files), _NOTE)

    async def add_instruction(self, name: str, text: str) -> None:
        """Add an instruction for the model after its last answer, as the step `name`."""
        await self._note(name, UserMessage(text), USER)

    async def finish(self, reason: str, why: str = "") -> str:
        """Leave a valid transcript after an end that the model did not choose, with the text it had written by then.

        Args:
            reason: the error text of every call that got no result.
            why: why there is no whole answer, for people; empty: they stopped the turn.

        Returns: the text for the person: `why`, or the written text with the mark that it stopped there.
        """
        if not self._heard:
            await self._store_user_message(self._words)
        # The turn may have ended before all that is recorded was read back.
        while self._turn.has_record(f"model:{self.answers + 1}"):
            await self.answer(self.answers + 1)
        for name, call in list(self._asked.items()):
            result = ToolResult(call.id, call.name, error_text(reason), is_error=True)
            # Under the call's own name: a turn that is taken up again must find that the call has its result.
            await self._note(name, result, _RESULT)
        self._asked.clear()
        written = ShownLinks(self._services.must_show).whole("".join(self._partial).strip())
        instead = f"[{why or STOPPED}]"
        mark = f"{STOPPED_HERE}\n{why}" if why else STOPPED_HERE
        note = AssistantMessage(f"{written}\n\n{mark}" if written else instead, notice=True)
        parts = [AssistantMessage(written), AssistantMessage(mark, notice=True)] if written else [note]
        told = (await self._note(SETTLE_STEP, note, _NOTE, parts)).text  # an earlier run's counts, where it is recorded
        if begun := self.spoken.begun:
            return f"{begun.rstrip()}\n\n{mark}" if told == instead else begun + told
        return why if told == instead else told

    async def _note(
        self, name: str, message: MessageT, codec: Codec[MessageT], parts: Sequence[Message] = ()
    ) -> MessageT:
        """Record a message as a step; `parts`: the rows that it is stored as, if not one."""
        stored = parts or [message]

        async def message_to_store() -> MessageT:
            return message

        step = await self._turn.step(
            name,
            message_to_store,
            codec,
            rows=lambda _: self._rows(name, stored),
            kept=lambda step: self._add_all(step, stored),
        )
        return step.value

    def _rows(self, step: str, stored: Iterable[Message]) -> list[BoundStatement]:
        return [row for each in stored for row in rows_of(each, self._origin(step))]

    def _add_all(self, step: Step[Any], stored: Iterable[Message]) -> None:
        for behind, message in enumerate(stored):  # each is one row, but for an answer with calls, which is the last
            self._add(step, message, behind=behind)

    def _end_if_stopped_before(self) -> None:
        """Raise CancelledError at the end of the record of a turn that was stopped before a crash."""
        if self._turn.stopping:
            raise asyncio.CancelledError

    async def _user_message(self, inbound: Inbound) -> UserMessage:
        self._end_if_stopped_before()
        earlier = pieces_of(inbound) if self._services.hooks.judges_messages else ()
        beside = [*earlier, *self._services.carrying.pieces(inbound.actor.key)]
        return await self._services.hooks.apply_to_message(inbound, await self._services.open_message(inbound, beside))

    async def _words(self, inbound: Inbound) -> UserMessage:
        """Return the message of a turn that ended before its files came."""
        self._services.carrying.leave()
        return self._services.hooks.unheard(inbound)

    async def _call(self, call: ToolCall, options: CallOptions) -> ToolResult:
        self._end_if_stopped_before()
        await self._services.wait_for_resume()
        return await self._services.dispatcher.call(call, self._services.scope, options)

    async def _ask_with_hooks(self, number: int, step: str) -> Finished:
        try:
            done = await self._ask(number, step)
            message = await self._services.hooks.apply_to_answer(self._turn.inbound, done.message)
            whole, files = self.spoken.begun + message.text, tuple[Artifact, ...]()
            if LINK in whole and is_last(done):
                files = await self._services.find_files(whole)
        except BaseException:
            self._services.release_reservation(step)
            raise
        # Called by another system's name, it is the call that it means from here on, also as the model remembers it.
        actor, meant = self._turn.inbound.actor, self._services.registry.meant
        calls = tuple(meant(call, actor) for call in message.calls)
        interim = self._services.interim if message.is_interim else None
        deferred = interim is not None and interim.defers(self._turn.inbound, calls)
        return replace(done, message=replace(message, calls=calls, deferred=deferred, artifacts=files))

    async def _ask(self, number: int, step: str) -> Finished:
        self._end_if_stopped_before()
        await self._services.wait_for_resume()
        await self._services.affordable()
        # In here, so that a turn that is taken up again takes nothing in between steps that it has done already.
        async with self._services.preparing():
            await self._join_messages(number)
            opening = await self._services.opening()
            reminder = self._services.remind(self._reminding)
        while True:
            try:
                return await self._request(number, step, opening, reminder)
            except Withdrawn:
                log.info("a message followed at once: repeating the request with it")
                await self._join_messages(number)

    async def _request(self, number: int, step: str, opening: Opening, reminder: str) -> Finished:
        tokens = await self._services.make_room()
        planning = self._services.planning(step, opening.model)
        try:
            async with planning.request(tokens):
                done = await self._stream(number, opening, tokens, reminder)
            if done.empty is not Emptiness.WINDOW:
                return done
        except ModelError as error:
            if not may_be_too_long(error, tokens, opening.model.context_window):
                raise
        tokens = await self._services.make_room(too_long=True)
        async with planning.request(tokens):
            return await self._stream(number, opening, tokens, reminder)

    async def _join_messages(self, number: int) -> None:
        """Let what joins the turn join it, until none is left or one has to wait."""
        joined = True
        while joined:
            waiting = self._services.joining(number) or (self._list_continuations() if number == 1 else ())
            joined = bool(waiting) and await self._join(waiting[0])

    async def _stream(self, number: int, opening: Opening, tokens: int, reminder: str) -> Finished:
        request = Request(opening.system, self._window.messages(), opening.tools, tokens=tokens, reminder=reminder)
        request = replace(request, cache=opening.cache, deferred=opening.deferred)
        said, thought, text = Masking(), Masking(), self._services.answer_text()
        links = ShownLinks(self._services.must_show)
        self._partial.clear()
        withdrawal = Withdrawal(self._turn, self._list_continuations)
        async with withdrawal if number == 1 else nullcontext(), opening.model.stream(request) as events:
            async for event in events:
                if withdrawal.is_open:
                    await withdrawal.close()
                if isinstance(event, Finished):
                    rest = links.next(text.close()) + links.rest()
                    self._show(TextDelta(said.next(storable(rest)) + said.rest()))
                    done = await self._parse_answer(event, text, request, links)
                    answer = sound(done.message)
                    return replace(done, message=replace(answer, text=mask_known(answer.text)))
                self._show(mask(links.event(text.visible_event(event)), said, thought))
        raise ModelError(ModelErrorKind.TRUNCATED, f"{opening.model.spec} gave no answer.")

    async def _parse_answer(self, done: Finished, text: AnswerText, request: Request, links: ShownLinks) -> Finished:
        """Return the answer as its text is read, and show what of it was held back."""
        shown = links.whole(text.shown)
        if text.raw != done.message.text:
            text = self._services.answer_text()
            text.add(done.message.text)
            text.close()
        words = [each.text for each in (self._turn.inbound, *self._joined)]
        read = await self._services.read_written(done, text, request, words, may_ask_again=not self._asked_again)
        read = replace(read, message=replace(read.message, text=links.whole(read.message.text)))
        if not read.message.text.startswith(shown.rstrip()):
            self._show(Restarted(""))
            shown = ""
        self._show(TextDelta(mask_known(storable(read.message.text[len(shown) :]))))
        return read

    def _list_continuations(self) -> Sequence[Inbound]:
        return [each for each in self._services.burst(self._joined) if each.id not in self._denied]

    def _show(self, event: ModelEvent) -> None:
        turn, session = self._turn.id, self._session
        match event:
            case TextDelta() | ThinkingDelta() if self._services.hooks.judges_answers:
                pass  # an answer judged as a whole is not streamed in pieces
            case TextDelta(text) if text:
                self._partial.append(text)
                self._services.publish(TextStreamed(turn, session, text))
            case ThinkingDelta(text) if text:
                self._services.publish(ThinkingStreamed(turn, session, text))
            case ModelLoading():
                self._services.publish(Notice(session, LOADING, turn))
            case Restarted():
                self._partial.clear()
                self._services.publish(StreamRestarted(turn, session, event.reason))
            case _:
                pass

    def _add(
        self, step: Step[Any], message: Message, inbound: Inbound | None = None, *, joined: str = "", behind: int = 0
    ) -> None:
        """Add a message that was just stored, as row number `behind` of its step, to the window, and publish it."""
        if step.replayed:
            return
        row, at = step.rows[behind], self._services.now()
        sender, context = speaker_of(inbound, message)
        self._window.append(context_entry(StoredMessage(row, self._turn.id, message, at, sender, context)))
        self._services.publish(MessageStored(self._turn.id, self._session, row, message, at, sender, joined))

    def _origin(self, step: str, inbound: Inbound | None = None, message: Message | None = None) -> Origin:
        return Origin(self._session, self._turn.id, step, self._services.now(), *speaker_of(inbound, message))
