"""Every moment at which a process could have been killed, kept in one life of it.

    for moment in await recorded(world, live, trail):
        with moment.restored():
            async with world.running() as core:
                ...

A kill leaves what is on the disk and what the world outside has seen. Both are kept before and after every write of
ONE life; `restored` puts the world back there, so that only the lives after the kill have to be lived for each moment.
Two moments between which neither the disk nor the world changed are one: what follows from them is the same.
"""

import asyncio
import os
import shutil
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goclaw.channels.memory import Room
from goclaw.llm.scripted import ScriptedModel
from tests.harness import Core, World

DATABASE = "goclaw.db"
_LOGS = (f"{DATABASE}-wal", f"{DATABASE}-shm")
_ROOM = ("all", "failures", "happened", "_files")
_MODEL = ("requests", "_queue", "closed", "streaming", "gate")
_CLOCK = ("_now", "_slept", "_set")

Content = tuple[int, int, bytes | str | None]
"""The mode and the time of a file, and its bytes; the target of a link, or None for a folder."""


@dataclass(frozen=True)
class _Seen:
    """What an object outside of the process had in it; put back in place, as others hold its lists, too."""

    owner: object
    values: dict[str, Any]

    @classmethod
    def of(cls, owner: object, *names: str) -> "_Seen":
        values = {name: getattr(owner, name) for name in names or vars(owner)}
        return cls(owner, {name: _copied(value) for name, value in values.items() if _can_be_kept(value)})

    def same_as(self, other: "_Seen") -> bool:
        unlike = {name for name, kept in self.values.items() if kept != other.values[name]}
        return not unlike or (isinstance(self.owner, Room) and unlike == {"happened"})

    def put_back(self) -> None:
        for name, kept in self.values.items():
            now = getattr(self.owner, name)
            if isinstance(now, asyncio.Event):
                (now.set if kept else now.clear)()
            elif isinstance(now, list):
                now[:] = kept
            elif isinstance(now, deque):
                now.clear()
                now.extend(kept)
            elif isinstance(now, dict | set):
                now.clear()
                now.update(kept)
            else:
                object.__setattr__(self.owner, name, kept)


def _can_be_kept(value: object) -> bool:
    kinds = (asyncio.Event, list, deque, dict, set, str, bytes, int, float, tuple, frozenset)
    return value is None or isinstance(value, kinds)


def _copied(value: Any) -> Any:
    if isinstance(value, asyncio.Event):
        return value.is_set()
    return value.copy() if isinstance(value, list | deque | dict | set) else value


@dataclass
class Moment:
    """A moment at which the process could have been killed."""

    name: str
    write: int
    """The number of the write before or after which it is."""
    folder: Path
    disk: dict[str, Content]
    seen: list[_Seen]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Put the disk and the world back to this moment; an error of the block names it."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        lay(self.folder, self.disk)
        for seen in self.seen:
            seen.put_back()
        try:
            yield
        except BaseException as error:
            error.add_note(f"killed {self.name}")
            raise

    def same_as(self, other: "Moment") -> bool:
        """Whether the same follows from both; events of a turn that were only watched change nothing."""
        return self.disk == other.disk and all(map(_Seen.same_as, self.seen, other.seen))


class _Recorder:
    """Keeps a moment whenever the database tells of one."""

    def __init__(self, world: World, outside: tuple[object, ...]) -> None:
        self.moments: list[Moment] = []
        self._world, self._outside = world, outside
        self._reader: sqlite3.Connection | None = None

    def keep(self, name: str, write: int) -> None:
        """Keep this moment, unless it is the last one under another name."""
        disk = files_of(self._world.folder) | {DATABASE: (0o600, 0, self._database())}
        moment = Moment(name, write, self._world.folder, disk, self._seen())
        if self.moments and moment.same_as(self.moments[-1]):
            self.moments[-1].name += f", {name}"
        else:
            self.moments.append(moment)

    def closed(self) -> AbstractContextManager[object]:
        """End reading when the block ends."""
        self._reader = sqlite3.connect(self._world.folder / DATABASE, isolation_level=None)
        return closing(self._reader)

    def _database(self) -> bytes:
        """What is committed, the log included."""
        assert self._reader
        return self._reader.serialize()

    def _seen(self) -> list[_Seen]:
        world = self._world
        models = [model for model in (world.script, *vars(world.models).values()) if isinstance(model, ScriptedModel)]
        return [
            _Seen.of(world, "audited"),
            _Seen.of(world.room, *_ROOM),
            _Seen.of(world.clock, *_CLOCK),
            *(_Seen.of(model, *_MODEL) for model in models),
            *(_Seen.of(each) for each in self._outside),
        ]


async def recorded(world: World, live: Callable[[Core], Awaitable[object]], *outside: object) -> list[Moment]:
    """Live one life and return every moment of it: before and after each write, and its end.

    Args:
        world: in it; what it has of the chat, the clock, the scripted models and the audit is kept, too.
        live: what is done in it; it must bring the core to rest.
        outside: what else outlives the process: whatever counts the effects of tools. All plain attributes and events
            of each are kept.
    """
    recorder = _Recorder(world, outside)
    world.prepare()
    with recorder.closed():
        async with world.running(watch=recorder.keep) as core:
            await live(core)
            recorder.keep("at the end", core.database.writes)
    return recorder.moments


def files_of(folder: Path) -> dict[str, Content]:
    """All files of a folder, without the database."""
    found: dict[str, Content] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name in (DATABASE, *_LOGS):
            continue
        try:
            status = path.lstat()
            mode = status.st_mode & 0o7777
            if path.is_symlink():
                found[name] = (mode, 0, str(path.readlink()))
            elif path.is_dir():
                found[name] = (mode, 0, None)
            elif path.is_file():
                found[name] = (mode, status.st_mtime_ns, path.read_bytes())
        except FileNotFoundError:  # a thread removed it meanwhile
            continue
    return found


def lay(folder: Path, files: Mapping[str, Content]) -> None:
    """Write what `files_of` has read."""
    for name, content in files.items():
        _write(folder / name, *content)


def _write(path: Path, mode: int, changed: int, content: bytes | str | None) -> None:
    if isinstance(content, str):
        path.symlink_to(content)
        return
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
        os.utime(path, ns=(changed, changed))
    path.chmod(mode)
