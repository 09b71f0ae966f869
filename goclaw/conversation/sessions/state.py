"""The in-memory state of conversations, and their empty start by /clear."""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace

from goclaw.common.auth.access import ChosenMode
from goclaw.common.config.values import QueueMode
from goclaw.common.core.clock import Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Todo
from goclaw.common.core.messages import Artifact, SourceKind
from goclaw.common.core.records import record
from goclaw.conversation.agent.context.model_messages import ContentMarkers
from goclaw.conversation.agent.context.window import PrunedView, Window, context_entry
from goclaw.conversation.agent.limits import TurnRules
from goclaw.conversation.sessions.overheard_message import OverheardMessage
from goclaw.conversation.sessions.reminding import SessionReminders
from goclaw.durable.store.schema import MATERIAL_KEY
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.transcripts import LAST_ROW, Transcripts

log = logging.getLogger(__name__)

QUEUE_MODE = "queue_mode"
"""The session's setting for its queue mode."""
MODE = "mode"
"""The session's setting for its permission mode, and the configured one at the time of the choice."""
AGENT = "agent"
"""The session's setting for the agent chosen by `/agent`."""
DEMO_SINCE = "demo_since"
"""The session's setting for the beginning of the demo model's answers; see `DemoSince`."""
PLANNED = "planned"
"""The session's setting for the message of its context at which plan mode first applied."""
VIEW = "view"
"""The session's setting for the parts of its context that are shown smaller than stored."""
HEARD = "heard"
"""The session's setting for the overheard messages that wait for its next message: see `overheard`."""
_VIEW: Codec[PrunedView] = Codec(PrunedView)
SESSIONS_IN_MEMORY = 200
"""Maximum conversations with a loaded window; the least recently used is dropped, and read again when needed."""
BYTES_IN_MEMORY = 32 << 20
"""Maximum (estimated) bytes of all loaded windows; the same."""


@record
class CompactRequest:
    """A /compact while a turn runs."""

    instructions: str
    report: Callable[[str], Awaitable[None]]
    """Takes the command's answer to the person who asked."""


@record
class DemoSince:
    """The beginning of the demo model's answers in a conversation."""

    row: int
    """Of the first message to it."""
    is_whole: bool
    """Nothing that a real model may go on with was in the context before."""


@dataclass(slots=True)
class SessionSettings:
    """The choices and lists of a session that the store has as its settings."""

    todos: tuple[Todo, ...] = ()
    """The agent's list of things to do."""
    queue_mode: QueueMode | None = None
    """The mode chosen by `/queue`; None: the configured mode."""
    mode: ChosenMode | None = None
    """The mode chosen by `/mode` or an approved plan; None: the configured mode."""
    planned: int = 0
    """Row of the context's message at which plan mode was first met; 0: it was not."""
    agent: str = ""
    """The agent chosen by `/agent`; empty: none."""
    demo: DemoSince | None = None
    """The demo model gave the latest answer; None: a real one did, or none was given yet."""
    overheard: tuple[OverheardMessage, ...] = ()
    """Overheard messages that wait for the next message."""


@dataclass(slots=True)
class TurnState:
    """The turn that runs in a session, or ran last."""

    actor: Actor | None = None
    """The actor for whom it runs; None: no turn since the session was loaded."""
    running: bool = False
    rules: TurnRules | None = None
    """Those of the turn before, until its own are known."""
    mementos: str = ""
    """The mementos in the latest request, in their marks."""
    artifacts: list[Artifact] = field(default_factory=list)
    """Artifacts that tools kept for people."""
    last_answer: dict[str, object] = field(default_factory=dict)
    """The log's line about the last answer (`answers.figures_of`); empty: there is no answer yet."""
    refused: list[str] = field(default_factory=list)
    """Tools with denied calls."""
    notify: Callable[[str, str], Awaitable[None]] | None = None
    """Sends a line to its chat while it runs, besides its answer: its topic, and the line."""


