"""Weak settings and files: for `goclaw doctor` and for `goclaw config check`, from one place. Changes nothing."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from goclaw.config.files import shown_path
from goclaw.config.load import Loaded
from goclaw.config.policies import ADMIN, USER
from goclaw.config.schema import Config
from goclaw.doctor.base import Finding, weak
from goclaw.doctor.weak_files import weak_files
from goclaw.doctor.weak_settings import weak_settings
from goclaw.errors import ConfigError
from goclaw.plugins import GROUP
from goclaw.tokens import read_tokens
from goclaw.users import User, Users


async def check_security(loaded: Loaded) -> list[Finding]:
    """Return weaknesses, else one finding that there are no weaknesses."""
    return await asyncio.to_thread(_looked_at, loaded)


def weak_spots(loaded: Loaded, users: Sequence[User]) -> Iterator[Finding]:
    """Yield everything that works but protects less than it could, each with what helps."""
    yield from weak_settings(loaded)
    yield from weak_files(loaded.config, users, loaded.path)
    yield from _people(loaded.config, users)
    yield from _process()


def _looked_at(loaded: Loaded) -> list[Finding]:
    try:
        users = Users.read(loaded.config.users_path).all()
    except ConfigError:
        users = ()  # the check of the users says so
    return list(weak_spots(loaded, users)) or [Finding("security", "ok", "no weak spot found")]


def _people(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    yield from _unlimited(config, users)
    yield from _sharing(config, users)
    yield from _doors(config, users)
    telegram = [user for user in users if user.key.startswith("telegram:")]
    on = config.telegram.token is not None and config.telegram.enabled is not False
    if on and not telegram:
        yield weak(
            "Telegram is on, but users.json lists nobody of Telegram: every message there will be ignored",
            "`goclaw users add telegram:<numeric id>`; `goclaw logs` shows who wrote",
        )
    admins = [user.key for user in telegram if ADMIN in user.roles and user.groups]
    if on and config.telegram.groups and admins:
        yield weak(
            f"admins may speak in groups ({', '.join(admins)}): others' words there reach turns with their rights",
            '`"groups": false` in their entries of users.json: they are heard in private then',
        )


def _doors(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    """Yield findings on tokens, and on access without an entry written by hand."""
    try:
        tokens = read_tokens(config.tokens_path)
    except ConfigError as error:
        yield weak(f"{error}; no token is valid meanwhile", f"`chmod 600 {config.tokens_path}`, or mend it", "problem")
        tokens = {}
    known = {user.key for user in users}
    for name, token in sorted(tokens.items()):
        if token.user not in known:
            yield weak(
                f"the token {name} is for {token.user}, who is not in users.json", f"`goclaw token revoke {name}`"
            )
        elif token.until is None:
            yield weak(
                f"the token {name} ({token.user}) never expires: whoever finds it keeps it",
                f"`goclaw token revoke {name}`, then `goclaw token add {name} --user {token.user} --days 90`",
            )
    role = config.roles.get(config.pairing.role)
    if config.pairing.enabled and config.pairing.allowed_tools is None and (role is None or role.tools is None):
        yield weak(
            "whoever is let in by pairing may use every tool",
            "set `pairing.allowed_tools`, or `pairing.role` to a role with `tools`",
        )


def _unlimited(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    limited = {name for name, role in config.roles.items() if role.tools is not None}
    for user in users:
        if user.allowed_tools is None and ADMIN not in user.roles and not (user.roles or {USER}) <= limited:
            yield weak(
                f"users.json {user.key} has no allowedTools: this user may use every tool",
                'list what they need: `"allowedTools": ["read", "memory_search"]`',
            )


def _sharing(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    """Yield people whose tools work in one folder; the owner has the configured one, and sees all anyway."""
    folders: dict[Path, list[str]] = defaultdict(list)
    for user in users:
        folders[user.workspace or config.workspace_path].append(user.key)
    for folder, people in folders.items():
        if len(people) > 1:
            yield weak(
                f"{', '.join(people)} share the workspace {shown_path(folder)}: each sees and changes all files",
                'if they should not: `"workspace": "<a folder>"` in each entry of users.json',
            )


def is_root() -> bool:
    """Whether the account may do everything on the machine."""
    return os.geteuid() == 0


def _process() -> Iterator[Finding]:
    if is_root():
        yield weak(
            "this account is root: whatever gets past GoClaw has the whole machine",
            "run it as a user of its own (`goclaw service install` there, or the container)",
        )
    plugins = sorted({f"{point.name} ({point.value.partition(':')[0]})" for point in entry_points(group=GROUP)})
    if plugins:
        yield weak(
            f"plugins run inside the daemon with all its rights: {', '.join(plugins)}",
            "uninstall those that you did not choose",
        )
