"""Installs, updates, removes and restores plugins: a new folder next to the old one, its trial, then the record.

Killed at any moment, it leaves the folder from before in force, or the new one. The next change removes other
leftovers. One process at a time changes plugins; folders that a process has on its path stay until it ended.
"""

import fcntl
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from goclaw.common.core.clock import RealClock
from goclaw.common.core.files import flush
from goclaw.common.core.plugin_folder import (
    FOLDER,
    SITE,
    InstalledPlugin,
    PluginRecord,
    read_record,
    stamp_of_host,
    write_record,
)
from goclaw.common.core.records import record
from goclaw.errors import StateError
from goclaw.program.ops.plugins.packages import (
    digest_of,
    is_local,
    name_in,
    name_of_folder,
    own_packages,
    pin,
    requirement_of,
    seed,
)
from goclaw.program.ops.plugins.trial import try_out
from goclaw.program.ops.plugins.uv import InstallError, normalize, run_uv

SECONDS = 600.0
"""The time for everything when a person waits, in seconds: a package may have to be built."""
RESTORE_SECONDS = 60.0
"""The time for everything at a start, in seconds: a service manager waits 90."""


@record
class Wanted:
    """A package to install."""

    requirement: str
    known: InstalledPlugin | None = None
    """It is recorded so far; None: it is new."""
    editable: bool = False
    fresh: bool = False
    """Fetched again, bypassing uv's cache."""