@dataclass(slots=True)
class CompactionState:
    """The compaction of a session's window."""

    running: bool = False
    request: CompactRequest | None = None
    useless_at: int = 0
    """Tokens that were left by a compaction that freed next to nothing: another one would not help either."""
    uncompressed: str = ""
    """The turn before which the history policy found no model to write a summary."""


@dataclass(slots=True)
class Session:
    """One conversation in memory."""

    key: str
    window: Window
    settings: SessionSettings = field(default_factory=SessionSettings)
    turn: TurnState = field(default_factory=TurnState)
    """While it runs, the session must stay in memory."""
    compaction: CompactionState = field(default_factory=CompactionState)
    reminders: SessionReminders = field(default_factory=SessionReminders)
    """The model's reminders, from turn to turn."""
    overhead: int = 0
    """Tokens of system prompt and tools in the latest request."""
    cleared: int = 0
    """Number of `/clear` commands: results made from the context before must not come back."""
    gone: bool = False
    """It was deleted: code that still holds it must store nothing."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the window is rebuilt."""

    @property
    def actor(self) -> Actor | None:
        """The actor for whom the present turn runs; None: no turn runs."""
        return self.turn.actor if self.turn.running else None

    @property
    def person(self) -> str:
        """Actor key of the person of the latest turn; empty: no turn since it was loaded."""
        return self.turn.actor.key if self.turn.actor else ""

    @property
    def fixed(self) -> int:
        """Tokens of system prompt and tools, as the model that answers counts them."""
        return int(self.window.scale * self.overhead)


