"""The definition of a slash command, and the services it may use."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field

from goclaw.access import Access
from goclaw.clock import Clock
from goclaw.engine.base import Engine
from goclaw.events import Actor, CommandInfo, Inbound, SessionInfo
from goclaw.memory.base import MemoryPort
from goclaw.memory.off import NoMemory
from goclaw.pairing import Pairing
from goclaw.records import record
from goclaw.sessions.service import Sessions
from goclaw.sessions.status import Details
from goclaw.toolkit.tool_listing import ToolListing


@record
class CommandPorts:
    """The services that commands use; `app` fills them in."""

    access: Access
    sessions: Sessions
    engine: Engine
    clock: Clock
    visible: Callable[[Actor], Sequence[CommandInfo]]
    """The commands that an actor may use."""
    details: Callable[[str], Awaitable[Details]]
    """More for the status of a session: channels, queue, users file, disk."""
    report: Callable[[Inbound, str], Awaitable[None]]
    """Send a later answer to where a command came from."""
    rights: Callable[[Actor], str]
    """Describes an actor's rights."""
    tools: ToolListing
    """The tools, and what of them does not work."""
    readable: Callable[[Actor], Awaitable[Sequence[SessionInfo]]]
    """The sessions that an actor may read, the latest first."""
    pairing: Pairing | None = None
    """Pairing of new users; None where it is unavailable."""
    memory: MemoryPort = field(default_factory=NoMemory)


@record
class CommandContext:
    """One call of a command."""

    inbound: Inbound
    arguments: str
    """The text behind the command's name."""
    ports: CommandPorts

    @property
    def actor(self) -> Actor:
        return self.inbound.actor

    @property
    def session(self) -> str:
        return self.inbound.session


@record
class Reply:
    """A command's answer: a text at once, or a turn that ends with the answer."""

    text: str = ""
    turn: str = ""
    aligned: bool = False
    """Whether the text's lines are indented on purpose: a chat shows them as they are, in one width."""
    markdown: bool = False
    """Whether the text has headings and tables: a terminal shows them as it shows an answer."""


@record
class Command:
    """A line of the catalogue."""

    name: str
    summary: str
    """One line for menus and /help, in the imperative."""
    run: Callable[[CommandContext], Awaitable[Reply]]
    for_admins: bool = False
    """Whether it is shown to admins alone, and refused to others."""
