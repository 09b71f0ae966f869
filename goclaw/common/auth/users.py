"""users.json: who may use GoClaw, and which tools. The file is watched; a change is in force within two seconds."""

import asyncio
import getpass
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goclaw.common.config.keys import Loc
from goclaw.common.config.locate import Located, parse_json
from goclaw.common.config.report import json_type, problem_line, problem_lines
from goclaw.common.config.values import Workplace, absolute
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import AGENT_MARK
from goclaw.common.core.files import FileLook, Writer, decode, lock_folder, read_bytes, replace_file, shown_path
from goclaw.common.core.hours import hours
from goclaw.common.core.records import record
from goclaw.common.core.selection import find_fault
from goclaw.common.core.supervise import background
from goclaw.common.core.timezones import find_zone, machine_zone
from goclaw.errors import ConfigError, StateError

MAX_FILE_BYTES = 4_000_000
MAX_SESSION = 200
"""Characters of a session's key."""
NO_ROLES = frozenset[str]()
"""One object for all who have none: Python makes a new empty set, of 216 bytes, each time."""
NO_HOURS = "none"
"""In place of hours: none, whatever is configured for all."""
LOOK_SECONDS = 0.8
"""Between two looks at the file. Reading it costs microseconds and sees every way of replacing a file, also in
containers and on network folders, where change notifications are lost."""

_WORKPLACES: Mapping[str, Workplace] = {word: word for word in get_args(Workplace)}

log = logging.getLogger(__name__)


@record
class User:
    """One entry of users.json."""

    key: str
    name: str = ""
    roles: frozenset[str] = frozenset()
    allowed_tools: frozenset[str] | None = None
    """A selection (see `goclaw.common.core.selection`); None: every tool."""
    session: str | None = None
    """Replaces the session that the user would have of their own."""
    workspace: Path | Workplace | None = None
    """A folder, or which of the two that the configuration knows; None: as roles and the configuration say. See
    `workplaces`."""
    groups: bool = True
    """Whether the user may speak in groups, where the bot may: not who was let in by pairing."""
    timezone: str = ""
    """IANA name of the user's time zone; empty: the machine's."""
    quiet_hours: str = ""
    """Hours of the day (`goclaw.common.core.hours`) in which nothing comes unasked; `none`, or empty: as configured."""


class Users:
    """The people in users.json as of now. Ask again at every use; nothing read from it should be kept."""

    def __init__(self, users: Iterable[User] = (), *, path: Path | None = None, content: bytes | None = None) -> None:
        self._users = {user.key: user for user in users}
        self.roles = _roles_of(self._users)
        """Every role that an entry names."""
        self._path = path
        self._seen: object = content
        self._missed = False
        self._look = FileLook(path) if path else None
        self.problem: str | None = None
        """Why the file as it is now cannot be used; the last good version stays in force meanwhile."""
        self.zones: dict[str, str] = {}
        """IANA names of the zones of people who are not listed: the owner's."""
        self.changes: list[Callable[[], None]] = []
        """Called after the entries have changed."""
        self.looks: list[Callable[[], None]] = []
        """Looks at other files, which are made with each look at this one: a daemon wakes for all of them at once."""

    @property
    def in_force(self) -> Mapping[str, User]:
        """The entries by key; another object as soon as any of them has changed."""
        return self._users

    def get(self, key: str) -> User | None:
        """Return the entry with exactly this key."""
        return self._users.get(key)

    def zone(self, key: str) -> tzinfo:
        """Return the time zone of a person; the machine's if they have set none."""
        user = self.get(key)
        name = user.timezone if user else self.zones.get(key)
        return find_zone(name) if name else machine_zone()

    def all(self) -> tuple[User, ...]:
        """Return every entry, in the order of the file."""
        return tuple(self._users.values())

    @classmethod
    def read(cls, path: Path) -> "Users":
        """Read the directory from the file at `path`; `refresh` follows its changes.

        Raises:
            ConfigError: the file is broken. A missing file is not: it has no users.
        """
        content = _read(path)
        return cls(_parse(content, path), path=path, content=content)

    async def refresh(self) -> None:
        """Look at the file now. A broken or unreadable file changes nothing but `problem`."""
        if self._path is None or self._look is None or not self._look.is_due():
            return
        try:
            content = await asyncio.to_thread(_read, self._path)
        except ConfigError as error:
            # What can be read later is news, even if it is what was there before.
            self._seen = error
            self._look.forget()
            self._report(error)
            return
        # An editor may be about to put a new file in the place of a missing one; the next look decides.
        self._missed, waiting = content is None, content is None and not self._missed
        if waiting or content == self._seen:
            return
        self._seen = content
        try:
            found = await asyncio.to_thread(_parse, content, self._path)
        except ConfigError as error:
            self._report(error)
            return
        self._users = {user.key: user for user in found}
        self.roles = _roles_of(self._users)
        self.problem = None
        log.info("users file in force: %d listed", len(found))
        for on_change in self.changes:
            on_change()

    def _report(self, error: ConfigError) -> None:
        problem = f"{'; '.join(error.problems)} (the last valid version stays in force)"
        if problem != self.problem:
            log.error("users file not usable: %s", problem)
        self.problem = problem


