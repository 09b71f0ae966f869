"""The declarations of installed packages, as the source of settings below everything that the operator says.

Merged key by key: lists count whole, a key without a value (`null`) is as the package has it, and `replace: true` in a
mapping puts aside the package's values there. Unusable parts are left out and named, and stop nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from goclaw.common.config.agents import GENERAL, GENERAL_KIND
from goclaw.common.config.keys import child_kind, entry_kind, kind_at
from goclaw.common.config.report import format_location
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import SettingsSource, combine, nest
from goclaw.common.core import catalog
from goclaw.common.core.plugin_folder import activate
from goclaw.common.core.plugins import load, plugins
from goclaw.common.core.records import record

SECTIONS = ("agents", "toolsets", "mcp")
"""The sections of the entry-point group whose lines say something of the configuration."""
REPLACE = "replace"
TOOLS_FOLDER = "tools"
"""In the state folder: one-file plugins that no configuration has to name."""
Path = tuple[str, ...]
_SWITCH: TypeAdapter[bool] = TypeAdapter(bool)
_KINDS = ("agents", "kinds")
_KEYS: Mapping[str, tuple[Path, ...]] = {
    "agents": (_KINDS,),
    "toolsets": (("tools", "from_registry"), ("tools", "pinned"), ("tools", "publish")),
}
"""Keys by which the operator may override a package's line, by section."""


@record
class PackagedKey:
    """A key that a package says, such as `agents.kinds.chat`."""

    path: Path
    values: object
    place: str
    """Source of the line, for people: `agent chat of plugin agents.chat (garden 1.0)`."""


