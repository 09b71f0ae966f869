"""The definition of a slash command, and the services it may use."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.pairing import Pairing
from goclaw.common.auth.web_logins import WebLogins
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    Acceptance,
    Actor,
    Address,
    AnswerRefusal,
    Choice,
    CommandInfo,
    Inbound,
    QuestionAsked,
    SessionInfo,
)
from goclaw.common.core.records import record
from goclaw.conversation.compaction.compacting import Compactor
from goclaw.conversation.questions.questions import Questions
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.sessions.forgetting import Forgetter
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.overheard import Overheard
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.sessions.state import Contexts
from goclaw.conversation.turns.costs import Costs
from goclaw.conversation.turns.status import Details, SessionInspection
from goclaw.conversation.turns.turn_context import SessionChoices
from goclaw.durable.engine.base import Engine
from goclaw.durable.store.approvals import ApprovalRules
from goclaw.durable.store.file_labels import FileLabels
from goclaw.durable.store.spending import Spending
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.tool_docs import ToolListing

COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)
"""`/name`, `/name@bot`, with or without arguments. `/etc/hosts` is no command."""


class CommandGateway(Protocol):
    """The gateway as commands see it."""

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        """Return the commands that an actor may use, and that do something for them."""

    async def sessions(self, actor: Actor) -> Sequence[SessionInfo]:
        """Return the sessions that an actor may read, the latest first."""

    async def report(self, inbound: Inbound, text: str) -> None:
        """Send a later answer to where a command came from."""

    async def decide(self, actor: Actor, question: str, answer: str, chat: Address | None = None) -> Acceptance:
        """Answer a question by its id, from `chat`, in whatever session it is asked; return the reply for the actor."""

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        """Return the open questions that an actor may answer now, in all sessions."""

    async def decline(self, actor: Actor, question: str) -> Acceptance:
        """Answer a question by its id that there will be no answer; return the reply for the actor."""


class SessionServices(Protocol):
    """The services of sessions (`app.sessions.SessionParts`)."""

    choices: SessionChoices
    compactor: Compactor
    contexts: Contexts
    costs: Costs
    file_labels: FileLabels
    forgetter: Forgetter
    inspection: SessionInspection
    models: Models
    overheard: Overheard
    pauses: Pauses


@record
class Reports:
    """Reports of commands about the gateway."""

    details: Callable[[str], Awaitable[Details]]
    """More for the status of a session: channels, queue, users file, disk."""
    rights: Callable[[Actor, str], str]
    """Describes an actor's rights, and the workspace in a session."""
    spending: Spending
    tools: ToolListing
    """The tools, and what of them does not work."""


@record
class Entrances:
    """The ways in for new people and browsers."""

    pairing: Pairing | None
    """Pairing of new users; None where it is unavailable."""
    logins: WebLogins | None
    """Pages that ask to be let in; None where there is no web page."""


@record
class CommandPorts:
    """The services that commands use; `app` fills them in."""

    access: Access
    environment: ToolEnvironment
    bus: Bus
    engine: Engine
    questions: Questions
    rules: ApprovalRules
    schedules: Schedules
    sessions: SessionServices
    reports: Reports
    entrances: Entrances

    @property
    def audit(self) -> Callable[[AuditEntry], None]:
        return self.environment.audit

    @property
    def clock(self) -> Clock:
        return self.environment.clock


@record
class CommandContext:
    """One call of a command."""

    inbound: Inbound
    arguments: str
    """The text behind the command's name."""
    ports: CommandPorts
    gateway: CommandGateway

    @property
    def actor(self) -> Actor:
        return self.inbound.actor

    @property
    def session(self) -> str:
        return self.inbound.session


@record
class Reply:
    """A command's answer: an immediate text, or a turn that ends with the answer."""

    text: str = ""
    turn: str = ""
    aligned: bool = False
    """Whether the text's lines are indented on purpose: a chat shows them as they are, in one width."""
    markdown: bool = False
    """Whether the text has headings and tables: a terminal shows them as it shows an answer."""
    choices: tuple[Choice, ...] = ()
    """Buttons below it in a chat."""
    refusal: AnswerRefusal | None = None
    """Reason that the command does not count as an answer to a question; None: it counts, or it is no answer."""


def serves_everybody(ports: CommandPorts, actor: Actor) -> bool:
    """Whether a command does something for a person, where it does for everybody."""
    return True


@record
class Command:
    """A line of the catalogue."""

    name: str
    summary: str
    """One line for menus and /help, in the imperative."""
    run: Callable[[CommandContext], Awaitable[Reply]]
    for_admins: bool = False
    """Whether it is shown to admins alone, and refused to others."""
    anywhere: bool = False
    """Whether it neither reads nor changes its session's state in memory: any of several processes may run it."""
    serves: Callable[[CommandPorts, Actor], bool] = serves_everybody
    """Whether it does something for a person; a command that does not runs, but no menu and no /help has it."""
