"""Runs turns: opens the session, has the agent answer, settles every way it can end, and hands over the answer.

The files among a turn's artifacts go to its chat after the answer; terminals show all of them.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from goclaw.channels.base import Channel
from goclaw.common.auth.access import Access
from goclaw.common.core.events import LOCAL, Address, Delivery, Inbound, Notice, Outcome, TurnFinished, TurnStarted
from goclaw.common.core.messages import NAMED, SAID, SENT, Artifact, UserMessage
from goclaw.common.core.records import record
from goclaw.conversation.agent.kinds import Kind
from goclaw.conversation.agent.limits import RunPolicy, unattended_rules
from goclaw.conversation.agent.loop import run_turn
from goclaw.conversation.compaction.maintenance import MaintenanceQueue
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.sessions.state import Session
from goclaw.conversation.turns.agent_run import AgentRun, SharedRun
from goclaw.conversation.turns.agent_services import AgentServices
from goclaw.conversation.turns.answers import empty_sentence, is_for_another
from goclaw.conversation.turns.tool_requests import CommandPort
from goclaw.conversation.turns.turn import SETTLE_STEP, STOPPED, TurnRun
from goclaw.conversation.turns.turn_context import TurnContext, WindowShortage
from goclaw.conversation.turns.user_message import HEARING, WITHHELD, plain_message
from goclaw.durable.engine.base import PreparedStep, Turn, TurnHandler
from goclaw.errors import AccessDenied, ConfigError, GoclawError, LimitReached, MessageDenied, StateError
from goclaw.llm.served import NO_TOOLS

log = logging.getLogger(__name__)

TOLD_NO_TOOLS = "told no tools"
"""A session's setting: the model whose lack of tool calls people have been told about."""
SERVED = "served_models"
"""The stored facts about models from their servers; behind a ":" the model and its server's address."""
SCALES = "token_scales"
"""The stored facts that keep the calibration over a restart; behind a ":" the model."""
FAILED = "Something went wrong inside GoClaw, so I could not answer this message. The log has the details."
MAX_FILES = 3
"""The latest artifacts of one turn to send: more would flood the chat, and the transcript has all."""
DIFF_TYPE = "text/x-diff"
"""The media type of a file's diff."""
MAX_ARTIFACT_BYTES = 10 << 20
"""Maximum bytes of one artifact: a size that telephones open."""


@record
class TurnEnding:
    """The end of a turn's work."""

    outcome: Outcome
    text: str
    """What the person reads."""
    why: str = ""
    """Why there is no whole answer; empty: `text` says it."""
    is_silent: bool = False
    """Whether the chat gets no message: a person stopped the turn before it wrote any text, or a hook withholds it."""


