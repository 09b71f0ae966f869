"""Queries about memory from a command line, with their access checks; and the state of memory as text.

The queries are for the daemon's clients, and for commands without a daemon. The state is brief for `/status`, in full
for `/memory` and `goclaw memory status`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from goclaw.common.auth.access import Access
from goclaw.common.config.schema import MemorySettings
from goclaw.common.core.codec import Codec
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.workspace import Workspace
from goclaw.errors import AccessDenied, StateError, ToolError
from goclaw.memory.base import (
    DISABLED,
    QUOTES,
    MemoryPort,
    MemoryStatus,
    Talk,
    TranscriptQuery,
    TranscriptResults,
    owner_of,
)

Order = Literal["search", "list", "file", "status", "reindex", "talks", "heard"]
"""The last two are for tools that run in a process of their own, and for the owner alone: they decide who may what."""

TALKS: Codec[Sequence[Talk]] = Codec(Sequence[Talk])
WANTED: Codec[TranscriptQuery] = Codec(TranscriptQuery)
HEARD: Codec[TranscriptResults] = Codec(TranscriptResults)

MAX_SHOWN = 1 << 20
"""Bytes of a memory file that are shown."""


class NoSuchFile(AccessDenied):
    """The file does not exist, or is not for this actor."""

    def __init__(self) -> None:
        super().__init__("there is no such memory file for you")


class MemoryOff(StateError):
    """`memory.enabled` is false."""

    def __init__(self) -> None:
        super().__init__("memory is off: memory.enabled is false")


@record
class MemoryQuery:
    """A query about memory."""

    order: Order
    query: str = ""
    user: str = ""
    """The user to query as, by the key in users.json; empty: the caller."""
    everybody: bool = False
    """Search every readable conversation, not only the user's own."""
    limit: int = 0
    """Passages of files, and quotes, at most; 0: `memory.max_results` and `base.QUOTES`."""
    wanted: Mapping[str, Any] = field(default_factory=dict)
    """For `heard`: a `base.TranscriptQuery` as JSON data."""


@record
class MemoryQueries:
    """The answers to such queries, as JSON data."""

    memory: MemoryPort
    access: Access
    workspace: Callable[[Actor], Awaitable[Workspace]]
    settings: MemorySettings

    async def answer(self, actor: Actor, question: MemoryQuery) -> dict[str, Any]:
        """Return the answer to a query.

        Raises:
            AccessDenied: the actor may not.
            StateError: memory is off, or the disk refuses.
        """
        if question.user and question.user != actor.key:
            if not actor.owner:
                raise AccessDenied("only the owner of the state folder may search as another person")
            actor = Actor(question.user, "cli")
        if not self.settings.enabled and question.order != "status":
            raise MemoryOff
        try:
            match question.order:
                case "search":
                    return await self._search(actor, question)
                case "list":
                    self._demand(actor, "tool.use", "memory_list")
                    files = await self.memory.files(await self.workspace(actor), actor.key)
                    return {"files": [asdict(file) for file in files]}
                case "file":
                    return await self._file(actor, question.query.removeprefix("./"))
                case "talks" | "heard":
                    return await self._of_talk(actor, question)
                case "reindex":
                    self._demand(actor, "command.admin", "memory")
                    await self.memory.reindex()
            status = await self.memory.status()
            counts = self._may(actor, "command.admin", "memory")
            lines = [list(line) for line in status_lines(status, counts=counts)]
            numbers = {name: value for name, value in asdict(status).items() if counts or name not in COUNTS}
            return {**numbers, "lines": lines}
        except ToolError as error:
            raise StateError(str(error)) from error

    async def _file(self, actor: Actor, path: str) -> dict[str, Any]:
        """Return a memory file that the actor may see: those that are listed for them, as `memory_get` has it."""
        self._demand(actor, "tool.use", "memory_get")
        home = await self.workspace(actor)
        if path not in {file.path for file in await self.memory.files(home, actor.key)}:
            raise NoSuchFile
        # Read as the person the file is listed for: a link put in its place reaches no other person's notes.
        data = await home.seen_by(owner_of(path)).use(path, lambda opened: opened.file.read(MAX_SHOWN))
        return {"path": path, "text": data.decode("utf-8-sig", errors="replace")}

    async def _of_talk(self, actor: Actor, question: MemoryQuery) -> dict[str, Any]:
        """Return the index's data of all conversations."""
        if not actor.owner:
            raise AccessDenied("only the owner of the state folder may search conversations without a person")
        if question.order == "talks":
            return {"talks": TALKS.to_data(await self.memory.talks())}
        try:
            wanted = WANTED.from_data(question.wanted)
        except ValidationError as error:
            raise StateError(
                f"the query cannot be read; run {daemon_command('restart')}, so that both have the same version"
            ) from error
        return {"heard": HEARD.to_data(await self.memory.search_transcripts(wanted, question.limit or QUOTES))}

    async def _search(self, actor: Actor, question: MemoryQuery) -> dict[str, Any]:
        limit = question.limit or self.settings.max_results
        self._demand(actor, "tool.use", "memory_search")
        found = await self.memory.search(await self.workspace(actor), actor.key, question.query, limit)
        answer = {"mode": found.mode, "notes": [asdict(hit) for hit in found.hits], "conversations": []}
        if not self._may(actor, "tool.use", "transcript_search"):
            return answer
        try:
            sessions = list(self._sessions(actor, await self.memory.talks(), everybody=question.everybody))
            heard = await self.memory.search_transcripts(
                TranscriptQuery(question.query, sessions), question.limit or QUOTES
            )
        except ToolError as error:
            return {**answer, "left_out": str(error)}
        quotes = [asdict(replace(quote, lines=tuple(quote.lines))) for quote in heard.quotes]
        return {**answer, "conversations": quotes}

    def _sessions(self, actor: Actor, talks: Sequence[Talk], *, everybody: bool) -> Iterator[str]:
        mine = frozenset({actor.key})
        for talk in talks:
            if (everybody or talk.senders == mine) and self._may(actor, "session.read", talk.session):
                yield talk.session

    def _may(self, actor: Actor, action: str, target: str) -> bool:
        return self.access.authorize(actor, action, target).allowed

    def _demand(self, actor: Actor, action: str, target: str) -> None:
        decision = self.access.authorize(actor, action, target)
        if not decision.allowed:
            raise AccessDenied(f"denied: {decision.rule}")


