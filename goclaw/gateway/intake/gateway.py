"""Routes incoming messages: each is a slash command, an answer, a turn, or nothing. Implements `events.GatewayPort`.

Commands never wait for the session's lane, so `/stop` and `/status` work whatever hangs.
"""

import asyncio
import difflib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.pairing import AS, PairingRefused
from goclaw.common.auth.presets import GUESTS
from goclaw.common.core.bus import Following
from goclaw.common.core.events import (
    AGENT_MARK,
    DENY,
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    AnswerRefusal,
    Beside,
    Choice,
    CommandInfo,
    Delivery,
    Inbound,
    MessageStored,
    Notice,
    Outline,
    Question,
    QuestionAsked,
    SessionInfo,
    SessionNow,
    SessionPlace,
    TranscriptRow,
    TurnEvent,
)
from goclaw.common.core.records import BoundedDict, record
from goclaw.common.core.redact import storable
from goclaw.common.core.replay_buffer import Position
from goclaw.common.specs import MCP
from goclaw.conversation.questions.plain_words import WAITING, WAITING_IN_A_TERMINAL, read_as_answer
from goclaw.conversation.questions.question_messages import NO_QUESTION, answered, parse_choice
from goclaw.conversation.schedules.orders import overview
from goclaw.conversation.schedules.reminders import press_button
from goclaw.conversation.turns.status import Details, SessionStatus
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.machine_faults import Outage
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.engine.sessions import OwnedSessions
from goclaw.durable.store.database import Database
from goclaw.durable.store.reading import TranscriptReader
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import AccessDenied, StateError, ToolError
from goclaw.gateway.intake.commands.base import COMMAND, Command, CommandContext, CommandPorts, Reply
from goclaw.gateway.intake.own_status import own_lines
from goclaw.memory.memory_queries import MemoryOff, MemoryQueries, MemoryQuery
from goclaw.tools.approval.sentences import fenced

log = logging.getLogger(__name__)

NOT_FORWARDED = (
    "A question is waiting for your answer. A forwarded message cannot answer it: please write the answer yourself."
)
NO_FILE_ANSWERS = (
    "A question is waiting for your answer. A file or voice message cannot answer it: answer in text first, then send "
    "it again."
)

STOP = "stop"
ARTIFACT_SHOWN = 64 << 10
"""Bytes of an artifact that a terminal gets: more than a person reads there, and little enough for one frame."""
IGNORED_LOG_SECONDS = 60.0
"""A stranger who writes is logged once in this time, however often."""


class Owners(Protocol):
    """The owners of sessions: this process (`Here`), or any of several (`intake.owners`); methods as in `Gateway`."""

    async def accept(self, inbound: Inbound) -> Acceptance: ...

    async def decide(self, actor: Actor, question: str, answer: str, *, chat: Address | None = None) -> Acceptance: ...

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance: ...

    async def decline(self, actor: Actor, question: str) -> Acceptance: ...

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]: ...

    async def status(self, session: str, details: Details, actor: Actor) -> SessionStatus: ...

    def forget(self, session: str) -> None: ...


class Here:
    """Implements `Owners` for the process that owns every session of its store."""

    def __init__(self, gateway: "Gateway") -> None:
        questions = gateway.ports.questions
        self.accept = gateway.accept_here
        self.decide, self.choose, self.decline = questions.decide, questions.choose, questions.decline
        self.status = gateway.ports.sessions.inspection.status

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        return ()

    def forget(self, session: str) -> None:
        pass


@record
class OwnersPart:
    """The owners of sessions, as the catalogue names them."""

    open: "Callable[[OwnedSessions, Gateway], Owners]"


HERE = OwnersPart(lambda sessions, gateway: Here(gateway))
"""The part that `OWNERS` of the catalogue names for SQLite."""