@record
class Packaged:
    """All configuration from packages."""

    entries: tuple[PackagedKey, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    """Parts that are left out, and why."""
    absent: tuple[Path, ...] = ()
    """Keys that lines which cannot be loaded may have set: what the file adds to them means something else without."""
    declared: Any = None
    """The parts themselves, for `toolkit.parts`."""

    def without(self, entry: PackagedKey, why: str) -> "Packaged":
        """Return a copy without an entry, which is named as a fault."""
        kept = tuple(each for each in self.entries if each is not entry)
        return replace(self, entries=kept, faults={**self.faults, entry.place: why})

    def validate_entries(self) -> "Packaged":
        """Return a copy without entries that are invalid by themselves."""
        found = self
        for entry in self.entries:
            try:
                combine([SettingsSource(nest(entry.path, entry.values))])
            except ValidationError as error:
                found = found.without(entry, error.errors()[0]["msg"].removeprefix("Value error, "))
        return found

    def find_culprit(self, problems: Sequence[str]) -> tuple[PackagedKey, str] | None:
        """Return the first entry that one of these lines is about, and its problem; None: no package is at fault."""
        for line in problems:
            for entry in self.entries:
                if line.startswith(f"{entry.place}: "):
                    return entry, line.removeprefix(f"{entry.place}: ")
        return None

    def explain(self, problems: Sequence[str]) -> list[str]:
        """Return the lines about the operator's values, with a word on a package's value of the same key."""
        return [line + self._remedy(line) for line in problems]

    def orphans(self, above: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
        """Yield keys that the operator sets in a part of a package that cannot be loaded, and why they cannot count."""
        for path in self.absent:
            said = _at(above, path)
            if isinstance(said, dict) and not _replaces(said):
                remedy = f"set `{format_location(path)}.replace: true` to use it without the package"
                yield path, f"is ignored because the package that declares it cannot be loaded; {remedy}"
        registries = above.get("registries")
        for name, said in registries.items() if self.absent and isinstance(registries, dict) else ():
            if isinstance(said, dict) and not said.get("url"):
                why = "is ignored: it has no `url`, and the package that may declare it cannot be loaded"
                yield ("registries", name), why

    def _remedy(self, line: str) -> str:
        for entry in self.entries:
            if f": {(key := format_location(entry.path))}." in line:
                return f" ({entry.place} declares more of it; `{key}.replace: true` ignores that)"
        return ""


class PackagedSource(SettingsSource):
    """The declarations of packages, as far as the sources above leave it."""

    def __init__(self, packaged: Packaged) -> None:
        super().__init__()
        self._packaged = packaged

    def __call__(self) -> dict[str, Any]:
        above, entries = self.current_state, self._packaged.entries
        of_packages = {entry.path[2] for entry in entries if entry.path[:2] == _KINDS}
        own = _at(above, _KINDS)
        if of_packages and not (isinstance(own, dict) and own.keys() - of_packages):
            # The built-in kind goes where the operator has kinds of his own, and not where a package brings one.
            self.set((*_KINDS, GENERAL), dump_set_values(GENERAL_KIND), "the built-in kind of agent")
        for entry in entries:
            left = _select(entry.values, _at(above, entry.path), kind_at(Config, entry.path))
            self.set(entry.path, left, entry.place)
        return self.values


@record
class PackagedPart:
    """The line of the catalogue: reads what packages declare. Blocks; what cannot be loaded is a fault."""

    read: Callable[[Sequence[FilePath], Config], Packaged]
    """From the one-file plugins, and the places that the configuration names."""


@record
class FileParts:
    """The parts of a one-file plugin, of the kinds of `goclaw.tools.toolkit`."""

    tools: tuple[Any, ...] = ()
    """Every tool, those of toolsets included."""
    declared: tuple[Any, ...] = ()
    """Its agents, toolsets and MCP servers, which are read at a start only."""
    hooks: Mapping[str, Any] = field(default_factory=dict)
    """Its hooks by the names they are bound to, read at a start only."""

    @property
    def configured(self) -> tuple[str, ...]:
        """The names of what is read at a start only."""
        return (*(part.name for part in self.declared), *self.hooks)


@record
class FilesPart:
    """The line of the catalogue: loads a one-file plugin. Blocks; raises a GoclawError that names the line."""

    load: Callable[[FilePath, Config], FileParts]


def plugin_paths(state_dir: FilePath, named: Sequence[FilePath]) -> list[FilePath]:
    """Return the one-file plugins: those that the configuration names, then `tools/*.py` of the state folder."""
    folder = state_dir / TOOLS_FOLDER
    try:
        # The names alone: each look of a running daemon costs one call of the kernel where the folder is missing.
        listed = os.listdir(folder)  # noqa: PTH208 -- see above
        names = sorted(name for name in listed if name.endswith(".py") and not name.startswith((".", "_")))
    except OSError:
        names = []
    return list(dict.fromkeys([*named, *(folder / name for name in names)]))


def file_title(path: FilePath) -> str:
    """Return the name of a one-file plugin for people."""
    return f"plugin file {path}"


def read_packaged(state_dir: FilePath, above: Mapping[str, object]) -> Packaged:
    """Read what installed packages declare, those of the state folder's plugins and one-file plugins included.

    Every omission is a fault. Modules are imported only where there are any. Blocks. `above`: the operator's values.
    """
    missing = activate(state_dir)
    ground = _ground(state_dir, above)
    files = plugin_paths(state_dir, ground.plugins) if ground else []
    any_declares = files or any(plugins(section) for section in SECTIONS)
    found = load(catalog.PACKAGED, PackagedPart).read(files, ground or Config()) if any_declares else Packaged()
    lines = [point.partition(".") for plugin in missing for point in plugin.parts]
    absent = [path for section, _, name in lines if section in _KEYS for path in possible_keys(section, name)]
    faults = {f"plugin {plugin.name}": plugin.fault for plugin in missing}
    return replace(found, faults={**faults, **found.faults}, absent=(*found.absent, *absent))


def _ground(state_dir: FilePath, above: Mapping[str, object]) -> Config | None:
    """Return the places that the operator names, where one-file plugins may be; None: none are, or they are wrong."""
    if not above.get("plugins") and not (state_dir / TOOLS_FOLDER).is_dir():
        return None
    said = {name: above[name] for name in ("workspace", "users_file", "plugins") if name in above}
    try:
        return Config.model_validate({"state_dir": state_dir, **said})
    except ValidationError:
        return None  # said with its place when the whole is checked


def possible_keys(section: str, name: str) -> tuple[Path, ...]:
    """Return the keys that a line `section.name` may have said a part of."""
    return tuple((*above, name) for above in _KEYS[section])


def dump_set_values(section: BaseModel) -> dict[str, object]:
    """Turn a section into data as the file would have it, without keys that were not set."""
    said = {name: value for name, value in section if name in section.model_fields_set and value is not None}
    return {name: _dump(value) for name, value in said.items()}


def _dump(value: object) -> object:
    if isinstance(value, dict):
        return {name: _dump(each) for name, each in value.items()}
    return dump_set_values(value) if isinstance(value, BaseModel) else value


def remove(values: dict[str, object], path: Path) -> None:
    """Take a key out of nested mappings, if it exists."""
    inner = _at(values, path[:-1])
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def _select(values: object, said: object, kind: object) -> object:
    """Select the package's values that stay below the operator's there."""
    if not isinstance(values, dict) or not isinstance(said, dict):
        return values
    # A JSON Schema, or the input of another tool, is one value: half of two is neither.
    if _replaces(said) or entry_kind(kind) is Any:
        return {}
    return {name: _select(each, said.get(name), child_kind(kind, name)) for name, each in values.items()}


def _replaces(said: Mapping[str, object]) -> bool:
    try:
        return _SWITCH.validate_python(said.get(REPLACE, False))
    except ValidationError:
        return False


def _at(values: object, path: Path) -> object:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values
