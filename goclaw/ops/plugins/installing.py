"""Installs, updates, removes and restores plugins: a new folder beside, its trial, then the record.

Killed at any moment, it leaves the folder from before in force, or the new one. What it left behind besides is removed
by the next change. One process at a time changes plugins; folders that a process has on its path stay until it ended.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from goclaw.core.clock import RealClock
from goclaw.core.plugin_folder import (
    FOLDER,
    SITE,
    InstalledPlugin,
    PluginRecord,
    own_path,
    read_record,
    stamp_of_host,
    write_record,
)
from goclaw.core.records import record
from goclaw.errors import StateError
from goclaw.ops.plugins.sources import is_local, pinned, requirement_of
from goclaw.ops.plugins.trial import try_out
from goclaw.ops.plugins.uv import InstallError, normalized, run_uv

SECONDS = 600.0
"""The time for everything when a person waits, in seconds: a package may have to be built."""
RESTORE_SECONDS = 60.0
"""The time for everything at a start, in seconds: a service manager waits 90."""
_SAYS_WHAT = "entry_points.txt"
"""The one file of a package's metadata that counts as content: others differ by the tool that built or installed it."""


@record
class Wanted:
    """A package to install."""

    requirement: str
    known: InstalledPlugin | None = None
    """It is recorded so far; None: it is new."""
    editable: bool = False
    fresh: bool = False
    """Asked for anew: what uv keeps of it does not count."""


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
        """Install what these requirements name; one that is there already is replaced. Returns what was added.

        Raises:
            InstallError: one cannot be installed or used, or does not go with GoClaw or the others; nothing changed.
        """
        asked = [requirement_of(text) for text in texts]
        if editable and (remote := [each for each in asked if not is_local(each) or not Path(each).is_dir()]):
            raise InstallError(f"{remote[0]}: only a folder can be editable")
        new = [Wanted(each, editable=editable, fresh=True) for each in asked]
        again = {_name_in(each) or _name_of_folder(each) for each in asked}
        before = {normalized(each.name) for each in self.record.plugins if each.source not in asked} - again
        kept = [each for each in self._kept(again) if each.known and each.known.source not in asked]
        after = self._switch(self._made([*kept, *new]), self._failed())
        return [each for each in after if normalized(each.name) not in before]

    def update(self, names: Sequence[str]) -> Sequence[tuple[InstalledPlugin, InstalledPlugin]]:
        """Install the newest of these plugins (none: of all) that their sources have. Returns each before and after.

        Raises:
            InstallError: as `add`; also for a name that is not recorded.
        """
        chosen = {normalized(self._named(name).name) for name in names or [each.name for each in self.record.plugins]}
        before = {normalized(each.name): each for each in self.record.plugins}
        anew = [
            Wanted(each.source, known=each, editable=each.editable, fresh=True)
            for name, each in before.items()
            if name in chosen
        ]
        after = self._switch(self._made([*self._kept(chosen), *anew]), self._failed())
        pairs = ((before.get(normalized(each.name), each), each) for each in after)
        return [(old, new) for old, new in pairs if normalized(new.name) in chosen]

    def remove(self, names: Sequence[str]) -> Sequence[InstalledPlugin]:
        """Remove these plugins, and what only they needed. Returns them.

        Raises:
            InstallError: one is not recorded, or the others cannot be installed without it.
        """
        gone = [self._named(name) for name in names]
        rest = self._kept({normalized(each.name) for each in gone})
        self._switch(self._made(rest) if rest else None, [each for each in self._failed() if each not in gone])
        return gone

    def restore(self) -> PluginRecord:
        """Install what is recorded for this Python and these packages; one that cannot be is left out, with its fault.

        Returns the record that is in force then.
        """
        every = [Wanted(each.pinned or each.source, each, each.editable) for each in self.record.plugins]
        try:
            self._switch(self._made(every) if every else None)
        except InstallError as error:
            self._restore_each(every, error)
        return self.record

    def _restore_each(self, every: Sequence[Wanted], whole: InstallError) -> None:
        """Add one after the other; those that fail are recorded with their fault."""
        made: _Made | None = None
        kept: list[Wanted] = []
        failed: list[InstalledPlugin] = []
        for wanted in every:
            plugin = wanted.known or InstalledPlugin(wanted.requirement, wanted.requirement)
            try:
                tried = self._made([*kept, wanted]) if len(every) > 1 else _fail(whole)
            except InstallError as error:
                self._tell(f"plugin {plugin.name} is left out: {error}")
                failed.append(replace(plugin, fault=f"is left out: {error}; it is tried again at the next start"))
            else:
                kept.append(wanted)
                made = tried
        self._switch(made, failed)

    def _named(self, name: str) -> InstalledPlugin:
        for each in self.record.plugins:
            if normalized(each.name) == normalized(name):
                return each
        there = ", ".join(each.name for each in self.record.plugins) or "none"
        raise InstallError(f"no plugin is called {name}; there are: {there}")

    def _failed(self) -> list[InstalledPlugin]:
        return [each for each in self.record.plugins if each.fault]

    def _kept(self, but: set[str]) -> list[Wanted]:
        """Return the plugins that are in the folder and stay as they are, without those of these names."""
        return [
            Wanted(each.pinned or each.source, each, each.editable)
            for each in self.record.plugins
            if not each.fault and normalized(each.name) not in but
        ]

    def _made(self, wanted: Sequence[Wanted]) -> "_Made":
        """Make a folder with these packages and try it out.

        Raises:
            InstallError: it cannot be made, or a part of it cannot be used; the folder is gone.
        """
        folder = self._folder / f"{SITE}{secrets.token_hex(6)}"
        folder.mkdir(mode=0o700)
        try:
            return self._filled(folder, wanted)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _filled(self, folder: Path, wanted: Sequence[Wanted]) -> "_Made":
        ours = own_packages()
        self._install(folder, wanted, ours)
        packages = {normalized(each.name): each for each in distributions(path=[str(folder)])}
        if doubled := sorted(packages.keys() & ours.keys()):
            there, has = packages[doubled[0]], ours[doubled[0]]
            raise InstallError(f"it brings {there.name} {there.version}, and GoClaw has {has.name} {has.version}")
        asked = {name: each for name, each in packages.items() if each.read_text("REQUESTED") is not None}
        results = try_out(folder, list(asked), self._left())
        if faults := [f"{asked[name].name} {line}" for name, tried in results.items() for line in tried.faults]:
            raise InstallError("; ".join(faults))
        plugins = [_plugin(package, wanted, results[name].parts) for name, package in asked.items()]
        for plugin in plugins:
            _refuse_other_content(plugin, wanted)
        return _Made(folder, tuple(plugins))

    def _install(self, folder: Path, wanted: Sequence[Wanted], ours: Mapping[str, Distribution]) -> None:
        """Have uv fill the folder. Our packages lie in it meanwhile, so that they are taken as they are."""
        seeds = [_seed(folder, package) for package in ours.values()]
        constraint = folder / ".constraint"
        constraint.write_text("".join(f"{each.name}=={each.version}\n" for each in ours.values()))
        arguments = ["--python", sys.executable, "--target", str(folder)]
        arguments += ["--constraint", str(constraint), "--compile-bytecode"]
        arguments += [f"--editable={each.requirement}" for each in wanted if each.editable]
        anew = [each for each in wanted if each.fresh]
        for name in filter(None, (_name_of_folder(each.requirement) for each in anew)):
            arguments += ["--reinstall-package", name]  # a wheel built before does not count, whatever uv sees of it
        arguments += ["--", *(each.requirement for each in wanted if not each.editable)]
        # What was installed once is in uv's cache: that needs no network, and is the very same.
        ways = [["--offline"], []] if all(is_local(each.requirement) for each in anew) else [[]]
        try:
            for way in ways:
                try:
                    run_uv([*way, *arguments], folder, self._left(), ours)
                except InstallError:
                    if way is ways[-1]:
                        raise
                else:
                    break
        finally:
            for seed in seeds:
                shutil.rmtree(seed, ignore_errors=True)
        constraint.unlink()

    def _left(self) -> float:
        """Return the seconds that are left; raises InstallError when none are."""
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise InstallError("there was no time left for it")
        return left

    def _switch(self, made: "_Made | None", failed: Sequence[InstalledPlugin] = ()) -> Sequence[InstalledPlugin]:
        """Put a folder in force; None: without any package. Returns what is in it."""
        plugins = made.plugins if made else ()
        there = {normalized(each.name) for each in plugins}
        missing = (each for each in failed if normalized(each.name) not in there)
        every = sorted((*plugins, *missing), key=lambda each: normalized(each.name))
        folder = made.folder if made else None
        if folder:
            _flush(folder)
        new = PluginRecord(folder.name if folder else "", stamp_of_host(), tuple(every), self._clock.now())
        try:
            write_record(self._state, new)
        except OSError as error:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            raise StateError(
                f"{self._folder}: cannot be written: {error.strerror}; the plugins are as before"
            ) from None
        self.record = new
        self.sweep()
        return plugins

    def sweep(self) -> None:
        """Remove folders that are not in force, but for those on the path of a running process."""
        for folder in self._folder.glob(f"{SITE}*"):
            if folder.name != self.record.folder:
                _remove_unused(folder)


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


