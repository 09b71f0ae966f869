"""Warnings of `goclaw config check` about shared resources. Weak settings are reported by `doctor.security`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from goclaw.access import own_session
from goclaw.config.files import shown_path
from goclaw.config.policies import ADMIN, USER
from goclaw.config.schema import Config
from goclaw.users import User


def shared(config: Config, users: Sequence[User]) -> Iterator[str]:
    """Yield folders and conversations that several people share, one line each."""
    owner = "the owner of the state folder"
    folders: dict[Path, list[str]] = {config.workspace_path: [owner]}
    sessions: dict[str, list[str]] = {}
    for user in users:
        folders.setdefault(user.workspace or config.workspace_path, []).append(_label(user))
        sessions.setdefault(user.session or own_session(user.key), []).append(_label(user))
    for folder, people in folders.items():
        yield f"workspace {shown_path(folder)}, files and memory: {', '.join(people)}"
        if len(people) > 1:
            files = "AGENTS.md, SOUL.md …"
            yield f"instructions to the agent in {shown_path(folder)} ({files}): each of them may write them"
    for session, people in sessions.items():
        if len(people) > 1:
            yield f"session {session}, the whole conversation: {', '.join(people)}"
    if any(user.key.startswith("telegram:") for user in users):
        yield "sessions of Telegram groups: every listed user of Telegram"
    seeing = {ADMIN, *(name for name, role in config.roles.items() if role.sessions != "own")}
    yield f"all sessions: {', '.join([owner, *(_label(user) for user in users if (user.roles or {USER}) & seeing)])}"


def _label(user: User) -> str:
    return f"{user.key} ({user.name})" if user.name else user.key
