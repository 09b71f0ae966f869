"""Changes of files in the workspaces of subscribers and monitors.

One watch for each such person, with that person's rights, and none without subscribers. Kernel events are a hint to
look (`workspace.hints`); a change is a difference between two looks. So a flood of changes is one look, and a file that
came and went in between is never reported.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.supervise import run_with_restarts
from goclaw.common.workspace import FileQuery, FileStamp, Workspace
from goclaw.common.workspace.hints import Hints, NothingTold, open_hints
from goclaw.errors import ToolError
from goclaw.gateway.servers.mcp.backend import Change, Changed, ListChanged
from goclaw.gateway.servers.mcp.uris import FILE, file_uri, is_file, path_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two reads of the kernel's events; and at least ten times the duration of the last look at the files.
"""
SAFETY_SECONDS = 60.0
"""Seconds between two unprompted looks at the files: the kernel gets no events from a network folder."""
MAX_FILES = 10_000
"""Files that a monitor covers: one look at so many takes 0.06 s, in a thread."""
MAX_FOLDERS = 1_000
"""Folders watched for one person; the kernel's limit is for all programs of a user (`max_user_watches`)."""
MAX_PEOPLE = 32
"""People for whom files are watched at the same time."""
MAX_AT_ONCE = 200
"""Changes of one look that are reported one by one; with more, the workspace as a whole has changed."""
WHOLE = f"{FILE}:///"
"""Stands for the whole workspace in a change: its receivers list the files again."""

Event = Literal["created", "updated", "deleted"]
WorkspaceOf = Callable[[Actor], Awaitable[Workspace]]
Publish = Callable[[Change, str], None]
"""Publishes a change to the person with this key alone."""
StateT = TypeVar("StateT")


@record
class Interest:
    """The files that a person subscribes to."""

    actor: Actor
    everything: bool
    """Every file that `resources/list` shows."""
    uris: frozenset[str]
    """And these, whether it shows them or not."""

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of `uris`, relative to the workspace."""
        return frozenset(map(_path, self.uris))


@record
class Seen:
    """The result of one look."""

    named: Mapping[str, FileStamp | None] = field(default_factory=dict)
    """By path, the files subscribed to by name; None: the file is missing, or not for that person."""
    listed: Mapping[str, object] | None = None
    """By path, the files in `resources/list`; None: not subscribed to."""
    complete: bool = True
    """False: there are more than these."""

    def or_else(self, other: "Seen") -> "Seen":
        """Return this look, completed by the other one where this one did not look."""
        first = other if self.listed is None else self
        return Seen({**other.named, **self.named}, first.listed, first.complete)


class Interests:
    """The subscriptions, by subscriber, and the files as they were when each began."""

    def __init__(self, workspace: WorkspaceOf) -> None:
        self._workspace = workspace
        self._all: dict[object, tuple[Interest, Seen]] = {}
        self._put: dict[object, Interest] = {}
        """The last subscription of each, also while its files are still looked at."""
        self.changed = asyncio.Event()
        """Set when people may have been added or removed."""

    async def put(self, token: object, actor: Actor, uris: Iterable[str], *, everything: bool = False) -> None:
        """Subscribe `token` for `actor`: each change after this returns is reported. Only URIs of files count."""
        interest = Interest(actor, everything, frozenset(uri for uri in uris if is_file(uri)))
        if not (interest.uris or everything):
            self.drop(token)
            return
        self._put[token] = interest
        seen = await snapshot(await self._workspace(actor), interest)
        if self._put.get(token) is not interest:
            return  # it changed or ended its subscription meanwhile
        if token in self._all:
            seen = self._all[token][1].or_else(seen)
        self._all[token] = (interest, seen)
        self.changed.set()

    def drop(self, token: object) -> None:
        """End a subscription."""
        self._put.pop(token, None)
        if self._all.pop(token, None):
            self.changed.set()

    def of(self, person: str) -> Interest | None:
        """Return all subscriptions of the person with this key as one; None: there are none."""
        found = [interest for interest, _ in self._all.values() if interest.actor.key == person]
        if not found:
            return None
        uris = frozenset[str]().union(*(each.uris for each in found))
        return Interest(found[0].actor, any(each.everything for each in found), uris)

    def began(self, person: str) -> Seen:
        """Return the files as they were when the person's subscription began."""
        found = Seen()
        for interest, seen in self._all.values():
            found = found.or_else(seen) if interest.actor.key == person else found
        return found

    def people(self) -> list[str]:
        """Return the subscribers' keys, the earliest first."""
        return list(dict.fromkeys(interest.actor.key for interest, _ in self._all.values()))


async def snapshot(workspace: Workspace, interest: Interest) -> Seen:
    """Return the present state of the files subscribed to."""
    named = {path: await _version(workspace, path) for path in interest.paths}
    if not interest.everything:
        return Seen(named)
    found = await workspace.find(FileQuery(), most=MAX_FILES)
    return Seen(named, {each.path: each for each in found.entries}, found.complete)


async def follow_files(interests: Interests, clock: Clock, workspace: WorkspaceOf, publish: Publish) -> None:
    """Watch the files of all subscribers, until cancelled."""
    running: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            interests.changed.clear()
            people = interests.people()
            for person in running.keys() - set(people[:MAX_PEOPLE]):
                running.pop(person).cancel()
            if len(people) > MAX_PEOPLE:
                log.warning("files are watched for %d people; no more can subscribe", MAX_PEOPLE)
            for person in people[:MAX_PEOPLE]:
                if person not in running or running[person].done():
                    watch, name = _Watch(person, interests, clock, workspace, publish), f"files of {person}"
                    running[person] = group.create_task(run_with_restarts(name, watch.run, clock), name=name)
            await interests.changed.wait()