class Plugins:
    """The plugins of a state folder. Made by `open_plugins`, which lets one process change them at a time."""

    def __init__(self, state_dir: Path, tell: Callable[[str], None], seconds: float) -> None:
        self._state = state_dir
        self._folder = state_dir / FOLDER
        self._tell = tell
        self._clock = RealClock()
        self._deadline = self._clock.monotonic() + seconds
        self.record = read_record(state_dir)

    def add(self, texts: Sequence[str], *, editable: bool = False) -> Sequence[InstalledPlugin]:
        """Install what these requirements name; one that is installed already is replaced. Returns the added ones.

        Raises:
            InstallError: one cannot be installed or used, or does not go with GoClaw or the others; nothing changed.
        """
        asked = [requirement_of(text) for text in texts]
        if editable and (remote := [each for each in asked if not is_local(each) or not Path(each).is_dir()]):
            raise InstallError(f"{remote[0]}: only a folder can be editable")
        new = [Wanted(each, editable=editable, fresh=True) for each in asked]
        again = {name_in(each) or name_of_folder(each) for each in asked}
        before = {normalize(each.name) for each in self.record.plugins if each.source not in asked} - again
        kept = [each for each in self._list_others(again) if each.known and each.known.source not in asked]
        after = self._switch(self._make([*kept, *new]), self._find_faulty())
        return [each for each in after if normalize(each.name) not in before]

    def update(self, names: Sequence[str]) -> Sequence[tuple[InstalledPlugin, InstalledPlugin]]:
        """Install the newest of these plugins (none: of all) that their sources have. Returns each before and after.

        Raises:
            InstallError: as `add`; also for a name that is not recorded.
        """
        chosen = {normalize(self._find(name).name) for name in names or [each.name for each in self.record.plugins]}
        before = {normalize(each.name): each for each in self.record.plugins}
        anew = [
            Wanted(each.source, known=each, editable=each.editable, fresh=True)
            for name, each in before.items()
            if name in chosen
        ]
        after = self._switch(self._make([*self._list_others(chosen), *anew]), self._find_faulty())
        pairs = ((before.get(normalize(each.name), each), each) for each in after)
        return [(old, new) for old, new in pairs if normalize(new.name) in chosen]

    def remove(self, names: Sequence[str]) -> Sequence[InstalledPlugin]:
        """Remove these plugins, and what only they needed. Returns them.

        Where the others cannot be reinstalled now, the needs of those that are removed stay.

        Raises:
            InstallError: one is not recorded.
        """
        gone = [self._find(name) for name in names]
        # Those left out are not in the folder: what it holds stays as it is.
        rest = self._list_others({normalize(each.name) for each in gone})
        try:
            made = self._make(rest) if rest else None
        except InstallError:
            made = self._copied_without(gone)
        self._switch(made, [each for each in self._find_faulty() if each not in gone])
        return gone

    def restore(self) -> PluginRecord:
        """Install the recorded plugins for this Python and these packages; omit unusable ones, with their faults.

        Plugins already in force are never lost by it. Returns the record that is in force then.
        """
        every = self.record.plugins
        try:
            self._switch(self._make([_requirement_of(each) for each in every]) if every else None)
        except InstallError as error:
            in_force = bool(self.record.folder) and self.record.stamp == stamp_of_host()
            sound = [each for each in every if in_force and not each.fault]
            if sound:
                self._tell(f"the working plugins stay unchanged: {error}")
            self._restore_each(sound, [each for each in every if each not in sound], error)
        return self.record

    def _restore_each(
        self, sound: Sequence[InstalledPlugin], missing: Sequence[InstalledPlugin], whole: InstallError
    ) -> None:
        """Add the missing ones to those in force, one after the other; record the faults of those that fail."""
        made: _Made | None = None
        kept, failed = list(map(_requirement_of, sound)), list[InstalledPlugin]()
        for plugin in missing:
            try:
                if len(missing) == 1 and not sound:
                    raise whole  # it was tried alone
                made = self._make([*kept, _requirement_of(plugin)])
            except InstallError as error:
                self._tell(f"plugin {plugin.name} is not used: {error}")
                failed.append(replace(plugin, fault=f"is not used: {error}; a later start tries again"))
            else:
                kept.append(_requirement_of(plugin))
        if made is None and sound:
            made = _Made(self._folder / self.record.folder, tuple(sound))
        self._switch(made, failed)

    def _copied_without(self, gone: Sequence[InstalledPlugin]) -> "_Made":
        """Copy the folder in force but for these packages."""
        before = self._folder / self.record.folder
        names = {normalize(each.name) for each in gone}
        folder = self._new_folder()
        shutil.copytree(before, folder, symlinks=True, dirs_exist_ok=True)
        for package in distributions(path=[str(folder)]):
            if normalize(package.name) in names:
                for file in package.files or ():
                    Path(str(package.locate_file(file))).unlink(missing_ok=True)
        stay = (each for each in self.record.plugins if not each.fault and normalize(each.name) not in names)
        return _Made(folder, tuple(stay))

    def _new_folder(self) -> Path:
        folder = self._folder / f"{SITE}{secrets.token_hex(6)}"
        folder.mkdir(mode=0o700)
        return folder

    def _find(self, name: str) -> InstalledPlugin:
        for each in self.record.plugins:
            if normalize(each.name) == normalize(name):
                return each
        there = ", ".join(each.name for each in self.record.plugins) or "none"
        raise InstallError(f"there is no plugin {name}; installed: {there}")

    def _find_faulty(self) -> list[InstalledPlugin]:
        return [each for each in self.record.plugins if each.fault]

    def _list_others(self, but: set[str]) -> list[Wanted]:
        """Return the plugins that are in the folder and stay as they are, without those of these names."""
        sound = (each for each in self.record.plugins if not each.fault and normalize(each.name) not in but)
        return list(map(_requirement_of, sound))

    def _make(self, wanted: Sequence[Wanted]) -> "_Made":
        """Make a folder with these packages and try it out.

        Raises:
            InstallError: it cannot be made, or a part of it cannot be used; the folder is gone.
        """
        try:
            folder = self._new_folder()
        except OSError as error:
            raise InstallError(f"{self._folder}: cannot be written: {error.strerror}") from None
        try:
            return self._fill(folder, wanted)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise InstallError(f"{error.filename or folder}: {error.strerror}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _fill(self, folder: Path, wanted: Sequence[Wanted]) -> "_Made":
        ours = own_packages()
        self._install(folder, wanted, ours)
        packages = {normalize(each.name): each for each in distributions(path=[str(folder)])}
        if doubled := sorted(packages.keys() & ours.keys()):
            there, has = packages[doubled[0]], ours[doubled[0]]
            raise InstallError(f"it needs {there.name} {there.version}, but GoClaw has {has.name} {has.version}")
        asked = {name: each for name, each in packages.items() if each.read_text("REQUESTED") is not None}
        results = try_out(folder, list(asked), self._seconds_left())
        if faults := [f"{asked[name].name} {line}" for name, tried in results.items() for line in tried.faults]:
            raise InstallError("; ".join(faults))
        plugins = [_plugin(package, wanted, results[name].parts) for name, package in asked.items()]
        for plugin in plugins:
            _refuse_other_content(plugin, wanted)
        return _Made(folder, tuple(plugins))

    def _install(self, folder: Path, wanted: Sequence[Wanted], ours: Mapping[str, Distribution]) -> None:
        """Have uv fill the folder. Our packages lie in it meanwhile, so that they are taken as they are."""
        seeds = [seed(folder, package) for package in ours.values()]
        constraint = folder / ".constraint"
        constraint.write_text("".join(f"{each.name}=={each.version}\n" for each in ours.values()))
        arguments = ["--python", sys.executable, "--target", str(folder)]
        arguments += ["--constraint", str(constraint), "--compile-bytecode"]
        arguments += [f"--editable={each.requirement}" for each in wanted if each.editable]
        anew = [each for each in wanted if each.fresh]
        for name in filter(None, (name_of_folder(each.requirement) for each in anew)):
            arguments += ["--reinstall-package", name]  # a wheel built before does not count, whatever uv sees of it
        arguments += ["--", *(each.requirement for each in wanted if not each.editable)]
        # What was installed once is in uv's cache: that needs no network, and is the very same.
        ways = [["--offline"], []] if all(is_local(each.requirement) for each in anew) else [[]]
        try:
            for way in ways:
                try:
                    run_uv([*way, *arguments], folder, self._seconds_left(), ours)
                except InstallError:
                    if way is ways[-1]:
                        raise
                else:
                    break
        finally:
            for written in seeds:
                shutil.rmtree(written, ignore_errors=True)
        constraint.unlink()

    def _seconds_left(self) -> float:
        """Return the seconds that are left; raises InstallError when none are."""
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise InstallError("there was no time left to install it")
        return left

    def _switch(self, made: "_Made | None", failed: Sequence[InstalledPlugin] = ()) -> Sequence[InstalledPlugin]:
        """Put a folder in force; None: without any package. Returns its content."""
        plugins = made.plugins if made else ()
        there = {normalize(each.name) for each in plugins}
        missing = (each for each in failed if normalize(each.name) not in there)
        every = sorted((*plugins, *missing), key=lambda each: normalize(each.name))
        folder = made.folder if made else None
        if folder:
            flush(folder)  # before the record names it
        new = PluginRecord(folder.name if folder else "", stamp_of_host(), tuple(every), self._clock.now())
        try:
            write_record(self._state, new)
        except OSError as error:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            raise StateError(
                f"{self._folder}: cannot be written: {error.strerror}; the plugins are unchanged"
            ) from None
        self.record = new
        self.sweep()
        return plugins

    def sweep(self) -> None:
        """Remove folders that are not in force, but for those on the path of a running process."""
        for folder in self._folder.glob(f"{SITE}*"):
            if folder.name != self.record.folder:
                _remove_unless_in_use(folder)


@record
class _Made:
    """A folder that was filled and tried out."""

    folder: Path
    plugins: tuple[InstalledPlugin, ...]


@contextmanager
def open_plugins(
    state_dir: Path, tell: Callable[[str], None], seconds: float = SECONDS, *, busy: str = ""
) -> Iterator[Plugins]:
    """Let the block change the plugins of a state folder; another process waits for its end.

    `tell` gets a line for each plugin that is left out, `seconds` bound all work. `busy`: said when another
    process has to be waited for.

    Raises:
        StateError: the folder cannot be used.
    """
    folder = state_dir / FOLDER
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"{folder}: cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if busy:
                tell(busy)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Plugins(state_dir, tell, seconds)
    finally:
        os.close(descriptor)


def _requirement_of(plugin: InstalledPlugin) -> Wanted:
    return Wanted(plugin.pinned or plugin.source, plugin, plugin.editable)


def _plugin(package: Distribution, wanted: Sequence[Wanted], parts: tuple[str, ...]) -> InstalledPlugin:
    origin: dict[str, Any] = json.loads(package.read_text("direct_url.json") or "{}")
    name = normalize(package.name)
    each = _request(name, origin, wanted)
    source = each.known.source if each.known else each.requirement
    return InstalledPlugin(
        package.name,
        source,
        package.version,
        pin(source, package.name, package.version, origin),
        "" if each.editable else digest_of(package),
        each.editable,
        parts,
    )


def _request(name: str, origin: Mapping[str, Any], wanted: Sequence[Wanted]) -> Wanted:
    """Return the request that a package came by."""
    for each in wanted:
        if (each.known and normalize(each.known.name) == name) or name_in(each.requirement) == name:
            return each
    for each in wanted:
        url = str(origin.get("url", ""))
        path = each.requirement if is_local(each.requirement) else None
        if url and (url in each.requirement or (path and url == Path(path).as_uri())):
            return each
    # A new one whose address does not read as it was asked for (a redirect).
    return next(each for each in wanted if each.known is None and not name_in(each.requirement))


def _refuse_other_content(plugin: InstalledPlugin, wanted: Sequence[Wanted]) -> None:
    """Raise InstallError where an index has other content by now under a version that was added before."""
    for each in wanted:
        known = each.known
        if known is None or each.fresh or normalize(known.name) != normalize(plugin.name):
            continue
        pure = name_in(known.source) and not known.editable
        if pure and known.digest and (known.version, known.digest) != (plugin.version, plugin.digest):
            raise InstallError(
                f"the files of {plugin.name} {plugin.version} have changed since you added it; `goclaw plugin update "
                f"{plugin.name}` accepts them"
            )


def _remove_unless_in_use(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # a daemon goes on with it until it is restarted
    finally:
        os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)