@dataclass(eq=False)
class Gateway:
    """The one way in for messages, and for what clients ask."""

    ports: CommandPorts
    """The services of commands; the gateway itself uses some of them."""
    known: Mapping[str, Command]
    """All commands, by name."""
    database: Database
    completion: Callable[[Actor, str], Awaitable[Sequence[str]]]
    """Returns paths of an actor's workspace that begin as was typed."""
    journal: Journal
    queries: MemoryQueries | None
    """Answers what terminals ask of memory; None: memory is off."""
    outage: Outage
    outbox: Outbox
    transcripts: Transcripts
    with_owners: "Callable[[Gateway], Owners]" = lambda gateway: Here(gateway)
    """Returns the owners of sessions for a gateway."""

    def __post_init__(self) -> None:
        self._logged = BoundedDict[str, float](10_000)
        self._accepting, self._quiet = 0, asyncio.Event()
        self._reader = TranscriptReader(self.database)
        self._owners = self.with_owners(self)

    async def accept(self, inbound: Inbound) -> Acceptance:
        self._accepting += 1
        try:
            return await self._owners.accept(inbound)
        except StateError as error:
            await self.outage.on_refusal(inbound, error)
            raise
        finally:
            self._accepting -= 1
            self._quiet.set()

    async def quiet(self) -> None:
        """Wait until nothing is being accepted: each sender has the receipt then."""
        while self._accepting:
            self._quiet.clear()
            await self._quiet.wait()

    async def accept_here(self, inbound: Inbound) -> Acceptance:
        """Accept a message for a session of this process, or one that any process may accept."""
        session = self.ports.access.session_for(inbound.actor, inbound.session)
        text = storable(inbound.text)
        actor = replace(inbound.actor, name=storable(inbound.actor.name))
        inbound = replace(inbound, session=session, text=text, actor=actor)
        decision = self.ports.access.authorize(inbound.actor, "session.write", session)
        if not decision.allowed:
            if not inbound.beside:  # who speaks to others may be unknown here
                self._log_stranger(inbound, decision.rule)
                if pairing := self.ports.entrances.pairing:
                    await pairing.request_code(inbound)
            return Acceptance(AcceptKind.IGNORED)
        if inbound.edited or inbound.beside:
            return await self._note(inbound)
        # What was forwarded are another's words, whatever its channel made of them.
        match = None if inbound.forwarded else COMMAND.fullmatch(text.strip())
        if match and not await self._asks_agent(inbound, match.group(1).lower()):
            return await self._command(inbound, match.group(1).lower(), (match.group(2) or "").strip())
        if not match and (answered := await self._answer_open(inbound)):
            return answered
        limit = self.ports.environment.config.limits.queued_messages
        if self.ports.engine.waiting(session) >= limit and not await self.journal.knows(inbound.id):
            log.info("%s: %d messages wait (limits.queued_messages), so another is refused", session, limit)
            return await self.answer(inbound, f"{limit} messages are already waiting. Try /stop.")
        is_running = self.ports.engine.running(session) is not None
        interrupts = is_running and await self.ports.sessions.choices.queue_modes.of(session) == "interrupt"
        if not await self.ports.engine.submit(inbound, interrupt=interrupts):
            return Acceptance(AcceptKind.DUPLICATE, inbound.id)
        return Acceptance(AcceptKind.TURN, inbound.id, session=session)

    def session_for(self, actor: Actor, session: str) -> str:
        """Return the session of `actor` for `session`: users.json may name another one.

        Raises:
            AccessDenied: the actor may not read it.
        """
        session = self.ports.access.session_for(actor, session)
        decision = self.ports.access.authorize(actor, "session.read", session)
        if not decision.allowed:
            raise AccessDenied(decision.rule)
        return session

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        # Of all people who have the same roles one is asked for.
        alike = {user.roles: Actor(user.key, LOCAL) for user in self.ports.schedules.users.all()}
        people = [actor] if actor else [*alike.values()]
        own = [
            CommandInfo(command.name, command.summary)
            for command in self.known.values()
            if people and all(self._is_shown(each, command) for each in people)
        ]
        if actor is None:
            return [info for info in own if not info.name.startswith(MCP)]  # a menu for everybody lists no servers
        leading = self.ports.sessions.choices.agents.commands(actor)
        return [*own, *(CommandInfo(name, f"Ask {agent}") for name, agent in leading.items() if self._may(actor, name))]

    def subscribe(self, session: str | None) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        return self.ports.bus.subscribe(session)

    def follow(self, session: str, client: str, position: Position) -> AbstractAsyncContextManager[Following]:
        """Follow events for one client that may be cut off and come back (`Bus.follow`)."""
        return self.ports.bus.follow(session, client, position)

    def acknowledge(self, session: str, client: str, number: int) -> None:
        """Record that `client` has shown everything up to event `number` of the session."""
        self.ports.bus.acknowledge(session, client, number)

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        return await self.transcripts.history(session, after, limit, before)

    async def transcript(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`, oldest first: as many as suit one frame."""
        return await self._reader.page(session, after)

    async def artifact(self, session: str, blob: str) -> tuple[str, bool]:
        """Return the beginning of a stored artifact and whether there is more; of one that is gone, the reason."""
        if not await self._reader.keeps(session, blob):
            return "this session has no such artifact", False
        try:
            content = await self.ports.environment.blobs.get(blob)
        except ToolError:
            return "it is no longer stored", False
        return content[:ARTIFACT_SHOWN].decode(errors="ignore"), len(content) > ARTIFACT_SHOWN

    async def media_name(self, session: str, blob: str) -> str | None:
        """Return the name of a picture or file that a message of the session has; None: none has it."""
        return await self._reader.media_name(session, blob)

    async def outline(self, session: str, last: int) -> Outline:
        """Return the session without its rows, and where its last `last` messages begin."""
        return await self._reader.outline(session, last)

    async def now(self, session: str) -> SessionNow:
        self._owners.forget(session)
        return await self.ports.bus.state(session) or await self.ports.sessions.inspection.now(session)

    async def sessions(
        self, actor: Actor, *, agents: bool = False, after: SessionPlace | None = None, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        found: list[SessionInfo] = []
        while page := await self.transcripts.sessions(after, limit):
            # The list of sessions leaves out those of agents, which would crowd it out.
            wanted = (info for info in page if agents or AGENT_MARK not in info.key)
            found += (info for info in wanted if self.ports.access.authorize(actor, "session.read", info.key).allowed)
            if limit is None or len(page) < limit or len(found) >= limit:
                break
            after = page[-1].place
        return found[:limit]

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        if not self.ports.access.authorize(actor, "tool.use", "read").allowed:
            return ()
        return await self.completion(actor, begun)

    def oversees(self, actor: Actor) -> bool:
        """Whether `actor` may know of faults of the daemon, and of what concerns all users."""
        return self.ports.access.authorize(actor, "command.admin", "status").allowed

    async def status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        is_admin, in_group = self.oversees(actor), self.ports.access.is_group(session)
        details = await self.ports.reports.details(session)
        if not is_admin:
            details = details.without_others()
        details = details.with_schedules(await overview(self.ports.schedules, actor))
        status = await self._owners.status(session, details, actor)
        own = None
        if not is_admin:
            own = await own_lines(self.ports, status, await self.now(session), actor, in_group=in_group)
        health = self.ports.sessions.compactor.health
        return status.numbers(health) | {"text": status.text(health, self.ports.clock, own, in_group=in_group)}

    async def memory(self, actor: Actor, query: MemoryQuery) -> Mapping[str, Any]:
        """Return memory's entries, or its state.

        Raises:
            AccessDenied: the actor may not.
            StateError: memory is off, or the disk refuses.
        """
        if self.queries is None:
            raise MemoryOff
        return await self.queries.answer(actor, query)

    async def decide(self, actor: Actor, question: str, answer: str, chat: Address | None = None) -> Acceptance:
        if question.startswith(AS):
            return await self._change_preset(actor, f"{actor.entry}:{question.removeprefix(AS)}", answer)
        pressed = await press_button(self.ports.schedules, actor, question, answer)
        return pressed or await self._owners.decide(actor, question, answer, chat=chat)

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
        if question.startswith(AS):
            return await self.decide(actor, question, [*GUESTS, ""][index if index in range(len(GUESTS)) else -1])
        pressed = await press_button(self.ports.schedules, actor, question, index)
        return pressed or await self._owners.choose(actor, question, index, chat)

    async def _change_preset(self, actor: Actor, key: str, preset: str) -> Acceptance:
        """Give a person who was let in the preset on the button that an admin pressed."""
        pairing = self.ports.entrances.pairing
        if pairing is None or actor.behalf or not self.ports.access.authorize(actor, "command.admin", "pair").allowed:
            return NO_QUESTION
        try:
            return answered(await pairing.change_preset(actor, key, preset))
        except PairingRefused as refused:
            return answered(str(refused), AnswerRefusal.INVALID)

    async def decline(self, actor: Actor, question: str) -> Acceptance:
        """Answer a question by its id that there will be no answer: no for an approval; returns as `decide` does."""
        return await self._owners.decline(actor, question)

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        """Return the open questions that an actor may answer now, in all sessions."""
        return [*self.ports.questions.answerable(actor), *await self._owners.answerable(actor)]

    async def report(self, inbound: Inbound, text: str) -> None:
        """Send a later answer to where a message came from."""
        if inbound.address.channel == LOCAL:
            self.ports.bus.publish(Notice(inbound.session, text))
            return
        await self.outbox.promise(Delivery(f"{inbound.id}:report", inbound.address, text))

    async def run_command(self, inbound: Inbound, text: str) -> str:
        """Run a command given by an agent, as the person whose message its turn answers; return its text.

        Raises:
            ToolError: it is no command, or not for agents, or not for that person: one text for all three.
        """
        match = COMMAND.fullmatch(f"/{text.strip().removeprefix('/')}")
        name = match.group(1).lower() if match else ""
        allowed = self.ports.environment.config.tools.command.allowed
        command = self.known.get(name) if name in allowed else None
        if match and name in self.known:
            self._record_command(inbound, name, exists=command is not None)
        if match is None or command is None or not self._may(inbound.actor, name):
            known = (each.name for each in self.commands(inbound.actor) if each.name in allowed)
            raise ToolError(f"no such command here; available: {', '.join(f'/{each}' for each in known) or 'none'}")
        given = replace(inbound, text=match.group(0))
        reply = await command.run(CommandContext(given, (match.group(2) or "").strip(), self.ports, self))
        return reply.text

    async def _asks_agent(self, inbound: Inbound, name: str) -> bool:
        """Whether a command leads to an agent (`agents.routes`): its message is then a turn like any other."""
        agents_for = self.ports.sessions.choices.agents
        if name in self.known or not agents_for.is_command(inbound) or not self._may(inbound.actor, name):
            return False
        if not await self.journal.knows(inbound.id):
            self._record_command(inbound, name, exists=True)
        return True

    def _may(self, actor: Actor, command: str) -> bool:
        return self.ports.access.authorize(actor, "command.run", command).allowed

    def _is_shown(self, actor: Actor, command: Command) -> bool:
        is_theirs = not command.for_admins or self.ports.access.authorize(actor, "command.admin", command.name).allowed
        return is_theirs and self._may(actor, command.name) and command.serves(self.ports, actor)

    def _record_command(self, inbound: Inbound, name: str, *, exists: bool) -> None:
        decision = self.ports.access.authorize(inbound.actor, "command.run", name)
        rule, allowed = decision.rule if exists else "no such command", exists and decision.allowed
        self.ports.audit(AuditEntry("command.run", name, inbound.actor, inbound.session, allowed, rule))

    async def _command(self, inbound: Inbound, name: str, arguments: str) -> Acceptance:
        if await self.journal.knows(inbound.id):
            if name == STOP and inbound.address.channel != LOCAL:
                # Known since the stop was on disk. A crash may have cut its answer off; one that was given stands.
                await self.outbox.promise(Delivery(f"{inbound.id}:reply", inbound.address, "Stopped."))
            return Acceptance(AcceptKind.DUPLICATE, inbound.id)
        command = self.known.get(name)
        self._record_command(inbound, name, exists=command is not None)
        if command is None or not self._may(inbound.actor, name):
            return await self.answer(inbound, self._unknown(inbound.actor, name))
        reply: Reply = await command.run(CommandContext(inbound, arguments, self.ports, self))
        if reply.turn:
            return Acceptance(AcceptKind.TURN, reply.turn, session=inbound.session)
        answered = await self.answer(inbound, reply.text, fenced(reply.text) if reply.aligned else "", reply.choices)
        return replace(answered, markdown=reply.markdown, refusal=reply.refusal)

    async def _note(self, inbound: Inbound) -> Acceptance:
        """Accept an edit, a reaction or a message to others: never a turn, a command or an answer of its own."""
        if await self.journal.knows(inbound.id):
            return Acceptance(AcceptKind.DUPLICATE, inbound.id)
        if inbound.edited and await self.ports.engine.replace(inbound):
            return Acceptance(AcceptKind.REPLACED)
        overheard, now = self.ports.sessions.overheard, self.ports.clock.now()
        match inbound.beside:
            case None:
                noted = await overheard.add_edit(inbound, now)
            case Beside("said", keep):
                noted = await overheard.add(inbound, keep, now) or await overheard.add_edit(inbound, now)
            case beside:
                noted = await self._reaction(inbound, beside.on)
        return Acceptance(AcceptKind.NOTED if noted else AcceptKind.IGNORED)

    async def _reaction(self, inbound: Inbound, on: str) -> bool:
        """Note a reaction; False: it is not on a message of ours, or that is in a session that is not the person's."""
        for delivery in await self.outbox.sent_as(inbound.address, on):
            session = delivery.session or inbound.session
            if delivery.text and self.ports.access.authorize(inbound.actor, "session.write", session).allowed:
                mine = replace(inbound, session=session)
                await self.ports.sessions.overheard.add_reaction(mine, on, delivery.text, self.ports.clock.now())
                return True
        return False

    async def _answer_question(self, inbound: Inbound, question: Question) -> Acceptance:
        """Deliver a plain message as the answer to a question: it reaches the turn, not the queue."""
        if await self.journal.knows(inbound.id):
            return Acceptance(AcceptKind.DUPLICATE, inbound.id)
        # The files of a message that this one answers are no part of what it says.
        if any(attachment.origin is None for attachment in inbound.attachments):
            return await self.answer(inbound, NO_FILE_ANSWERS)
        if inbound.forwarded:
            return await self.answer(inbound, NOT_FORWARDED)
        answer = parse_choice(question, inbound.own_words, inbound.address.channel)
        if isinstance(answer, Acceptance):
            return await self.answer(inbound, answer.text)
        settled = self.journal.insert_without_turn(inbound, self.ports.clock.now())
        return await self.ports.questions.decide(inbound.actor, question.id, answer, settled)

    async def _answer_open(self, inbound: Inbound) -> Acceptance | None:
        """Take a plain message that answers an open question, or reads as if it did; None: it begins a turn."""
        if question := self.ports.questions.waiting_for(inbound.actor, inbound.session):
            return await self._answer_question(inbound, question)
        asked = self.ports.questions.approvals_for(inbound.actor, inbound.session)
        if not asked or inbound.forwarded or inbound.attachments:
            return None
        said = read_as_answer(inbound.own_words)
        if not said or await self.journal.knows(inbound.id):
            return None
        return await self._answer_approval(inbound, asked, said)

    async def _answer_approval(self, inbound: Inbound, asked: Sequence[Question], said: str) -> Acceptance:
        """Answer a message that reads like an answer to an approval: a plain no denies the only one that is open."""
        if said == "no" and len(asked) == 1:
            settled = self.journal.insert_without_turn(inbound, self.ports.clock.now())
            return await self.ports.questions.decide(inbound.actor, asked[0].id, DENY, settled)
        return await self.answer(inbound, WAITING if inbound.address.channel != LOCAL else WAITING_IN_A_TERMINAL)

    async def answer(
        self, inbound: Inbound, text: str, markdown: str = "", choices: tuple[Choice, ...] = ()
    ) -> Acceptance:
        """Answer immediately: the message is settled and its answer promised in one transaction.

        `markdown`: the same for chats, where it differs; `choices`: buttons there.
        """
        settled = self.journal.insert_without_turn(inbound, self.ports.clock.now())
        if inbound.address.channel == LOCAL:
            try:
                await self.database.write(settled)
            except StateError as error:
                # The answer reaches the terminal all the same: `/status` must work when nothing else does.
                log.warning("a command was answered but could not be recorded: %s", error)
        else:
            said = Delivery(f"{inbound.id}:reply", inbound.address, markdown or text)
            await self.outbox.promise(replace(said, choices=choices, asks=bool(choices)), settled)
        return Acceptance(AcceptKind.REPLY, text=text)

    def _unknown(self, actor: Actor, name: str) -> str:
        known = [info.name for info in self.commands(actor)]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean /{close[0]}?" if close else ""
        return f"Unknown command: /{name}.{hint} Send /help for the list."

    def _log_stranger(self, inbound: Inbound, rule: str) -> None:
        key, now = inbound.actor.key or f"nobody in {inbound.address.chat}", self.ports.clock.monotonic()
        if now - self._logged.get(key, -IGNORED_LOG_SECONDS) >= IGNORED_LOG_SECONDS:
            self._logged[key] = now
            log.warning("ignored a message from %s via %s: %s", key, inbound.actor.entry, rule)
            self.ports.audit(AuditEntry("session.write", inbound.session, inbound.actor, allowed=False, rule=rule))
