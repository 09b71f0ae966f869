"""The memory service: files and conversations in, passages out. Above: tools, commands. Below: the index.

A search first brings the index in line, as far as that is quick (`file_indexer`, `transcript_indexer`); in the
background, workspaces are watched, new messages indexed, and texts given their vectors (`vector_search`). A start or
a turn waits for none of these.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

from goclaw.common.config.schema import Config
from goclaw.common.config.state import NOTES, private_paths
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, ends_within, run_with_restarts
from goclaw.common.workspace import Workspace
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.errors import StateError, ToolError
from goclaw.memory import excerpts
from goclaw.memory.base import (
    MemoryFile,
    MemoryPort,
    MemoryStatus,
    NoMemory,
    NoteResults,
    Talk,
    TranscriptQuery,
    TranscriptResults,
)
from goclaw.memory.dates import moment
from goclaw.memory.embedding import Embedders, select_embedders
from goclaw.memory.file_indexer import DocumentText, FileIndexer, WorksIn, everywhere, name_of
from goclaw.memory.index import database, notes, talk, text_vectors
from goclaw.memory.index.database import BrokenIndex, IndexFile, open_index
from goclaw.memory.searching import ranked_places
from goclaw.memory.transcript_indexer import TranscriptIndexer
from goclaw.memory.vector_search import VectorSearch
from goclaw.memory.watching import watch

log = logging.getLogger(__name__)

T = TypeVar("T")

FRESH_SECONDS = 2.0
"""Seconds that a search waits at most for new notes: the rest is indexed in the background."""
START_AFTER = 2.0
"""Seconds between a start and the first background work: the start waits for channels, not for memory."""
NO_TRANSCRIPTS = (
    "conversations cannot be searched here: memory.transcripts is false, or no daemon is running "
    f"({daemon_command('start')})"
)


@record
class _Searched:
    """A workspace that is searched."""

    root: Path
    shared: Path | None = None


class Memory:
    """The `MemoryPort`; made by `open_memory`. Searches and lists raise StateError where the index cannot be read."""

    def __init__(
        self,
        path: Path,
        index: IndexFile,
        config: Config,
        clock: Clock,
        feed: TranscriptFeed | None,
        embedders: Embedders,
        *,
        alone: bool,
        works_in: WorksIn,
        document_text: DocumentText | None,
    ) -> None:
        self._path = path
        self._works_in = works_in
        self._index = index
        self._config = config
        self._clock = clock
        self._feed = feed if config.memory.transcripts else None
        self._alone = alone
        self._file_indexer = FileIndexer(index, config.memory, clock, works_in, document_text)
        self._transcript_indexer = TranscriptIndexer(index, self._feed, clock) if self._feed else None
        self._vector_search = VectorSearch(index, embedders, clock, alone=alone, shared=feed.vectors if feed else None)
        self._roots: dict[str, _Searched] = {}
        """The workspaces that are searched, by name."""
        self._watch = asyncio.Queue[_Searched]()
        self._remake = asyncio.Event()
        self._remaking: asyncio.Task[None] | None = None
        self._clearing = asyncio.Lock()
        self._cleared = False

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        """Search notes: see `MemoryPort.search`."""
        self.use(workspace)

        async def find() -> NoteResults:
            await self._if_writable(self._fresh(workspace))
            scope = await self._index.read(partial(notes.scope, workspace=name_of(workspace), actor_key=actor_key))
            near = await self._vector_search.near("note", query, scope)
            budget = self._config.memory.budget

            def hits(connection: sqlite3.Connection) -> NoteResults:
                ranked = ranked_places(connection, "note", query, scope, near or (), self._today())
                shown, more = excerpts.hits(connection, ranked, limit, budget)
                return NoteResults("keyword" if near is None else "hybrid", shown, more)

            return await self._index.read(hits)

        return await self._run_or_rebuild(find)

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        """List files: see `MemoryPort.files`."""
        self.use(workspace)

        async def list_files() -> list[MemoryFile]:
            await self._if_writable(self._fresh(workspace))
            return await self._index.read(partial(notes.files, workspace=name_of(workspace), actor_key=actor_key))

        return await self._run_or_rebuild(list_files)

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        """Search conversations: see `MemoryPort.search_transcripts`."""
        transcript_indexer = self._require_transcript_indexer()

        async def find() -> TranscriptResults:
            await self._if_writable(transcript_indexer.catch_up(alone=self._alone))
            deleted = dict(transcript_indexer.deleted)
            scope = await self._index.read(partial(talk.scope, wanted=wanted, deleted=deleted))
            near = None if wanted.phrase else await self._vector_search.near("talk", wanted.query, scope)
            budget = self._config.memory.budget

            def quotes(connection: sqlite3.Connection) -> TranscriptResults:
                ranked = ranked_places(
                    connection, "talk", wanted.query, scope, near or (), self._today(), phrase=wanted.phrase
                )
                shown, more = excerpts.quotes(connection, ranked, scope, limit, budget)
                return TranscriptResults("keyword" if near is None else "hybrid", shown, more, talk.gap(connection))

            return await self._index.read(quotes)

        return await self._run_or_rebuild(find)

    async def talks(self) -> Sequence[Talk]:
        """List conversations: see `MemoryPort.talks`."""
        transcript_indexer = self._require_transcript_indexer()

        async def list_talks() -> list[Talk]:
            await self._if_writable(transcript_indexer.catch_up(alone=self._alone))
            return await self._index.read(talk.talks)

        return await self._run_or_rebuild(list_talks)

    async def forget(self) -> bool:
        """Remove deleted conversations: see `MemoryPort.forget`."""
        await self._clear()
        if self._transcript_indexer is None:
            return await self._run_or_rebuild(self._drop_talk)
        # A rebuild in progress has read them already: it would bring the words back.
        again = self._remaking is not None
        if self._remaking is not None:
            self._remaking.cancel()
            await asyncio.wait({self._remaking})
        try:
            return await self._run_or_rebuild(self._transcript_indexer.forget)
        except StateError as error:
            log.warning("the memory index cannot forget what has gone: %s", error)
            return False
        finally:
            if again:
                self._remake.set()

    async def status(self) -> MemoryStatus:
        """Return the state of memory: see `MemoryPort.status`."""
        return await self._run_or_rebuild(self._status)

    async def reindex(self) -> None:
        """Rebuild the index: see `MemoryPort.reindex`. For a single command it is done when this returns."""
        if self._alone:
            await self._run_or_rebuild(self._make_anew)
        else:
            self._remake.set()

    def use(self, workspace: Workspace) -> None:
        """Search and watch a workspace from now on."""
        if name_of(workspace) not in self._roots:
            self._search(_Searched(workspace.root, workspace.shared))

    def _search(self, searched: _Searched) -> None:
        self._roots[str(searched.root)] = searched
        self._watch.put_nowait(searched)

    async def run(self) -> None:
        """Run the background work until cancelled."""
        if self._alone:
            await self._vector_search.maintain()
            return
        await self._clock.sleep(START_AFTER)
        await self._start()
        async with asyncio.TaskGroup() as group:
            for name, work in self._work().items():
                group.create_task(run_with_restarts(name, work, self._clock), name=name)
            while True:
                searched = await self._watch.get()
                name = f"memory files of {searched.root}"
                group.create_task(run_with_restarts(name, partial(self._follow, searched), self._clock), name=name)

    async def _clear(self) -> None:
        """Remove the rest of a rebuild after its process was killed: it contains words, too."""
        async with self._clearing:
            if not self._cleared:
                await asyncio.to_thread(database.discard_unfinished, self._path)
                self._cleared = True

    async def _start(self) -> None:
        """Remove the rest of the last run, and apply the configuration."""
        await self._clear()
        await self._if_writable(self._run_or_rebuild(partial(self._index.write, text_vectors.follow_nothing)))
        if not self._config.memory.transcripts:
            await self._if_writable(self._run_or_rebuild(self._drop_talk))
        root = self._config.workspace_path.expanduser().absolute()
        if str(root) not in self._roots and await asyncio.to_thread(root.is_dir):
            self._search(_Searched(root))

    def _work(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks that are restarted when they fail, by name."""
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "memory embedder": self._vector_search.maintain,
            "memory vectors": partial(self._run_or_rebuild, self._vector_search.fill),
            "memory index": self._remake_on_request,
        }
        return {**work, "memory of conversations": self._transcript_indexer.run} if self._transcript_indexer else work

    async def _follow(self, searched: _Searched) -> None:
        """Sweep a workspace whenever something changes in it, and read its documents."""
        paths = (*self._config.memory.paths, *self._config.memory.documents)
        async with (
            self._workspace(searched) as workspace,
            watch(workspace, paths, self._clock, partial(self._sweep, workspace)),
        ):
            await self._file_indexer.read_documents(workspace)

    def _workspace(self, searched: _Searched) -> Workspace:
        denied, notes = private_paths(self._config), self._config.state_dir / NOTES
        return Workspace(searched.root, denied, notes=notes, shared=searched.shared, spared=[self._config.people_path])

    async def _fresh(self, workspace: Workspace) -> None:
        """Index the latest files, unless that takes long: the workspace is followed anyway."""
        async with background(self._file_indexer.fresh(workspace), "memory files") as sweeping:
            if self._alone:
                await asyncio.wait({sweeping})
            else:
                await ends_within(sweeping, self._clock, FRESH_SECONDS)

    async def _sweep(self, workspace: Workspace) -> None:
        await self._run_or_rebuild(partial(self._file_indexer.sweep, workspace))

    async def _drop_talk(self) -> bool:
        """Remove conversations that are not to be searched (any more). Returns False if the file still has words."""
        if not await self._index.read(talk.highest_row):
            await self._index.drop_broken()
            return True
        for session in await self._index.read(talk.extents):
            while await self._index.write(partial(talk.forget, session=session)):
                await self._clock.sleep(0)
        gone = await self._index.rewrite()
        if gone:
            # Last: whatever is stored meanwhile, all of this is done again.
            await self._index.write(talk.restart)
        return gone

    async def _remake_on_request(self) -> None:
        while True:
            await self._remake.wait()
            self._remake.clear()
            began = self._clock.monotonic()
            try:
                async with background(
                    self._run_or_rebuild(self._make_anew), "making the memory index anew"
                ) as self._remaking:
                    await asyncio.wait({self._remaking})
                if not self._remaking.cancelled():
                    log.info("the memory index was rebuilt in %.1f s", self._clock.monotonic() - began)
            except StateError as error:
                log.warning("the memory index could not be rebuilt; the old one stays in use: %s", error)
            finally:
                self._remaking = None

    async def _make_anew(self) -> None:
        await database.rebuild_beside(self._index, self._path, self._fill_anew)

    async def _fill_anew(self, fresh: IndexFile) -> None:
        file_indexer = FileIndexer(fresh, self._config.memory, self._clock, self._works_in)
        for searched in list(self._roots.values()):
            async with self._workspace(searched) as workspace:
                await file_indexer.sweep(workspace)
        if self._feed:
            transcript_indexer = TranscriptIndexer(fresh, self._feed, self._clock)
            await transcript_indexer.fill()

    async def _status(self) -> MemoryStatus:
        files, conversations, passages = await self._index.read(text_vectors.sizes)
        vector_search = await self._vector_search.standing()
        return MemoryStatus(
            files=files,
            conversations=conversations,
            passages=passages,
            embedder=vector_search.model,
            trouble=vector_search.trouble,
            embedded=vector_search.count.embedded,
            to_embed=vector_search.count.units,
            coming=vector_search.coming,
            details=(*self._details(), *await self._index.read(_progress)),
        )

    def _details(self) -> Iterator[str]:
        if self._remaking or self._remake.is_set():
            yield "the index is being rebuilt; the old one serves until then"
        if not self._config.memory.transcripts:
            yield "conversations are not searched: memory.transcripts is false"

    def _require_transcript_indexer(self) -> TranscriptIndexer:
        if self._transcript_indexer is None:
            raise ToolError(NO_TRANSCRIPTS)
        return self._transcript_indexer

    def _today(self) -> date:
        return moment(self._clock.now()).date()

    async def _run_or_rebuild(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` on the index; if that turns out to be damaged, rebuild it and try once more."""
        try:
            return await work()
        except BrokenIndex as error:
            await self._index.rebuild(error)
            return await work()

    async def _if_writable(self, work: Awaitable[object]) -> None:
        """Bring the index in line; if the disk refuses, searches use it as it is."""
        try:
            await work
        except BrokenIndex:
            raise
        except StateError as error:
            log.warning("the memory index is not brought up to date: %s", error)


def _progress(connection: sqlite3.Connection) -> list[str]:
    """Return how far the index of conversations is, in words; empty when it is up to date."""
    missing = talk.gap(connection)
    if missing is None:
        return []
    begin, end = (moment(at).strftime("%Y-%m-%d %H:%M") for at in missing)
    done = 100 * talk.highest_row(connection) // max(1, talk.newest_seen(connection))
    return [f"conversations are being indexed ({done} %): messages from {begin} to {end} UTC cannot be found yet"]


@asynccontextmanager
async def open_memory(
    path: Path,
    config: Config,
    clock: Clock,
    feed: TranscriptFeed | None = None,
    *,
    alone: bool = False,
    embedders: Embedders | None = None,
    works_in: WorksIn = everywhere,
    document_text: DocumentText | None = None,
) -> AsyncIterator[MemoryPort]:
    """Yield memory over the index file `path`. Nothing is opened or made before it is needed.

    Args:
        feed: the transcripts; None: they are not searched.
        alone: for a command line: nothing runs in the background, and only existing vectors are used.
        embedders: others than those of the catalogue.
        works_in: whether a person's private notes are searched in a workspace.
        document_text: reads the documents of `memory.documents`; None: they are not searched.
    """
    if not config.memory.enabled:
        yield NoMemory(path)
        return
    async with open_index(path) as index:
        chosen = embedders or select_embedders(config, clock)
        memory = Memory(
            path, index, config, clock, feed, chosen, alone=alone, works_in=works_in, document_text=document_text
        )
        async with background(memory.run(), "memory"):
            yield memory