def own_packages() -> Mapping[str, Distribution]:
    """Return the packages of GoClaw's own environment by their normalized names, the first of each on the path."""
    found: dict[str, Distribution] = {}
    for package in distributions(path=own_path()):
        if package.metadata["Name"]:  # a folder that an interrupted installer left has none
            found.setdefault(normalized(package.name), package)
    return found


def _seed(folder: Path, package: Distribution) -> Path:
    """Write the metadata of one of our packages into the folder, as if it were installed there."""
    name = package.name.replace("-", "_")
    seed = folder / f"{name}-{package.version}.dist-info"
    seed.mkdir(exist_ok=True)
    (seed / "METADATA").write_text(package.read_text("METADATA") or package.read_text("PKG-INFO") or "")
    (seed / "RECORD").write_text("")
    return seed


def _plugin(package: Distribution, wanted: Sequence[Wanted], parts: tuple[str, ...]) -> InstalledPlugin:
    origin: dict[str, Any] = json.loads(package.read_text("direct_url.json") or "{}")
    name = normalized(package.name)
    each = _request(name, origin, wanted)
    source = each.known.source if each.known else each.requirement
    return InstalledPlugin(
        package.name,
        source,
        package.version,
        pinned(source, package.name, package.version, origin),
        "" if each.editable else digest_of(package),
        each.editable,
        parts,
    )


