"""Queries about memory from a command line, with their access checks: for the daemon's clients and without a daemon."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from goclaw.access import Access
from goclaw.codec import Codec
from goclaw.config.schema import MemorySettings
from goclaw.errors import AccessDenied, StateError, ToolError
from goclaw.events import Actor
from goclaw.memory import status_text
from goclaw.memory.base import QUOTES, MemoryPort, Talk, TranscriptQuery, TranscriptResults
from goclaw.records import record
from goclaw.workspace import Workspace

Order = Literal["search", "list", "status", "reindex", "talks", "heard"]
"""The last two are for tools that run in a process of their own, and for the owner alone: they decide who may what."""

TALKS: Codec[Sequence[Talk]] = Codec(Sequence[Talk])
WANTED: Codec[TranscriptQuery] = Codec(TranscriptQuery)
HEARD: Codec[TranscriptResults] = Codec(TranscriptResults)

OFF = "memory is off: memory.enabled is false"


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
                raise AccessDenied("only the owner of the state folder asks as somebody else")
            actor = Actor(question.user, "cli")
        if not self.settings.enabled and question.order != "status":
            raise StateError(OFF)
        try:
            match question.order:
                case "search":
                    return await self._search(actor, question)
                case "list":
                    self._demand(actor, "tool.use", "memory_list")
                    files = await self.memory.files(await self.workspace(actor), actor.key)
                    return {"files": [asdict(file) for file in files]}
                case "talks" | "heard":
                    return await self._of_talk(actor, question)
                case "reindex":
                    self._demand(actor, "command.admin", "memory")
                    await self.memory.reindex()
            status = await self.memory.status()
            counts = self._may(actor, "command.admin", "memory")
            lines = [list(line) for line in status_text.lines(status, counts=counts)]
            return {**status_text.numbers(status, counts=counts), "lines": lines}
        except ToolError as error:
            raise StateError(str(error)) from error

    async def _of_talk(self, actor: Actor, question: MemoryQuery) -> dict[str, Any]:
        """Return the index's data of all conversations."""
        if not actor.owner:
            raise AccessDenied("only the owner of the state folder searches conversations by themselves")
        if question.order == "talks":
            return {"talks": TALKS.to_data(await self.memory.talks())}
        try:
            wanted = WANTED.from_data(question.wanted)
        except ValidationError as error:
            raise StateError("what is looked for cannot be read: `goclaw restart` makes both one version") from error
        return {"heard": HEARD.to_data(await self.memory.heard(wanted, question.limit or QUOTES))}

    async def _search(self, actor: Actor, question: MemoryQuery) -> dict[str, Any]:
        limit = question.limit or self.settings.max_results
        self._demand(actor, "tool.use", "memory_search")
        found = await self.memory.search(await self.workspace(actor), actor.key, question.query, limit)
        answer = {"mode": found.mode, "notes": [asdict(hit) for hit in found.hits], "conversations": []}
        if not self._may(actor, "tool.use", "transcript_search"):
            return answer
        try:
            sessions = list(self._sessions(actor, await self.memory.talks(), everybody=question.everybody))
            heard = await self.memory.heard(TranscriptQuery(question.query, sessions), question.limit or QUOTES)
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