class Contexts:
    """The windows of all conversations."""

    def __init__(self, transcripts: Transcripts, stored: Settings, clock: Clock) -> None:
        self._transcripts = transcripts
        self._stored = stored
        self._clock = clock
        self._loaded: OrderedDict[str, Session] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """(Estimated) bytes of each loaded window when it was last counted."""
        self._markers: ContentMarkers | None = None
        self._changed = 0
        """Number of conversations dropped or cleared: a load during which it changes is repeated."""
        self._reminders: dict[str, SessionReminders] = {}
        """Kept apart from the windows: no store has them, so they must survive when a window is read again."""

    async def session(self, key: str) -> Session:
        """Return the conversation, read from the store if it is not in memory."""
        while (session := self._loaded.get(key)) is None:
            changed, fresh = self._changed, await self._load(key)
            if changed == self._changed:  # else what was read may be what was forgotten meanwhile
                session = self._loaded.setdefault(key, fresh)
                self._weigh(session)
                break
        self._loaded.move_to_end(key)
        if len(self._loaded) > SESSIONS_IN_MEMORY or self._bytes() > BYTES_IN_MEMORY:
            self._drop_idle(session)
        return session

    def _drop_idle(self, used: Session) -> None:
        """Drop the least recently used conversations, but `used` and those with a running turn, down to the bounds."""
        for idle in [known for known in self._loaded.values() if not known.turn.running and known is not used]:
            if len(self._loaded) <= SESSIONS_IN_MEMORY and self._bytes() <= BYTES_IN_MEMORY:
                return
            self._unload(idle.key)
            if idle.reminders.idle:
                self._reminders.pop(idle.key, None)

    def _unload(self, key: str) -> Session | None:
        self._sizes.pop(key, None)
        return self._loaded.pop(key, None)

    def _weigh(self, session: Session) -> None:
        """Count the present size of a loaded conversation."""
        if self._loaded.get(session.key) is session:
            self._sizes[session.key] = session.window.estimate_bytes()

    def _bytes(self) -> int:
        return sum(self._sizes.values())

    def find(self, key: str) -> Session | None:
        """Return the conversation, if it is in memory: recent choices for it are known there."""
        return self._loaded.get(key)

    def owing(self) -> list[str]:
        """Return the conversations in memory that wait for a summary."""
        return [key for key, session in self._loaded.items() if session.window.owed]

    @property
    def busy(self) -> bool:
        """Whether a turn runs in any conversation."""
        return any(session.turn.running for session in self._loaded.values())

    @asynccontextmanager
    async def working(self, key: str, actor: Actor) -> AsyncIterator[Session]:
        """Yield the conversation for a turn of the actor, which runs meanwhile."""
        session = await self.session(key)
        session.turn = TurnState(actor, running=True, rules=session.turn.rules)
        try:
            yield session
        finally:
            session.turn.running, session.turn.notify = False, None
            self._weigh(session)

    async def _load(self, key: str) -> Session:
        settings = await self._stored.of_session(key)
        stored = await self._transcripts.context(key)
        # A long conversation is some megabytes, and each message is measured.
        window = await asyncio.to_thread(Window.of, *stored, _VIEW.from_data(settings.get(VIEW, {})))
        window.markers = await self._content_markers()
        chosen = SessionSettings(
            todos=tuple(Todo(**todo) for todo in settings.get("todos", ())),
            queue_mode=settings.get(QUEUE_MODE),
            mode=ChosenMode(**settings[MODE]) if MODE in settings else None,
            planned=settings.get(PLANNED, 0),
            agent=settings.get(AGENT, ""),
            demo=DemoSince(**settings[DEMO_SINCE]) if DEMO_SINCE in settings else None,
            overheard=tuple(OverheardMessage(**overheard) for overheard in settings.get(HEARD, ())),
        )
        return Session(key, window, chosen, reminders=self._reminders.setdefault(key, SessionReminders()))

    async def _content_markers(self) -> ContentMarkers:
        """Return the markers of untrusted content, constant for the lifetime of the database."""
        if self._markers is None:
            # A file has a key from its first day; one that lost it gets marks that last until the next restart.
            key = await self._stored.fact(MATERIAL_KEY) or secrets.token_hex()
            markers = ContentMarkers(bytes.fromhex(key))
            if self._markers is None:  # no other task was quicker
                self._markers = markers
        return self._markers

    def forget(self, key: str, *, gone: bool = False) -> None:
        """Drop a conversation from memory: the store is newer (a turn ended half-way), or it was deleted (`gone`)."""
        self._changed += 1
        session = self._unload(key)
        if session is not None:
            session.gone = gone
        if gone:
            self._reminders.pop(key, None)

    def forget_before(self, key: str, row: int, *, whole: bool) -> None:
        """Drop the rows before `row`, which were deleted; `whole`: so was the summary of the earlier ones."""
        session = self._loaded.get(key)
        if session is None or not session.turn.running:
            self.forget(key)
        else:  # the turn goes on with what is left
            window = session.window
            kept = ("", False, frozenset[SourceKind]()) if whole else (window.summary, window.owed, window.outside)
            window.drop_before(row, kept[0], owed=kept[1], outside=kept[2])

    async def clear_tools(self, key: str) -> int:
        """Leave every tool call and result so far out of the context; returns how many messages that concerns."""
        session = await self.session(key)
        async with session.lock:
            window = session.window
            if not window.entries:
                return 0
            before = [entry.message for entry in window.entries]
            view = replace(window.view, no_tools_to=window.entries[-1].row)
            window.reduce(view)
            await self._stored.set(key, VIEW, asdict(view))
            kept = {id(entry.message) for entry in window.entries}
        return sum(id(message) not in kept for message in before)

    async def clear(self, key: str) -> None:
        """Start an empty context. The rows of a turn that has not ended stay, so that it can go on."""
        if known := self._loaded.get(key):
            # Before the store is asked: a summary that is stored after this is not taken, one before it is hidden.
            known.cleared += 1
            known.settings.overheard = ()
        await self._stored.set(key, HEARD, None)
        last = await self._transcripts.clear(key, at=self._clock.now())
        _, stored = await self._transcripts.context(key)
        self._changed += 1
        known = self._loaded.get(key)
        if known is None:
            return
        window = known.window
        window.drop_before(last + 1)
        # What of the turn a summary stood for, which is gone, is shown again.
        first = window.entries[0].row if window.entries else LAST_ROW
        window.entries[:0] = [entry for entry in window.view.of(map(context_entry, stored)) if entry.row < first]
