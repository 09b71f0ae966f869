"""What `goclaw config check` says beyond "it can be used": what is weak, and what is shared with whom."""

import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from goclaw.access import own_session
from goclaw.config.files import shown_path
from goclaw.config.load import Loaded
from goclaw.config.schema import ADMIN, USER, Config
from goclaw.users import User

_LOCAL = ("localhost", "127.0.0.1", "::1")
_BOT_TOKEN = re.compile(r"[0-9]{6,}:[A-Za-z0-9_-]{30,}")


def weak_points(loaded: Loaded, users: Sequence[User]) -> Iterator[str]:
    """Settings that work but protect less than they could, one line each."""
    config = loaded.config
    yield from _permissions(config)
    yield from _network(config)
    yield from _telegram(config, users)
    yield from _open_files(config)
    limited = {name for name, role in config.roles.items() if role.tools is not None}
    for user in users:
        if user.allowed_tools is None and ADMIN not in user.roles and not (user.roles or {USER}) <= limited:
            yield f"users.json {user.key} has no allowedTools: this user may use every tool"


def shared(config: Config, users: Sequence[User]) -> Iterator[str]:
    """Which folders and conversations more than one person has, one line each."""
    owner = "the owner of the state folder"
    folders: dict[Path, list[str]] = {config.workspace_path: [owner]}
    sessions: dict[str, list[str]] = {}
    for user in users:
        folders.setdefault(user.workspace or config.workspace_path, []).append(_label(user))
        sessions.setdefault(user.session or own_session(user.key), []).append(_label(user))
    for folder, people in folders.items():
        yield f"workspace {shown_path(folder)}, files and memory: {', '.join(people)}"
    for session, people in sessions.items():
        if len(people) > 1:
            yield f"session {session}, the whole conversation: {', '.join(people)}"
    if any(user.key.startswith("telegram:") for user in users):
        yield "sessions of Telegram groups: every listed user of Telegram"
    seeing = {ADMIN, *(name for name, role in config.roles.items() if role.sessions != "own")}
    yield f"all sessions: {', '.join([owner, *(_label(user) for user in users if (user.roles or {USER}) & seeing)])}"


def _permissions(config: Config) -> Iterator[str]:
    if config.tools.exec.sandbox == "off":
        yield "tools.exec.sandbox is off: commands run with all rights of this account (they ask first)"
    if config.tools.exec.network == "host":
        yield "tools.exec.network is host: commands reach the network and this machine's own services (they ask first)"
    if config.policy.allow_bypass:
        yield "policy.allow_bypass is true: admins may switch off every question"


def _network(config: Config) -> Iterator[str]:
    if config.http.host not in _LOCAL:
        yield f"http.host is {config.http.host}: the listener is open to other machines; put a TLS proxy before it"
    for name, url in _servers(config):
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            yield f"{name} is not encrypted: keys and messages can be read on the way to {parts.hostname}"


def _telegram(config: Config, users: Sequence[User]) -> Iterator[str]:
    token = config.telegram.token
    if token and not _BOT_TOKEN.fullmatch(token.get_secret_value()):
        yield "telegram.token does not look like a bot's token (123456:ABC…)"
    if token and config.telegram.enabled is not False and not any(user.key.startswith("telegram:") for user in users):
        yield "Telegram is on, but users.json lists nobody of Telegram: every message there will be ignored"


def _servers(config: Config) -> Iterator[tuple[str, str]]:
    yield "telegram.base_url", config.telegram.base_url
    for name, settings in config.providers.items():
        if settings.base_url:
            yield f"providers.{name}.base_url", settings.base_url


def _open_files(config: Config) -> Iterator[str]:
    for path, rights, words in (
        (config.state_dir, 0o077, "others can look into the state folder"),
        (config.users_path, 0o022, "others can change who may do what"),
    ):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & rights:
            yield f"{shown_path(path)}: {words} (mode {mode:o}); run `chmod go-rwx {shown_path(path)}`"


def _label(user: User) -> str:
    return f"{user.key} ({user.name})" if user.name else user.key
