"""Completion after `@`: the paths of a workspace that match the typed text, the likeliest first.

A listing is kept for some seconds, so that each typed letter costs a look through a list and not the disk.
"""

import asyncio
import heapq
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.workspace.workspace import Workspace
from goclaw.errors import ToolError

KEPT_SECONDS = 3.0
"""How old a listing may be: a file that was just made can be named with the next word."""
MAX_FOUND = 50
_MAX_CHARACTERS = 256
"""Characters of the typed text; people type no longer paths by hand."""

_View = tuple[Path, str | None]
"""A workspace, and its viewer: notes of other persons are not shown."""
_Rank = tuple[int, int, int]
"""In which way a path fits, how closely, how deep it lies; the smallest is the likeliest."""


class PathCandidate(NamedTuple):
    """A path that may be meant. (Ten thousand of these take a third of the time that as many dataclasses would.)"""

    path: str
    folded: str
    """For comparing: without case, composed Unicode, no `/` at the end of a folder."""
    name: str
    """The last part of `folded`."""
    depth: int
    is_hidden: bool


@record
class _Listing:
    at: float
    candidates: Sequence[PathCandidate]


class PathCompleter:
    """Finds paths in workspaces."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listings: dict[_View, _Listing] = {}
        self._locks: defaultdict[_View, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def matching(self, workspace: Workspace, begun: str, limit: int = MAX_FOUND) -> list[str]:
        """Return at most `limit` paths relative to the workspace, folders with a `/` at their end.

        A name with a dot at its beginning is found by typing the dot; one that is ignored or lies too far away for a
        listing, by typing its folder.
        """
        wanted = _below(begun, workspace.root)
        if wanted is None:
            return []
        found = await asyncio.to_thread(rank_paths, await self._candidates(workspace), wanted, limit)
        folder, slash, _ = wanted.rpartition("/")
        if found or not slash:
            return found
        try:
            near = await workspace.paths_in(folder)
        except ToolError:
            return []  # no folder, or none that may be seen
        return rank_paths(_candidates(near), wanted, limit)

    async def _candidates(self, workspace: Workspace) -> Sequence[PathCandidate]:
        view = (workspace.root, workspace.viewer)
        async with self._locks[view]:
            now = self._clock.monotonic()
            for old in [view for view, listing in self._listings.items() if now - listing.at >= KEPT_SECONDS]:
                del self._listings[old]
            if view not in self._listings:
                paths = await workspace.paths()
                self._listings[view] = _Listing(now, await asyncio.to_thread(_candidates, paths))
            return self._listings[view].candidates


def rank_paths(candidates: Sequence[PathCandidate], begun: str, limit: int) -> list[str]:
    """Return the matching paths, the likeliest first.

    A name that begins with the typed text comes before one that contains it, then paths in folders that do, then paths
    with the letters in this order; within each the closest first. With a `/` in it, the typed text is matched against
    the whole path.
    """
    said = _fold(begun)
    # Each step ends at the first letter that it looks for: there is one way only, and no backtracking.
    steps = [f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in said]
    scattered = re.compile("(?s)" + "".join(steps)) if len(said) > 1 else None
    shows_hidden = said.startswith(".") or "/." in said
    fitting = (
        (found, candidate.path)
        for candidate in candidates
        if (shows_hidden or not candidate.is_hidden) and (found := _rank(candidate, said, scattered)) is not None
    )
    return [path for _, path in heapq.nsmallest(limit, fitting)]


def _rank(candidate: PathCandidate, said: str, scattered: re.Pattern[str] | None) -> _Rank | None:
    """Return how well a candidate fits the input; None: it does not. `scattered`: the letters in this order."""
    target = candidate.folded if "/" in said else candidate.name
    size = 0 if not said or said.endswith("/") else len(target)
    if target.startswith(said):
        return 0, size, candidate.depth
    if said in target:
        return 1, size, candidate.depth
    if said in candidate.folded:
        return 2, candidate.depth, size
    for group, text in ((3, candidate.name), (4, candidate.folded)):
        if scattered and (found := scattered.match(text)):
            return group, found.end() - text.index(said[0]), candidate.depth
    return None


def _candidates(paths: Sequence[str]) -> list[PathCandidate]:
    return list(map(_candidate, paths))


def _candidate(path: str) -> PathCandidate:
    folded = _fold(path.removesuffix("/"))
    hidden = path.startswith(".") or "/." in path
    return PathCandidate(path, folded, folded.rpartition("/")[2], folded.count("/"), hidden)


def _fold(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def _below(begun: str, root: Path) -> str | None:
    """Return the typed text as a path relative to the workspace; None when it cannot be one."""
    wanted = begun.removeprefix(f"{root}/").removeprefix("./")
    leaves = wanted.startswith("/") or ".." in wanted.split("/")
    return None if leaves or len(wanted) > _MAX_CHARACTERS else wanted
