"""The parts of an archive that would run, reach or allow something here. They stay off until a person trusts them.

`list_risks` finds what is in the unpacked archive and not here already; `withhold` takes out what is not trusted,
before anything of the archive is read as a configuration. Nothing of an archive is imported or started here. An archive
with this installation's own seal (`archive.compute_mac`) needs no yes.
"""

import json
import secrets
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import bindparam, delete, func, select, update

from goclaw.common.auth.users import Users
from goclaw.common.config.document import HIDDEN
from goclaw.common.config.keys import ANY_NAME, is_secret, keys, kind_at
from goclaw.common.config.load import Loaded
from goclaw.common.config.locate import parse_yaml
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import MAX_FILE_BYTES, merge
from goclaw.common.config.state import BACKUP_KEY
from goclaw.common.core.files import create_file, read_text
from goclaw.common.core.plugin_folder import FOLDER as PLUGIN_FOLDER
from goclaw.common.core.plugin_folder import RECORD
from goclaw.common.core.redact import mask, reveal
from goclaw.conversation.sessions.state import MODE
from goclaw.durable.store.database import Statement, insert_into
from goclaw.durable.store.forgetting import OWED
from goclaw.durable.store.schema import MATERIAL_KEY, approval_rules, daemon_facts, schedules, session_settings
from goclaw.durable.store.sqlite.database import run
from goclaw.errors import ConfigError, StateError
from goclaw.program.ops.backup import archive

PROGRAMS, HOOKS, SERVERS, ADMINS, TOKENS = KINDS = ("programs", "hooks", "servers", "admins", "tokens")
"""Kinds of things that want a yes each."""
_Path = tuple[str, ...]
_SECTIONS: Mapping[str, tuple[str, ...]] = {
    PROGRAMS: (
        *("plugins", "tools", "agents", "schedules", "documents.unsandboxed"),
        *("memory.embedder", "memory.embedder_python"),
    ),
    HOOKS: ("hooks",),
    SERVERS: (
        *("mcp", "registries", "registry_server", "http", "webhooks", "notify", "channels"),
        *("providers.*.base_url", "telegram.base_url", "telegram.proxy", "telegram.webhook"),
    ),
    ADMINS: ("telegram.groups", "roles", "policy", "pairing", "limits", "audit", "alerts"),
}
"""Keys of the configuration by kind; those of the last kind are all that hold a secret."""
_MOST = 160
"""Characters of one line of the table."""

_ACTIVE = Statement(select(func.count()).where(schedules.c.state == "active"))
_RULES = Statement(select(func.count()).select_from(approval_rules))
_ODD = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
_PAUSE = Statement(
    update(schedules).where(schedules.c.state == "active").values(state="paused", next=None, note=bindparam("why"))
)
_FORGET_RULES = Statement(delete(approval_rules))
_FORGET_MODES = Statement(delete(session_settings).where(session_settings.c.name == MODE))
_FORGET_FACTS = Statement(delete(daemon_facts).where(daemon_facts.c.name.not_like(f"{OWED}%")))
_KEEP_KEY = insert_into(daemon_facts, "name", "value")


def read_key(state_dir: Path, *, make: bool = False) -> bytes:
    """Return the key of this installation's seals, which is in no backup; empty where none was made.

    Raises:
        OSError: it cannot be read, or made.
    """
    path = state_dir / BACKUP_KEY
    if make:
        with suppress(FileExistsError), create_file(path) as file:
            file.write(secrets.token_hex(32).encode())
    return path.read_bytes() if path.exists() else b""


def list_risks(unpacked: Path, here: Loaded) -> dict[str, list[str]]:
    """Return what the archive has of each kind that is not the same here already, a line each, safe to show.

    Raises:
        StateError: its database holds what ours never does.
    """
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    old, new = _read_values(here.path), _read_values(unpacked / archive.CONFIG)
    for kind in KINDS:
        found[kind] += [*_list_files(kind, unpacked, here.config), *_list_keys(kind, new, old)]
    found[ADMINS] += [f"admin {key}" for key in _new_admins(unpacked / archive.USERS, here.config.users_path)]
    with closing(sqlite3.connect(unpacked / archive.DATABASE)) as connection:
        if odd := connection.execute(_ODD).fetchone():
            raise StateError(f"the database in the backup cannot be used: it contains {reveal(str(odd[0]))[:100]!r}")
        if count := run(connection, _ACTIVE()).fetchone()[0]:
            found[PROGRAMS].append(f"active schedules: {count:,}")
        if count := run(connection, _RULES()).fetchone()[0]:
            found[ADMINS].append(f"calls that are always allowed: {count:,}")
    return {kind: [_shorten(line) for line in lines] for kind, lines in found.items() if lines}