@dataclass(eq=False)
class _Watch:
    """The watch over the files of one person."""

    person: str
    interests: Interests
    clock: Clock
    workspace: WorkspaceOf
    publish: Publish
    _seen: Seen = field(default_factory=Seen)
    _warned: bool = False

    async def run(self) -> None:
        """Watch, starting again whenever the subscription changes, or folders come or go."""
        while interest := self.interests.of(self.person):
            workspace = await self.workspace(interest.actor)
            folders = await _folders(workspace, interest)
            try:
                async with open_hints(workspace, sorted(folders)) as hints:
                    await self._follow(workspace, interest, folders, hints)
            except NothingTold as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    await self.clock.sleep(LOOK_SECONDS)  # a folder went while the watch was laid
                    continue
                if not self._warned:
                    self._warned = True
                    words = "files of %s cannot be watched; checking for changes every %g s: %s"
                    log.warning(words, self.person, SAFETY_SECONDS, error)
                await self._check(workspace, interest)
                await self.clock.sleep(SAFETY_SECONDS)

    async def _follow(self, workspace: Workspace, interest: Interest, folders: frozenset[str], hints: Hints) -> None:
        """Return when the subscription, or the set of folders to watch, has changed."""
        due, pause = True, LOOK_SECONDS  # what happened before the watch was laid
        looked = self.clock.monotonic()
        ways = frozenset(str(way) for path in interest.paths for way in (path, *PurePosixPath(path).parents))
        while self.interests.of(self.person) == interest:
            if due or self.clock.monotonic() - looked >= SAFETY_SECONDS:
                began = self.clock.monotonic()
                await self._check(workspace, interest)
                if await _folders(workspace, interest) != folders:
                    return
                looked = self.clock.monotonic()
                pause = max(LOOK_SECONDS, 10 * (looked - began))
            await self.clock.sleep(pause)
            told = await hints.poll()
            if not folders.isdisjoint(told):
                return  # a folder that comes again under its old name is another one
            due = bool(told) if interest.everything else not ways.isdisjoint(told)

    async def _check(self, workspace: Workspace, interest: Interest) -> None:
        """Compare the files with the last snapshot, and report differences."""
        before = self._seen.or_else(self.interests.began(self.person))
        now = self._seen = await snapshot(workspace, interest)
        by_name = _find_changes(before.named, now.named)
        in_list = differences(before, now)
        for uri in sorted(interest.uris):
            if event := by_name.get(_path(uri)):
                self.publish(Changed(uri, event), self.person)
        if interest.everything:
            ours = {file_uri(path): event for path, event in {**in_list, **by_name}.items()}
            others = [Changed(uri, event) for uri, event in sorted(ours.items()) if uri not in interest.uris]
            for change in others if len(others) <= MAX_AT_ONCE else [Changed(WHOLE, "updated")]:
                self.publish(change, self.person)
        if {"created", "deleted"} & {*by_name.values(), *in_list.values()}:
            self.publish(ListChanged("resources"), self.person)


def _find_changes(before: Mapping[str, StateT | None], now: Mapping[str, StateT | None]) -> dict[str, Event]:
    """Return the changes of files covered by both looks, where None is a missing file."""
    found: dict[str, Event] = {}
    for path in before.keys() & now.keys():
        was, is_ = before[path], now[path]
        if was != is_:
            found[path] = "created" if was is None else "deleted" if is_ is None else "updated"
    return found


def differences(before: Seen, now: Seen) -> dict[str, Event]:
    """Return the changes of listed files. Additions to and removals from a truncated list are unknown."""
    if before.listed is None or now.listed is None:
        return {}
    paths = before.listed.keys() | now.listed.keys()
    if not (before.complete and now.complete):
        paths = before.listed.keys() & now.listed.keys()
    return _find_changes(
        {path: before.listed.get(path) for path in paths}, {path: now.listed.get(path) for path in paths}
    )


async def _folders(workspace: Workspace, interest: Interest) -> frozenset[str]:
    """Return the folders to watch: those on the way to files subscribed to by name, and all with listed files."""
    found = {"."}
    for path in sorted(interest.paths):
        for way in reversed(PurePosixPath(path).parents):
            if str(way) not in found and await _is_folder(workspace, str(way)):
                found.add(str(way))
    if interest.everything:
        found.update(path.removesuffix("/") for path in await workspace.paths() if path.endswith("/"))
    return frozenset(sorted(found)[:MAX_FOLDERS])


async def _is_folder(workspace: Workspace, path: str) -> bool:
    """Return whether it is a folder under its own name: folders reached through a link are not watched."""
    try:
        found = await workspace.stat(path)
    except ToolError:
        return False
    return found.is_folder and found.path == path


async def _version(workspace: Workspace, path: str) -> FileStamp | None:
    try:
        found = await workspace.stat(path)
    except ToolError:
        return None
    return None if found.is_folder else found.version


def _path(uri: str) -> str:
    """Return the path in the URI of a file, in the one spelling that the kernel uses."""
    return str(PurePosixPath(path_of(uri)))
