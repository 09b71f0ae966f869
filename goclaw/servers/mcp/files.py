"""Changes of files in the workspaces of those who want to know: who subscribed to a file, and monitors.

One watch for each such person, with that person's eyes, and none when nobody wants to know. The kernel's word is a
hint to look (`workspace.hints`); what changed is what two looks differ in. So a flood of changes is one look, and a
file that came and went in between is never told.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from goclaw.clock import Clock
from goclaw.errors import ToolError
from goclaw.events import Actor
from goclaw.records import record
from goclaw.servers.mcp.ports import Change, Changed, ListChanged
from goclaw.servers.mcp.uris import FILE, file_uri, is_file, path_of
from goclaw.supervise import keep_running
from goclaw.workspace import FileQuery, FileStamp, Workspace
from goclaw.workspace.hints import Hints, NothingTold, open_hints

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at what the kernel told; and at least ten times what the last look at the files took."""
SAFETY_SECONDS = 60.0
"""Between two looks at the files for which there was no reason: the kernel is told nothing by a network folder."""
MAX_FILES = 10_000
"""That a monitor is told of: one look at so many takes 0.06 s, in a thread."""
MAX_FOLDERS = 1_000
"""That are watched for one person; the kernel's limit is for all programs of a user (`max_user_watches`)."""
MAX_PEOPLE = 32
"""For whom files are watched at the same time."""
MAX_AT_ONCE = 200
"""Changes of one look that are told one by one; with more, the workspace as a whole has changed."""
WHOLE = f"{FILE}:///"
"""Stands for the workspace in a change: whoever is told of it looks anew."""

Event = Literal["created", "updated", "deleted"]
WorkspaceOf = Callable[[Actor], Awaitable[Workspace]]
Publish = Callable[[Change, str], None]
"""Tell a change to the person with this key alone."""
StateT = TypeVar("StateT")


@record
class Interest:
    """Which files a person wants to know of."""

    actor: Actor
    everything: bool
    """All that `resources/list` shows."""
    uris: frozenset[str]
    """And these, whether it shows them or not."""

    @property
    def paths(self) -> frozenset[str]:
        """What `uris` name, relative to the workspace."""
        return frozenset(map(_path, self.uris))


@record
class Seen:
    """What one look found."""

    named: Mapping[str, FileStamp | None] = field(default_factory=dict)
    """By path, what was wanted by name; None: it is not there, or not for that person."""
    listed: Mapping[str, object] | None = None
    """By path, what `resources/list` shows; None: nobody wanted to know."""
    complete: bool = True
    """False: there are more than these."""

    def or_else(self, other: "Seen") -> "Seen":
        """This, and of what was not looked at what the other one has."""
        first = other if self.listed is None else self
        return Seen({**other.named, **self.named}, first.listed, first.complete)


class Interests:
    """Who wants to know of which files, by whatever wants it; and what was there when that began."""

    def __init__(self, workspace: WorkspaceOf) -> None:
        self._workspace = workspace
        self._all: dict[object, tuple[Interest, Seen]] = {}
        self._put: dict[object, Interest] = {}
        """What each wanted last, also while that is still looked at."""
        self.changed = asyncio.Event()
        """There may be other people in it."""

    async def put(self, token: object, actor: Actor, uris: Iterable[str], *, everything: bool = False) -> None:
        """What `token` wants from now on for `actor`: each change after this returns. Only URIs of files count."""
        interest = Interest(actor, everything, frozenset(uri for uri in uris if is_file(uri)))
        if not (interest.uris or everything):
            self.drop(token)
            return
        self._put[token] = interest
        seen = await look(await self._workspace(actor), interest)
        if self._put.get(token) is not interest:
            return  # it wanted something else meanwhile, or nothing any more
        if token in self._all:
            seen = self._all[token][1].or_else(seen)
        self._all[token] = (interest, seen)
        self.changed.set()

    def drop(self, token: object) -> None:
        """It wants nothing any more."""
        self._put.pop(token, None)
        if self._all.pop(token, None):
            self.changed.set()

    def of(self, person: str) -> Interest | None:
        """All that is wanted for the person with this key; None: nothing."""
        found = [interest for interest, _ in self._all.values() if interest.actor.key == person]
        if not found:
            return None
        uris = frozenset[str]().union(*(each.uris for each in found))
        return Interest(found[0].actor, any(each.everything for each in found), uris)

    def began(self, person: str) -> Seen:
        """What was there when the person began to want to know."""
        found = Seen()
        for interest, seen in self._all.values():
            found = found.or_else(seen) if interest.actor.key == person else found
        return found

    def people(self) -> list[str]:
        """Their keys, whoever wanted it first first."""
        return list(dict.fromkeys(interest.actor.key for interest, _ in self._all.values()))


async def look(workspace: Workspace, interest: Interest) -> Seen:
    """See what is there of what is wanted."""
    named = {path: await _version(workspace, path) for path in interest.paths}
    if not interest.everything:
        return Seen(named)
    found = await workspace.find(FileQuery(), most=MAX_FILES)
    return Seen(named, {each.path: each for each in found.entries}, found.complete)