def withhold(unpacked: Path, aside: Path, here: Loaded, kinds: Collection[str]) -> None:
    """Take what is of these kinds out of the unpacked archive; the folder `aside` gets it as it was.

    In the configuration the values that are in force here take its place.
    """
    aside.mkdir(mode=0o700, exist_ok=True)
    for kind in kinds:
        for name in _FILES.get(kind, {}) if any(_list_files(kind, unpacked, here.config)) else ():
            if (unpacked / name).exists():
                shutil.move(unpacked / name, aside / name)
    if (config := unpacked / archive.CONFIG).exists():
        old, new = _read_values(here.path), _read_values(config)
        paths = [path for kind in kinds for path in _list_paths(kind)]
        kept = merge([_drop(new, paths), *(_pick(old, path) for path in paths)])
        _rewrite(config, aside, yaml.safe_dump(kept, allow_unicode=True, sort_keys=False), changed=kept != new)
    if ADMINS in kinds and (admins := _new_admins(unpacked / archive.USERS, here.config.users_path)):
        _demote(unpacked / archive.USERS, aside, admins)
    with closing(sqlite3.connect(unpacked / archive.DATABASE, isolation_level=None)) as connection:
        if PROGRAMS in kinds:
            run(connection, _PAUSE(why="it came with a backup that nobody here confirmed"))
        if ADMINS in kinds:
            run(connection, _FORGET_RULES())
            run(connection, _FORGET_MODES())
        if TOKENS in kinds:  # who made the archive knows its sign-ins, pairing codes and marks of foreign text
            run(connection, _FORGET_FACTS())
            run(connection, _KEEP_KEY(name=MATERIAL_KEY, value=json.dumps(secrets.token_hex(32))))


_FILES: Mapping[str, Mapping[str, str]] = {
    PROGRAMS: {archive.TOOLS: archive.TOOLS, archive.PLUGINS: f"{PLUGIN_FOLDER}/{RECORD}"},
    SERVERS: {archive.REGISTRIES: archive.REGISTRIES},
    TOKENS: {archive.SECRETS: archive.SECRETS},
}
"""By kind, files and folders of an archive, and where they lie in the state folder."""


def _list_files(kind: str, unpacked: Path, here: Config) -> Iterator[str]:
    for name, place in _FILES.get(kind, {}).items():
        new, old = unpacked / name, here.state_dir / place
        if _is_other(new, old):
            yield f"packages to install: {_list_packages(new)}" if name == archive.PLUGINS else name
        elif new.is_dir():
            inner = sorted(path.relative_to(new) for path in new.rglob("*") if path.is_file())
            yield from (f"{name}/{path}" for path in inner if _is_other(new / path, old / path))


def _list_packages(record: Path) -> str:
    try:
        return ", ".join(str(each["source"]) for each in json.loads(record.read_bytes())["plugins"])
    except (ValueError, TypeError, KeyError):
        return "the list cannot be read"


def _is_other(new: Path, old: Path) -> bool:
    return new.is_file() and (not old.is_file() or new.read_bytes() != old.read_bytes())


@cache
def _list_paths(kind: str) -> tuple[_Path, ...]:
    if kind == TOKENS:
        return tuple(key.path for key in keys(Config) if is_secret(key.kind))
    return tuple(tuple(dotted.split(".")) for dotted in _SECTIONS[kind])


def _read_values(path: Path | None) -> dict[str, Any]:
    """Read a configuration as it is written; one that cannot be read has nothing."""
    try:
        found = parse_yaml(read_text(path, path.name, MAX_FILE_BYTES)).value if path and path.exists() else {}
    except ConfigError:
        return {}
    return found if isinstance(found, dict) else {}


def _list_keys(kind: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    for path in _list_paths(kind):
        known = dict(_flatten(_pick(old, path)))
        for loc, value in _flatten(_pick(new, path)):
            if value is not None and known.get(loc, ...) != value:
                hidden = kind == TOKENS or is_secret(kind_at(Config, loc))
                yield f"{'.'.join(loc)}: {HIDDEN if hidden else json.dumps(value, ensure_ascii=False)}"


def _flatten(value: object, loc: _Path = ()) -> Iterator[tuple[_Path, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(inner, (*loc, str(name)))
    elif loc:
        yield loc, value


def _pick(values: Mapping[str, Any], path: _Path) -> dict[str, Any]:
    """Return of nested mappings only what is at a path."""
    name, *rest = path
    found = {each: inner for each, inner in values.items() if name in (ANY_NAME, each)}
    if not rest:
        return found
    within = {each: _pick(inner, tuple(rest)) for each, inner in found.items() if isinstance(inner, dict)}
    return {each: inner for each, inner in within.items() if inner}


def _drop(values: Mapping[str, Any], paths: Collection[_Path]) -> dict[str, Any]:
    kept = {}
    for name, value in values.items():
        below = [path[1:] for path in paths if path[0] in (ANY_NAME, name)]
        if () not in below:
            kept[name] = _drop(value, below) if below and isinstance(value, dict) else value
    return kept


def _new_admins(new: Path, here: Path) -> list[str]:
    """Return the admins of a users.json who are none here. One that cannot be read has none: it is in force nowhere."""

    def admins(path: Path) -> list[str]:
        with suppress(ConfigError):
            return [user.key for user in Users.read(path).all() if ADMIN in user.roles]
        return []

    known = set(admins(here))
    return [key for key in admins(new) if key not in known]


def _demote(users: Path, aside: Path, admins: Collection[str]) -> None:
    said = json.loads(users.read_bytes())
    for key in admins:
        said["users"][key]["roles"] = [role for role in said["users"][key]["roles"] if role != ADMIN]
    _rewrite(users, aside, json.dumps(said, indent=2, ensure_ascii=False), changed=True)


def _rewrite(path: Path, aside: Path, text: str, *, changed: bool) -> None:
    if changed:
        path.replace(aside / path.name)
        path.write_text(text, "utf-8")


def _shorten(line: str) -> str:
    shown = reveal(" ".join(mask(line).split()))
    return shown if len(shown) <= _MOST else f"{shown[: _MOST - 1]}…"