def _roles_of(users: Mapping[str, User]) -> frozenset[str]:
    return NO_ROLES.union(*(user.roles for user in users.values()))


@asynccontextmanager
async def open_users(path: Path, clock: Clock) -> AsyncIterator[Users]:
    """Open the directory of users, kept up to date with the file at `path` until the block ends.

    A missing file means no users: only the owner of the state folder may do anything.

    Raises:
        ConfigError: the file is broken now, at the start. Later only `Users.problem` says so.
    """
    users = await asyncio.to_thread(Users.read, path)
    async with background(_watch(users, clock), "users watcher"):
        yield users


async def _watch(users: Users, clock: Clock) -> None:
    while True:
        await users.refresh()
        for look in users.looks:
            look()
        await clock.sleep(LOOK_SECONDS)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = ""
    roles: list[str] = []
    allowedTools: list[str] = Field(default_factory=list)
    session: str = ""
    workspace: str = ""
    groups: bool = True
    timezone: str = ""
    quietHours: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    users: dict[str, _Entry]


def _parse(content: bytes | None, path: Path) -> list[User]:
    if content is None:
        return []
    shown = shown_path(path)
    located = parse_json(decode(content, shown))

    def place(loc: Loc) -> str:
        known = next(loc[:length] for length in range(len(loc), -1, -1) if loc[:length] in located.places)
        return f"{shown}:{located.places[known]}"

    if located.problems:
        raise ConfigError(*(problem_line(f"{shown}:{spot}", loc, message) for spot, loc, message in located.problems))
    if not isinstance(located.value, dict):
        raise ConfigError(f'{place(())}: should be {{"users": {{…}}}}, not {json_type(located.value)}')
    problems: list[str] = []
    file = _File(users={})
    try:
        file = _File.model_validate(located.value)
    except ValidationError as error:
        problems += problem_lines(error, _File, place)
    problems += [problem_line(place(loc), loc, message) for loc, message in _refusals(located)]
    if problems:
        raise ConfigError(*problems)
    return [_user(key, entry, path.parent) for key, entry in file.users.items()]


def key_problem(key: str) -> str | None:
    """Describe the fault of a user's key, and the remedy; None when it is valid."""
    channel, colon, name = key.partition(":")
    if not colon:
        hint = f"; did you mean `telegram:{key}`?" if re.fullmatch("[1-9][0-9]*", key) else ""
        return f"should be `<channel>:<id>`, like `telegram:123456` or `tui:ann`{hint}"
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", channel):
        return f"the channel's name should be in lower case, like `telegram:{name}`"
    if not name or name != name.strip() or not name.isprintable() or re.search(r"\s", name):
        return "the part after the `:` should be one word"
    if channel == "telegram" and name.startswith("-"):
        return "is the id of a group; list people: the `telegram:<number>` of each"
    if channel == "telegram" and not re.fullmatch("[1-9][0-9]{0,19}", name):
        return (
            "should be the numeric user id, `telegram:123456`: usernames change hands; "
            "`goclaw logs` shows the id of everyone who wrote and is not listed"
        )
    return None


def add_user(
    path: Path,
    key: str,
    *,
    name: str = "",
    roles: Collection[str] = ("user",),
    allowed_tools: Collection[str] | None = None,
    groups: bool = True,
    workspace: str = "",
    quiet_hours: str = "",
    writer: Writer = lock_folder,
) -> None:
    """Write one more entry into the file (made when missing, mode 0600), in one step or not at all; the rest stays.

    `writer`: changes the file.

    Raises:
        ConfigError: the key is not valid or already listed, or the file is broken or cannot be written.
    """
    if problem := key_problem(key):
        raise ConfigError(f"{key}: {problem}")
    entry: dict[str, Any] = {**({"name": name} if name else {}), "roles": list(roles)}
    if allowed_tools is not None:
        entry["allowedTools"] = list(allowed_tools)
    if not groups:
        entry["groups"] = False
    if workspace:
        if problem := _text_problem("workspace", workspace):
            raise ConfigError(f"{key}: workspace: {problem}")
        entry["workspace"] = workspace
    if quiet_hours:
        entry["quietHours"] = quiet_hours
    with _rewritten(path, writer) as content:
        if key in content["users"]:
            raise ConfigError(f"{shown_path(path)}: {key} is already listed; `goclaw users edit` changes the entry")
        content["users"][key] = entry


def put_users(
    path: Path,
    entries: Mapping[str, Mapping[str, Any]],
    expected: Mapping[str, User | None],
    writer: Writer = lock_folder,
) -> None:
    """Write the entries of several people into the file, all of them or none; the rest stays.

    Args:
        path: the file, which is made when missing, mode 0600.
        entries: what to write, by key.
        expected: what each entry is until now, as the person saw it; None: no entry.
        writer: changes the file.

    Raises:
        ConfigError: a key or an entry is not valid, an entry is not as expected any more, or the file is broken or
            cannot be written.
    """
    for key in entries:
        if problem := key_problem(key):
            raise ConfigError(f"{key}: {problem}")
    with _rewritten(path, writer) as content:
        people = content["users"]
        for key, entry in entries.items():
            present = user_of(key, people[key], path) if key in people else None
            if present != expected[key]:
                raise ConfigError(
                    f"{shown_path(path)}: {key} was changed in the meantime; nothing was written, check again"
                )
            people[key] = dict(entry)
        _parse(json.dumps(content).encode(), path)