async def follow_files(interests: Interests, clock: Clock, workspace: WorkspaceOf, publish: Publish) -> None:
    """Watch the files of whoever wants to know of them, until cancelled."""
    running: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            interests.changed.clear()
            people = interests.people()
            for person in running.keys() - set(people[:MAX_PEOPLE]):
                running.pop(person).cancel()
            if len(people) > MAX_PEOPLE:
                log.warning("files are watched for %d people, more want to know: they are told nothing", MAX_PEOPLE)
            for person in people[:MAX_PEOPLE]:
                if person not in running or running[person].done():
                    watch, name = _Watch(person, interests, clock, workspace, publish), f"files of {person}"
                    running[person] = group.create_task(keep_running(name, watch.run, clock), name=name)
            await interests.changed.wait()


class _Watch:
    """The files of one person."""

    def __init__(
        self, person: str, interests: Interests, clock: Clock, workspace: WorkspaceOf, publish: Publish
    ) -> None:
        self._person = person
        self._interests = interests
        self._clock = clock
        self._workspace = workspace
        self._publish = publish
        self._seen = Seen()
        self._warned = False

    async def run(self) -> None:
        """Watch, anew whenever something else is wanted, or folders come or go."""
        while interest := self._interests.of(self._person):
            workspace = await self._workspace(interest.actor)
            folders = await _folders(workspace, interest)
            try:
                async with open_hints(workspace.root, sorted(folders)) as hints:
                    await self._follow(workspace, interest, folders, hints)
            except NothingTold as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    await self._clock.sleep(LOOK_SECONDS)  # a folder went while the watch was laid
                    continue
                self._warn(str(error))
                await self._look(workspace, interest)
                await self._clock.sleep(SAFETY_SECONDS)

    async def _follow(self, workspace: Workspace, interest: Interest, folders: frozenset[str], hints: Hints) -> None:
        """Return when something else is wanted, or other folders are to be watched."""
        due, pause = True, LOOK_SECONDS  # what happened before the watch was laid
        looked = self._clock.monotonic()
        ways = frozenset(str(way) for path in interest.paths for way in (path, *PurePosixPath(path).parents))
        while self._interests.of(self._person) == interest:
            if due or self._clock.monotonic() - looked >= SAFETY_SECONDS:
                began = self._clock.monotonic()
                await self._look(workspace, interest)
                if await _folders(workspace, interest) != folders:
                    return
                looked = self._clock.monotonic()
                pause = max(LOOK_SECONDS, 10 * (looked - began))
            await self._clock.sleep(pause)
            told = await hints.look()
            if not folders.isdisjoint(told):
                return  # a folder that comes again under its old name is another one
            due = bool(told) if interest.everything else not ways.isdisjoint(told)

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "files of %s cannot be watched, changes are looked for every %g s: %s",
                self._person,
                SAFETY_SECONDS,
                why,
            )

    async def _look(self, workspace: Workspace, interest: Interest) -> None:
        """See what is there, and tell what is not as it was."""
        before, self._seen = self._seen.or_else(self._interests.began(self._person)), await look(workspace, interest)
        self._tell(interest, before)

    def _tell(self, interest: Interest, before: Seen) -> None:
        now = self._seen
        by_name = _named(before.named, now.named)
        in_list = differences(before, now)
        for uri in sorted(interest.uris):
            if event := by_name.get(_path(uri)):
                self._publish(Changed(uri, event), self._person)
        if interest.everything:
            ours = {file_uri(path): event for path, event in {**in_list, **by_name}.items()}
            others = [Changed(uri, event) for uri, event in sorted(ours.items()) if uri not in interest.uris]
            for change in others if len(others) <= MAX_AT_ONCE else [Changed(WHOLE, "updated")]:
                self._publish(change, self._person)
        if {"created", "deleted"} & {*by_name.values(), *in_list.values()}:
            self._publish(ListChanged("resources"), self._person)


def _named(before: Mapping[str, StateT | None], now: Mapping[str, StateT | None]) -> dict[str, Event]:
    """What changed of what was looked at both times, where None is what is not there."""
    found: dict[str, Event] = {}
    for path in before.keys() & now.keys():
        was, is_ = before[path], now[path]
        if was != is_:
            found[path] = "created" if was is None else "deleted" if is_ is None else "updated"
    return found


def differences(before: Seen, now: Seen) -> dict[str, Event]:
    """What changed of what is listed. Of a list that was cut nobody knows what came and went."""
    if before.listed is None or now.listed is None:
        return {}
    paths = before.listed.keys() | now.listed.keys()
    if not (before.complete and now.complete):
        paths = before.listed.keys() & now.listed.keys()
    return _named({path: before.listed.get(path) for path in paths}, {path: now.listed.get(path) for path in paths})


async def _folders(workspace: Workspace, interest: Interest) -> frozenset[str]:
    """The folders to watch: those on the way to what is wanted by name, and all that hold what is listed."""
    found = {"."}
    for path in sorted(interest.paths):
        for way in reversed(PurePosixPath(path).parents):
            if str(way) not in found and await _is_folder(workspace, str(way)):
                found.add(str(way))
    if interest.everything:
        found.update(path.removesuffix("/") for path in await workspace.paths() if path.endswith("/"))
    return frozenset(sorted(found)[:MAX_FOLDERS])


async def _is_folder(workspace: Workspace, path: str) -> bool:
    """Whether it is a folder under its own name: what lies behind a link is not watched."""
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
    """The path that the URI of a file names, in the one spelling that the kernel uses."""
    return str(PurePosixPath(path_of(uri)))