@record
class Sessions:
    """The conversations. `handler` does the turns of the engine."""

    context: TurnContext
    maintenance: MaintenanceQueue
    pauses: Pauses
    shortage: WindowShortage
    commands: CommandPort

    @property
    def handler(self) -> TurnHandler:
        return TurnHandler(self.run, self.report_failure, self.prepare)

    async def restore(self) -> None:
        """Restore the knowledge of earlier runs: how summaries go, how far token estimates are off, who holds what."""
        await self.context.ports.store.journal.forget_loose()
        await self.context.compactor.restore()
        await self.pauses.restore()
        scales = await self.context.ports.store.settings.facts(SCALES)
        self.context.ports.models.served.restore(await self.context.ports.store.settings.facts(SERVED))
        self.context.requests.calibration.restore({**scales.pop("", {}), **scales})  # an older GoClaw kept all as one

    def prepare(self, inbound: Inbound) -> PreparedStep[UserMessage] | None:
        """Return the first step of a message's turn, to be recorded with the message; see `engine.base.Prepare`.

        None where opening the message waits for something, or the conversation is not in memory: the words it carries
        along are not known then.
        """
        session = self.context.contexts.find(inbound.session)
        if session is None or session.turn.running or session.settings.overheard:
            return None
        ports = self.context.ports
        if inbound.attachments or inbound.given or inbound.unattended or HEARING & ports.dispatcher.hooks.points:
            return None
        return plain_message(inbound, ports.store.transcripts, ports.clock.now())

    async def run(self, turn: Turn) -> Sequence[Delivery]:
        """Do a turn's work, and end it: its end is recorded together with what goes to the chat."""
        inbound, began = turn.inbound, self.context.ports.clock.monotonic()
        self.maintenance.make_way()
        async with self.context.contexts.working(inbound.session, inbound.actor) as session:
            session.turn.notify = partial(self._notify, turn)
            # No chat shows that an unattended turn is at work: what it has to say comes at its end.
            shown = Address(LOCAL, "") if inbound.unattended else inbound.address
            self.context.ports.bus.publish(TurnStarted(turn.id, inbound.session, shown))
            try:
                work = {"message": self._answer, "compact": self._compact, "say": self._add_answer}[turn.kind]
                ending = await work(turn, session)
                await self._pay_compaction(turn, session)
            except StateError:
                # The turn is run again when the disk takes it, from what is stored by then.
                self.context.contexts.forget(session.key)
                raise
            await self.context.ports.questions.on_turn_end(turn.id)
            await self.pauses.on_turn_end(session.key, turn.id)
            if inbound.unattended and turn.kind != "say":
                ending = await self._unattended_result(turn, session, ending)
            told = self._compose_text(turn, ending)
            files = self._files(turn, session, ending.outcome, is_told=bool(told))
            deliveries: Sequence[Delivery] = [*_answer_to(turn, told), *files]
            if inbound.unattended:
                deliveries = await self.context.unattended.filter(inbound, deliveries)
            await turn.end(deliveries)
            self._publish_end(turn, ending.outcome, ending.text, told)
            _log_end(ending, self.context.ports.clock.monotonic() - began, session.turn.last_answer)
            if entries := session.window.entries:
                self.maintenance.on_turn_end(inbound.session, inbound.actor, entries[-1].row)
        news: dict[str, Any] = {f"{SERVED}:{key}": row for key, row in self.context.ports.models.served.news().items()}
        news |= {f"{SCALES}:{spec}": scale for spec, scale in (self.context.requests.calibration.news() or {}).items()}
        if news:
            await self.context.ports.store.settings.learn_all(news)
        return ()

    async def _unattended_result(self, turn: Turn, session: Session, ending: TurnEnding) -> TurnEnding:
        await turn.flush()  # its costs, too
        spent = await self.context.ports.store.spending.of_turn(session.key, turn.id)
        told = self.context.unattended.told
        text = await told(turn.inbound, ending.outcome, ending.text, session.turn.refused, spent.cost)
        return replace(ending, text=text, is_silent=ending.is_silent and text == ending.text)

    def _files(self, turn: Turn, session: Session, outcome: Outcome, *, is_told: bool) -> Sequence[Delivery]:
        channel = self.context.ports.outbox.channels.get(turn.inbound.address.channel)
        kept = [each for each in session.turn.artifacts if is_told or each.kind != NAMED]
        return files_of(turn, kept, outcome, channel, self.context.ports.approvals.access)

    async def _notify(self, turn: Turn, about: str, text: str) -> None:
        """A line to the chat of a turn, once; a terminal has it from the bus."""
        inbound = turn.inbound
        if inbound.address.channel != LOCAL and not is_for_another(inbound):
            told = Delivery(f"{turn.id}:told:{about}", inbound.address, text, session=inbound.session)
            await self.context.ports.outbox.promise(told)

    async def report_failure(self, turn: Turn, error: Exception) -> Sequence[Delivery]:
        """Return the words to the user when `run` ended in an unforeseen way."""
        self.context.contexts.forget(turn.inbound.session)
        await self.context.ports.questions.on_turn_end(turn.id)
        await self.pauses.on_turn_end(turn.inbound.session, turn.id)
        text = FAILED
        if turn.inbound.unattended:
            text = await self.context.unattended.told(turn.inbound, Outcome.FAILED, FAILED, (), 0.0)
        told = self._compose_text(turn, TurnEnding(Outcome.FAILED, text))
        self._publish_end(turn, Outcome.FAILED, FAILED, told)
        deliveries = _answer_to(turn, told)
        if turn.inbound.unattended:
            deliveries = await self.context.unattended.filter(turn.inbound, deliveries)
        return deliveries

    async def _answer(self, turn: Turn, session: Session) -> TurnEnding:
        """Return the agent's answer, or the sentence that stands in its place."""
        kind, refused = await self._who_answers(turn)
        session.turn.rules = unattended_rules(kind.rules, turn.inbound.unattended)
        policy = RunPolicy(session.turn.rules)
        root = SharedRun(turn, self.pauses.gate(turn, policy.pause_clock))
        agent_run = AgentRun(root, turn, session, policy, kind)
        run = TurnRun(AgentServices(self.context, agent_run, self.commands))
        if turn.has_record(SETTLE_STEP):  # a crash came between its last words and its end
            return await self._close(run, session, Outcome.STOPPED, "stopped by the user")
        try:
            if refused:
                raise refused
            return await self._finish(run, policy, turn, session, kind)
        except MessageDenied as denied:
            return TurnEnding(Outcome.FAILED, str(denied))  # nothing was stored, so there is nothing to settle
        except LimitReached as limit:
            log.info("the turn reached %s", limit.key)
            outcome, why, reason = Outcome.LIMITED, str(limit), "not finished: the turn reached a limit"
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise
            outcome, why, reason = Outcome.STOPPED, "", "stopped by the user"
        except StateError:
            raise  # nothing can be recorded: the turn is taken up again when it can
        except GoclawError as error:
            why = await self.shortage.in_words(error, session, turn.inbound.actor, kind)
            outcome, reason = Outcome.FAILED, "the turn failed"
        return await self._close(run, session, outcome, reason, why)

    async def _finish(self, run: TurnRun, policy: RunPolicy, turn: Turn, session: Session, kind: Kind) -> TurnEnding:
        """Return the end of a turn that the model chose; raises what `run_turn` does."""
        await self.context.ports.dispatcher.registry.ready()
        text = await run_turn(run, policy)
        if run.withheld:
            return TurnEnding(Outcome.STOPPED, WITHHELD, is_silent=True)
        await self._notify_of_room(turn, session, kind)
        await self._notify_of_tools(turn, session, kind)
        if not text.strip():
            text = "" if run.spoken.said else empty_sentence(run.empty)
        return TurnEnding(Outcome.CUT if run.cut else Outcome.ANSWERED, text)

    async def _close(self, run: TurnRun, session: Session, outcome: Outcome, reason: str, why: str = "") -> TurnEnding:
        """Settle a turn that the model did not end (`TurnRun.finish`)."""
        text = await run.finish(reason, why)
        # What was cut may have reached the store without reaching the window.
        self.context.contexts.forget(session.key)
        return TurnEnding(outcome, text or STOPPED, why, is_silent=not text)

    async def _notify_of_room(self, turn: Turn, session: Session, kind: Kind) -> None:
        window = session.window
        if window.summary or not window.entries or window.entries[0].turn != turn.id:
            return  # people were told behind the first answer of the context
        if words := await self.shortage.at_first_answer(session, turn.inbound.actor, kind):
            self.context.ports.bus.publish(Notice(session.key, words, turn.id))
            await self._notify(turn, "room", words)

    async def _notify_of_tools(self, turn: Turn, session: Session, kind: Kind) -> None:
        """Say once in a conversation that its model cannot call tools."""
        spec = (await self.context.choices.agents.model(session.key, kind)).spec
        if self.context.ports.models.served.of(spec).tools is not False:
            return
        settings = self.context.ports.store.settings
        if (await settings.of_session(session.key)).get(TOLD_NO_TOOLS) == spec:
            return
        words = NO_TOOLS.format(spec=spec)
        self.context.ports.bus.publish(Notice(session.key, words, turn.id))
        await self._notify(turn, "tools", words)
        await settings.set(session.key, TOLD_NO_TOOLS, spec)

    async def _who_answers(self, turn: Turn) -> tuple[Kind, GoclawError | None]:
        """Return the agent that answers; where none may, the main agent and the error to report instead."""
        try:
            return (await self.context.choices.agents.of_turn(turn)).kind, None
        except (AccessDenied, ConfigError) as error:
            return self.context.choices.agents.main, error

    async def _add_answer(self, turn: Turn, session: Session) -> TurnEnding:
        """Put a text into the conversation as the agent's, without a model."""
        kind = self.context.choices.agents.main
        root = SharedRun(turn, self.pauses.gate(turn, nullcontext))
        agent_run = AgentRun(root, turn, session, RunPolicy(kind.rules), kind)
        await TurnRun(AgentServices(self.context, agent_run)).add_answer(turn.inbound)
        return TurnEnding(Outcome.ANSWERED, turn.inbound.text)

    async def _compact(self, turn: Turn, session: Session) -> TurnEnding:
        if turn.stopping:
            return TurnEnding(Outcome.STOPPED, STOPPED, is_silent=True)
        try:
            await self.context.costs.check_day(turn.inbound.actor.key)
            kind, _ = await self.context.choices.agents.answering(turn.inbound.actor, session.key)
            with suppress(ConfigError):  # without a model nothing is counted
                model = await self.context.choices.agents.model(session.key, kind)
                await self.context.measure(session, turn.inbound.actor, kind, model)
            text = await self.context.compactor.compact(session, turn.inbound.text, forced=True)
            return TurnEnding(Outcome.ANSWERED, text)
        except LimitReached as limit:
            log.info("/compact reached %s", limit.key)
            return TurnEnding(Outcome.LIMITED, str(limit))
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise
            return TurnEnding(Outcome.STOPPED, STOPPED, is_silent=True)

    async def _pay_compaction(self, turn: Turn, session: Session) -> None:
        """Do a /compact that came after the last request of a turn, until /stop ends it."""
        request, session.compaction.request = session.compaction.request, None
        if request is None:
            return
        try:
            await turn.flush()
            await request.report(await self.context.compactor.compact(session, request.instructions, forced=True))
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise

    def _compose_text(self, turn: Turn, ending: TurnEnding) -> str:
        """Return the notice to the chat at the end of a turn."""
        said = self.context.chat.interim.rest(turn.id), "" if ending.is_silent else ending.text
        return "\n\n".join(filter(None, said))

    def _publish_end(self, turn: Turn, outcome: Outcome, text: str, told: str) -> None:
        finished = TurnFinished(turn.id, turn.inbound.session, outcome, text, silent=not told)
        self.context.ports.bus.publish(finished)