SEARCHED = "Searched"
"""The name of the brief line that counts the data of all users."""
COUNTS = frozenset({"files", "conversations", "passages", "embedded", "to_embed"})
"""Fields of `MemoryStatus` that count notes and conversations of all users, which are for admins."""


def quote_lines(text: str) -> str:
    """Return an untrusted text with its further lines indented, so that none passes for one of ours."""
    return "\n    ".join(text.splitlines())


def status_lines(status: MemoryStatus, *, counts: bool) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the whole state; with `counts`, also totals over all users."""
    if not status.enabled:
        yield "Mode", f"off: {DISABLED}"
        return
    if counts:
        yield "Files", f"{status.files:,}"
        yield "Conversations", f"{status.conversations:,}"
        yield "Passages", f"{status.passages:,}"
    yield "Mode", _mode(status)
    yield "Embedder", status.trouble or status.embedder or "not available (docs/memory.md says how to get one)"
    if made := _vectors(status, counts=counts):
        yield "Vectors", made
    for detail in status.details:
        yield "Note", detail


def brief_status_lines(status: MemoryStatus) -> Iterator[tuple[str, str]]:
    """Yield two lines while all is well, and every irregularity: work in progress, and why vectors are not used."""
    if not status.enabled:
        yield "Mode", f"off: {DISABLED}"
        return
    counted = ((status.files, "file"), (status.conversations, "conversation"))
    yield SEARCHED, ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counted)
    yield "Mode", _mode(status)
    if status.trouble:
        yield "Embedder", status.trouble
    elif status.embedded < status.to_embed:
        yield "Vectors", _vectors(status, counts=False)
    for detail in status.details:
        yield "Note", detail


def _mode(status: MemoryStatus) -> str:
    return "hybrid: words and meaning" if status.embedder and not status.trouble else "keyword: words only"


def _vectors(status: MemoryStatus, *, counts: bool) -> str:
    """Return the progress of the vectors; empty if there is nothing to make any of."""
    if status.embedded < status.to_embed:
        part = f"{int(100 * status.embedded / status.to_embed)} %"
        how_far = f"{status.embedded:,} of {status.to_embed:,} ({part})" if counts else part
        return f"{how_far} of {status.coming}, which then takes over" if status.coming else how_far
    if not status.to_embed:
        return ""
    return f"all {status.to_embed:,}" if counts else "all"
