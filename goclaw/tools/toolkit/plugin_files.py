"""One-file plugins: `plugins` of the configuration and `tools/*.py` of the state folder, reloaded when they change.

A file that cannot be used leaves the tools of its last good version in place, and is named with the line. Calls that
run keep the functions that they began with. Loading executes a file: `plugin_loading`, imported with the first one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

from goclaw.common.config.packaged import FilesPart, file_title, plugin_paths
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import file_version
from goclaw.common.core.plugins import load
from goclaw.errors import GoclawError
from goclaw.tools.toolkit.base import Tool

log = logging.getLogger(__name__)

T = TypeVar("T")

SETTLED_SECONDS = 0.75
"""Seconds for which a file must stay unchanged: a half-written file is not loaded."""
_CHANGED = 4
"""Where `file_version` has the time of the last change, in nanoseconds."""
LOAD_SECONDS = 15.0
"""The time that the execution of a file may take, in seconds."""


class PluginFile:
    """One file, and the tools of its last good version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.title = file_title(path)
        self._seen: tuple[int, ...] | None = None
        self._loaded: tuple[int, ...] | None = None

    def is_due(self, now: float, *, at_once: bool) -> bool:
        """Whether there is a version that was not tried yet, and that is whole: as at the last look, or a while old."""
        version = _version(self.path)
        is_old = len(version) > _CHANGED and now - version[_CHANGED] / 1e9 > SETTLED_SECONDS
        settled = at_once or version == self._seen or is_old
        self._seen = version
        if not settled or version == self._loaded:
            return False
        self._loaded = version
        return True


class PluginFiles:
    """All files. `put` takes the tools of one, in the place of those from before; `drop` removes them."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        put: Callable[[str, Sequence[Tool], str], None],
        drop: Callable[[str], None],
        report: Callable[[str, str], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._put, self._drop, self._report = put, drop, report
        self._files: dict[Path, PluginFile] = {}
        self._in_force: set[Path] = set()
        self._part: FilesPart | None = None
        self._changed = asyncio.Event()
        self._due: dict[Path, PluginFile] = {}
        self._skips = False

    async def run(self) -> None:
        """Load what `glance` finds, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._work()

    async def scan(self, *, at_once: bool = False) -> None:
        """Scan the folder, and load changed files. `at_once`: files that are seen for the first time count as whole."""
        self._note(at_once=at_once)
        self._changed.clear()
        await self._work(first=at_once)

    def glance(self) -> None:
        """Note changed files, for `run`; called with each look at users.json (`auth.users`), every 0.8 seconds.

        One call of the kernel where there is no file; then every other look is left out.
        """
        self._skips = not (self._skips or self._files or self._config.plugins)
        if not self._skips:
            self._note(at_once=False)

    def _note(self, *, at_once: bool) -> None:
        """Put aside changed files, for `_work`."""
        paths, now = plugin_paths(self._config.state_dir, self._config.plugins), self._clock.now()
        for path in paths:
            file = self._files.setdefault(path, PluginFile(path))
            if file.is_due(now, at_once=at_once):
                self._due[path] = file
        self._due |= {path: self._files.pop(path) for path in [*self._files] if path not in paths}
        if self._due:
            self._changed.set()

    async def _work(self, *, first: bool = False) -> None:
        while self._due:
            path = next(iter(self._due))
            file = self._due.pop(path)
            if path in self._files:
                await self._load(file, first=first)
            else:
                self._forget(file)

    async def _load(self, file: PluginFile, *, first: bool) -> None:
        if not file.path.exists():  # one of the configuration
            self._forget(file)
            self._report(file.title, f"{file.path}: there is no such file; create it, or remove it from `plugins`")
            return
        if self._part is None:
            self._part = load(catalog.PLUGIN_FILES, FilesPart)
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                found = await _in_daemon_thread(partial(self._part.load, file.path, self._config), file.title)
        except TimeoutError:
            self._refuse(
                file, f"it did not finish loading within {LOAD_SECONDS:g} s; move long work out of its top level"
            )
        except GoclawError as error:
            self._refuse(file, str(error))
        else:
            self._in_force.add(file.path)
            self._put(file.title, found.tools, file.path.stem)
            self._report(file.title, "")
            names = ", ".join(tool.spec.name for tool in found.tools) or "none"
            log.info("%s is in force: tools %s", file.title, names)
            if found.configured and not first:
                log.warning(
                    "%s: what it says of agents, toolsets, servers and hooks (%s) is in force after %s",
                    file.title,
                    ", ".join(found.configured),
                    daemon_command("restart"),
                )

    def _refuse(self, file: PluginFile, fault: str) -> None:
        stays = "; its last valid version stays in force" if file.path in self._in_force else ""
        self._report(file.title, f"{fault}{stays}")

    def _forget(self, file: PluginFile) -> None:
        if file.path in self._in_force:
            log.info("%s is gone, and with it its tools", file.title)
        self._in_force.discard(file.path)
        self._drop(file.title)
        self._report(file.title, "")


def _version(path: Path) -> tuple[int, ...]:
    """Return what changes whenever the file does, and when others may change it by its folder."""
    found = file_version(path)
    with suppress(OSError):
        folder = path.parent.stat()
        return (*found, folder.st_mode, folder.st_uid) if found else ()
    return found


async def _in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Return the result of a function in a thread of its own, which holds up neither the pool nor the end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def set_outcome(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T is

    def work() -> None:
        try:
            result, error = call(), None
        except GoclawError as fault:
            result, error = None, fault
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(set_outcome, result, error)

    Thread(target=work, name=name[-100:], daemon=True).start()
    return await future