def _request(name: str, origin: Mapping[str, Any], wanted: Sequence[Wanted]) -> Wanted:
    """Return by which request a package came."""
    for each in wanted:
        if (each.known and normalized(each.known.name) == name) or _name_in(each.requirement) == name:
            return each
    for each in wanted:
        url = str(origin.get("url", ""))
        path = each.requirement if is_local(each.requirement) else None
        if url and (url in each.requirement or (path and url == Path(path).as_uri())):
            return each
    # A new one whose address does not read as it was asked for (a redirect).
    return next(each for each in wanted if each.known is None and not _name_in(each.requirement))


def _name_in(requirement: str) -> str:
    """Return the normalized name that a requirement begins with; empty for a path or an address."""
    if is_local(requirement) or (":" in requirement and " @ " not in requirement):
        return ""
    name = requirement.partition(" @ ")[0]
    return normalized(re.split(r"[^A-Za-z0-9._-]", name, maxsplit=1)[0])


def _name_of_folder(requirement: str) -> str:
    """Return the normalized name that a folder's pyproject.toml says; empty if it says none."""
    try:
        said = tomllib.loads((Path(requirement) / "pyproject.toml").read_text("utf-8")) if is_local(requirement) else {}
        return normalized(str(said.get("project", {}).get("name", "")))
    except (OSError, ValueError, AttributeError):
        return ""


def digest_of(package: Distribution) -> str:
    """Return the SHA-256 over the names and hashes of a package's files, as its RECORD lists them.

    Empty for one with compiled code, whose files differ by Python and platform.
    """
    if "Root-Is-Purelib: true" not in (package.read_text("WHEEL") or ""):
        return ""
    lines = sorted(
        f"{file} {file.hash.value if file.hash else _hash_of(package, str(file))}"
        for file in package.files or ()
        if file.suffix != ".pyc" and (not file.parent.name.endswith(".dist-info") or file.name == _SAYS_WHAT)
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _hash_of(package: Distribution, file: str) -> str:
    with suppress(OSError):
        return hashlib.sha256(Path(str(package.locate_file(file))).read_bytes()).hexdigest()
    return ""


def _refuse_other_content(plugin: InstalledPlugin, wanted: Sequence[Wanted]) -> None:
    """Raise InstallError where an index has other content by now under a version that was added before."""
    for each in wanted:
        known = each.known
        if known is None or each.fresh or normalized(known.name) != normalized(plugin.name):
            continue
        pure = _name_in(known.source) and not known.editable
        if pure and known.digest and (known.version, known.digest) != (plugin.version, plugin.digest):
            raise InstallError(
                f"{plugin.name} {plugin.version} is not what was added: its files are others by now; "
                f"`goclaw plugin update {plugin.name}` takes them"
            )


def _remove_unused(folder: Path) -> None:
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


def _flush(folder: Path) -> None:
    """Have the folder on disk before the record names it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fail(error: InstallError) -> "_Made":
    raise error
