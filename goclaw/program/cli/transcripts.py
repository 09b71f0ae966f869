"""Reading of conversations: from the daemon that runs, else from the state folder under its lock (`offline`).

Never two processes on the database. Both ways ask the same `authorize`, and both read a page at a time.
"""

import difflib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from goclaw.clients.tui.client import Client, attach
from goclaw.common.auth.users import login_name
from goclaw.common.config.schema import Config
from goclaw.common.core.events import CompactionRecord, Outline, SessionInfo, TranscriptRow
from goclaw.common.core.wire import AskOutline, AskRows, AskSessions, ClientFrame, OutlineFrame, Rows, SessionsReply
from goclaw.errors import StateError
from goclaw.program.cli.process import listens_soon

FrameT = TypeVar("FrameT")

Entry = TranscriptRow | CompactionRecord
"""An entry of a transcript; a summary stands before the first row that it does not cover."""


Kept = Callable[[str], bool]
"""Whether the bytes of a picture, named by its key, are still there."""


class ConversationSource(Protocol):
    """A conversation that can be read. Made by `open_source`."""

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions that may be read, the latest first."""
        ...

    async def outline(self, last: int = 0) -> Outline:
        """Return the session's data without its rows; `begins` is where its last `last` messages begin."""
        ...

    async def page(self, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`; none at the end."""
        ...


class _Nothing:
    """There is no database yet."""

    async def sessions(self) -> Sequence[SessionInfo]:
        return ()

    async def outline(self, last: int = 0) -> Outline:
        return Outline("", 0, 1)

    async def page(self, after: int) -> Sequence[TranscriptRow]:
        return ()


class _Remote:
    """A source that asks the daemon.

    The daemon disconnects a client that is silent for long, as when its output waits in `less`: then we reconnect.
    """

    def __init__(self, stack: AsyncExitStack, socket: Path, session: str) -> None:
        self._stack = stack
        self._socket = socket
        self._session = session
        self._client: Client

    async def connect(self) -> None:
        """Attach (again)."""
        await self._stack.aclose()
        self._client = await self._stack.enter_async_context(attach(self._socket, self._session, limit=0))

    async def sessions(self) -> Sequence[SessionInfo]:
        found, after = list[SessionInfo](), None
        while True:
            reply = await self._answer(AskSessions(agents=True, after=after), SessionsReply)
            found += reply.sessions
            if not reply.more:
                return found
            after = found[-1].place

    async def outline(self, last: int = 0) -> Outline:
        return (await self._answer(AskOutline(last), OutlineFrame)).outline

    async def page(self, after: int) -> Sequence[TranscriptRow]:
        return (await self._answer(AskRows(after), Rows)).rows

    async def _answer(self, frame: ClientFrame, kind: type[FrameT]) -> FrameT:
        try:
            return await self._client.answer(frame, kind)
        except StateError:
            await self.connect()
            return await self._client.answer(frame, kind)


@asynccontextmanager
async def open_source(config: Config, session: str = "") -> AsyncIterator[ConversationSource]:
    """Open the conversation `session` (empty: one's own), from the daemon or from the state folder.

    Raises:
        StateError: neither can be used.
        AccessDenied: the user may not read it.
    """
    session = session or f"tui:{login_name()}"
    async with AsyncExitStack() as stack:
        if await listens_soon(config):
            remote = _Remote(stack, config.socket_path, session)
            await remote.connect()
            yield remote
        elif not (config.store or config.database_path.exists()):
            yield _Nothing()  # and nothing is made: this only reads
        else:
            from goclaw.program.cli.offline import open_stored

            yield await stack.enter_async_context(open_stored(config, session))


async def find_outline(source: ConversationSource, session: str, last: int = 0) -> Outline:
    """Return the outline of a conversation that exists.

    Raises:
        StateError: it does not; the message has the nearest name.
    """
    outline = await source.outline(last)
    if not outline.rows:
        keys = [info.key for info in await source.sessions()]
        close = difflib.get_close_matches(session, keys, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`goclaw sessions list` shows all."
        raise StateError(f"there is no session `{session}`; {hint}")
    return outline


async def entries(source: ConversationSource, outline: Outline, *, full: bool) -> AsyncGenerator[Entry, None]:
    """Yield a transcript from where the outline `begins`: all of it, or the part that the model is shown."""
    first = max(outline.begins, 0 if full else outline.shown_from)
    records = list(outline.compactions) if full else [outline.summary] if outline.summary else []
    waiting = sorted((record for record in records if record.first_kept >= first), key=lambda each: each.first_kept)
    after = first - 1 if first else 0
    while page := await source.page(after):
        for row in page:
            while waiting and waiting[0].first_kept <= row.row:
                yield waiting.pop(0)
            yield row
        after = page[-1].row
    for record in waiting:
        yield record