def _answer_to(turn: Turn, told: str) -> Sequence[Delivery]:
    inbound = turn.inbound
    if inbound.address.channel == LOCAL or not told or turn.kind == "say":
        return ()  # a terminal reads the transcript; the person who said /stop has its answer
    return [Delivery(f"{turn.id}:deliver:1", inbound.address, told, turn=turn.id, session=inbound.session)]


def _log_end(ending: TurnEnding, seconds: float, figures: Mapping[str, object]) -> None:
    """Log how a turn ended. Words of the conversation stay out of the log; the reason for a missing answer does not."""
    if ending.outcome in (Outcome.ANSWERED, Outcome.CUT, Outcome.STOPPED):
        log.info("turn %s in %.1f s", ending.outcome, seconds, extra=figures)
    else:
        log.warning("turn %s in %.1f s: %s", ending.outcome, seconds, ending.why or ending.text)


def _taken_for_stop(turn: Turn) -> bool:
    """Whether a cancellation is /stop, and the turn may say its last words."""
    task = asyncio.current_task()
    if not turn.stopping or task is None:
        return False
    task.uncancel()
    return True


def files_of(
    turn: Turn, artifacts: Sequence[Artifact], outcome: Outcome, channel: Channel | None, access: Access
) -> list[Delivery]:
    """Return the deliveries, to be promised with the answer; none where the channel takes none, or no answer came.

    Args:
        artifacts: of the turn, oldest first; a file that was sent by a call is not sent again for its name.
        channel: where the turn's answer goes.
    """
    inbound = turn.inbound
    if not artifacts or channel is None or not channel.capabilities.artifacts or not outcome.went_well:
        return []
    # In a group other people read, too, and what a tool kept is for the person who asked.
    is_group = access.is_group(f"{inbound.address.channel}:{inbound.address.chat}")
    kept = [] if is_group else [each for each in artifacts if each.kind not in (SAID, SENT, NAMED)]
    wanted = [each for each in kept if channel.capabilities.diffs or each.mime != DIFF_TYPE]
    fitting = {artifact.blob: artifact for artifact in wanted if artifact.size <= MAX_ARTIFACT_BYTES}
    sent = {each.blob for each in artifacts if each.kind == SENT}
    named = [each for each in artifacts if each.kind == NAMED and each.blob not in sent]
    return [
        Delivery(
            f"{turn.id}:artifact:{number}",
            inbound.address,
            media=artifact.blob,
            media_name=PurePosixPath(artifact.name).name,
            session=inbound.session,
        )
        for number, artifact in enumerate([*list(fitting.values())[-MAX_FILES:], *named], 1)
    ]