def remove_user(path: Path, key: str, writer: Writer = lock_folder) -> None:
    """Take an entry out of the file, which `writer` changes; the rest stays.

    Raises:
        ConfigError: it is not listed, or the file is broken or cannot be written.
    """
    with _rewritten(path, writer) as content:
        if content["users"].pop(key, None) is None:
            raise ConfigError(f"{shown_path(path)}: {key} is not listed; `goclaw users list` shows who is")


def check_users(content: bytes, path: Path) -> None:
    """Check what is to become the file at `path`.

    Raises:
        ConfigError: it cannot be used.
    """
    _parse(content, path)


def user_of(key: str, entry: Mapping[str, Any], path: Path) -> User:
    """Return the user that an entry of the file at `path` describes."""
    return _user(key, _Entry.model_validate(entry), path.parent)


def set_timezone(path: Path, key: str, zone: str, writer: Writer = lock_folder) -> None:
    """Write a listed user's time zone, an IANA name, into the file, which `writer` changes; the rest stays.

    Raises:
        ConfigError: the user is not listed, or the file is broken or cannot be written.
    """
    with _rewritten(path, writer) as content:
        if key not in content["users"]:
            raise ConfigError(
                f"{shown_path(path)}: {key} is not listed, so the machine's time zone applies; add it with `goclaw "
                "users add`"
            )
        content["users"][key]["timezone"] = zone


@contextmanager
def _rewritten(path: Path, writer: Writer) -> Iterator[dict[str, Any]]:
    """Yield the file's content, to be changed in the block, and write it then (made when missing, mode 0600).

    Raises:
        ConfigError: the file is broken or cannot be written.
    """
    target = path.resolve()
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with writer(target):
            before = _read(target)
            _parse(before, target)
            content = json.loads(before.decode("utf-8-sig")) if before is not None else {"users": {}}
            yield content
            replace_file(target, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: cannot be written: {error.strerror}") from None
    except StateError as error:
        raise ConfigError(f"{shown_path(path)}: {error}") from error


def _refusals(located: Located) -> Iterator[tuple[Loc, str]]:
    """Yield problems that the types allow and the meaning does not."""
    users = located.value.get("users")
    for key, entry in users.items() if isinstance(users, dict) else ():
        loc: Loc = ("users", key)
        if problem := key_problem(key):
            yield loc, problem
        if not isinstance(entry, dict):
            continue
        for field in ("session", "workspace", "timezone", "quietHours"):
            if isinstance(value := entry.get(field), str) and (problem := _text_problem(field, value)):
                yield (*loc, field), problem
        if isinstance(tools := entry.get("allowedTools"), list):
            if any(tool == "" for tool in tools):
                yield (*loc, "allowedTools"), "should hold names of tools"
            elif problem := find_fault([tool for tool in tools if isinstance(tool, str)]):
                yield (*loc, "allowedTools"), problem


def _text_problem(field: str, value: str) -> str | None:
    if not value or value != value.strip():
        return "should not be empty or begin or end with a space; leave the key out"
    if field == "session" and (not value.isprintable() or len(value) > MAX_SESSION):
        return f"should be the name of a session: at most {MAX_SESSION} characters, all of them printable"
    if field == "session" and AGENT_MARK in value:
        return f"should not contain `{AGENT_MARK}`, which is reserved for the sessions of agents"
    try:
        if field == "workspace":
            absolute(Path(value))
        elif field == "timezone":
            find_zone(value)
        elif field == "quietHours" and value != NO_HOURS:
            hours(value)
    except ValueError as error:
        return str(error)
    return None


def _user(key: str, entry: _Entry, base: Path) -> User:
    return User(
        key=key,
        name=entry.name,
        roles=frozenset(entry.roles) or NO_ROLES,
        allowed_tools=frozenset(entry.allowedTools) if "allowedTools" in entry.model_fields_set else None,
        session=entry.session or None,
        workspace=_workspace(entry.workspace, base.absolute()),
        groups=entry.groups,
        timezone=entry.timezone,
        quiet_hours=entry.quietHours,
    )


def _workspace(said: str, base: Path) -> Path | Workplace | None:
    """Return what `workspace` means. A folder of earlier versions that has one of the two words for its name stays."""
    if (word := _WORKPLACES.get(said)) and not (base / said).is_dir():
        return word
    return absolute(Path(said), base) if said else None


def _read(path: Path) -> bytes | None:
    if not path.exists() and not path.is_symlink():
        return None
    return read_bytes(path, shown_path(path), MAX_FILE_BYTES)


def login_name() -> str:
    """Return the user's login; `owner` where the system knows no name for the uid (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"
