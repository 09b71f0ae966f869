"""Weak settings and files: for `goclaw doctor` and for `goclaw config check`, from one place. Changes nothing.

People, the process, and files and folders that people or programs other than GoClaw could read or change, each with
what helps; the configuration's own weaknesses are in `weak_settings`.
"""

import asyncio
import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape
from importlib.metadata import entry_points
from pathlib import Path

from goclaw.common.auth.access import Access
from goclaw.common.auth.presets import GUESTS, preset_role
from goclaw.common.auth.tokens import read_tokens
from goclaw.common.auth.users import User, Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.load import Loaded
from goclaw.common.config.packaged import plugin_paths
from goclaw.common.config.policies import ADMIN, USER
from goclaw.common.config.schema import Config
from goclaw.common.config.state import PROMPT_FILES, check_apart
from goclaw.common.core.files import lies_inside, readable_by_others, shown_path
from goclaw.common.core.plugins import GROUP
from goclaw.common.workspace import ApprovedFiles
from goclaw.errors import ConfigError, SandboxUnavailable, StateError
from goclaw.program.ops.doctor.base import Finding, Verdict, weak
from goclaw.program.ops.doctor.weak_settings import weak_settings
from goclaw.tools.execution.sandbox.layout import refuse_system

MAX_NAMED = 20
"""Files of one kind that are named; more of them add nothing."""
_COPIES = ("{}*.bak", "{}~", "{}.orig", "{}.old", "{}.save", ".{}.sw?")
"""Names of copies that editors, people and GoClaw's own migrations leave next to a file."""
_ARCHIVES = ("goclaw*.tar.gz", "goclaw*.tgz")
"""Names of backups as on docs/backup.md."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


async def check_security(loaded: Loaded) -> list[Finding]:
    """Return weaknesses, else one finding that there are no weaknesses."""

    def examine() -> list[Finding]:
        users: Sequence[User] = ()
        with suppress(ConfigError):  # the check of the users says so
            users = Users.read(loaded.config.users_path).all()
        return list(weak_spots(loaded, users)) or [Finding("security", "ok", "no weaknesses found")]

    return await asyncio.to_thread(examine)


def weak_spots(loaded: Loaded, users: Sequence[User]) -> Iterator[Finding]:
    """Yield everything that works but protects less than it could, each with what helps."""
    yield from weak_settings(loaded)
    yield from weak_files(loaded.config, users, loaded.path)
    yield from _people(loaded.config, users)
    yield from _prompt_files(loaded.config)
    yield from _process(loaded.config)


def _people(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    access = Access(Users(users), config)
    for user in users:
        by_preset = bool(user.roles) and user.roles <= GUESTS.keys()  # chosen from a table that said so
        if ADMIN not in user.roles and not by_preset and access.has_every_tool(user):
            yield weak(
                f"users.json {user.key} has no allowedTools: this user may use every tool",
                'list the tools they need: `"allowedTools": ["read", "memory_search"]`',
            )
    yield from _sharing(config, users)
    yield from _doors(config, users)
    telegram = [user for user in users if user.key.startswith("telegram:")]
    on = config.telegram.token is not None and config.telegram.enabled is not False
    if on and not telegram:
        yield weak(
            "Telegram is on, but users.json lists no Telegram user: the bot ignores every message",
            "`goclaw users add telegram:<numeric id>`; `goclaw logs` shows who wrote",
        )
    admins = [user.key for user in telegram if ADMIN in user.roles and user.groups]
    if on and config.telegram.groups and admins:
        yield weak(
            f"admins may speak in groups ({', '.join(admins)}): what others write there reaches turns with admin "
            "rights",
            'set `"groups": false` in their entries of users.json; they can still write in private',
        )


def _prompt_files(config: Config) -> Iterator[Finding]:
    for change in ApprovedFiles(config.state_dir / PROMPT_FILES).waiting():
        yield weak(
            f"{change.root / change.name} has changed, and several people share this workspace: the approved text "
            "stays in force",
            "`goclaw prompt-files list` shows the change, `goclaw prompt-files approve` approves it",
        )


def _doors(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    """Yield findings on tokens, and on access without an entry written by hand."""
    try:
        tokens = read_tokens(config.tokens_path)
    except ConfigError as error:
        yield weak(
            f"{error}; until then no token is valid",
            f"run `chmod 600 {config.tokens_path}`, or fix the file",
            "problem",
        )
        tokens = {}
    known = {user.key for user in users}
    for name, token in sorted(tokens.items()):
        if token.user not in known:
            yield weak(
                f"the token {name} belongs to {token.user}, who is not in users.json", f"`goclaw token revoke {name}`"
            )
        elif token.until is None:
            yield weak(
                f"the token {name} ({token.user}) never expires: anyone who finds it keeps access",
                f"`goclaw token revoke {name}`, then `goclaw token add {name} --user {token.user} --days 90`",
            )
    role = config.roles.get(config.pairing.role) or preset_role(config.pairing.role)
    if config.pairing.enabled and config.pairing.allowed_tools is None and (role is None or role.tools is None):
        yield weak(
            "a person admitted by pairing may use every tool",
            "set `pairing.allowed_tools`, or `pairing.role` to `guest`",
        )
    for user in users:  # as pairing wrote them before there were presets
        if not user.groups and user.roles == {USER} and user.allowed_tools is None and USER not in config.roles:
            yield weak(
                f"{user.name or user.key} ({user.key}) was let in by pairing and may use every tool, without a budget",
                f"`goclaw users set {user.key} --preset guest`, or `child`, or `adult`",
            )


def _sharing(config: Config, users: Sequence[User]) -> Iterator[Finding]:
    """Yield people with tools working in one folder; the owner has the configured one, and sees all anyway."""
    folders: dict[Path, list[str]] = defaultdict(list)
    for key, place in places_of(config, users).items():
        folders[place.root].append(key)
    for folder, people in folders.items():
        if len(people) > 1:
            yield weak(
                f"{', '.join(people)} share the workspace {shown_path(folder)}: each can read and change all files",
                'to separate them, set `workspaces: per-person`, or `"workspace": "own"` in their entries of '
                "users.json",
            )


def is_root() -> bool:
    """Whether the account may do everything on the machine."""
    return os.geteuid() == 0


def _process(config: Config) -> Iterator[Finding]:
    if is_root():
        yield weak(
            "GoClaw runs as root: anything that escapes it controls the whole machine",
            "run it as a separate user (`goclaw service install` as that user, or the container)",
        )
    packaged = sorted({f"{point.name} ({point.value.partition(':')[0]})" for point in entry_points(group=GROUP)})
    plugins = [*packaged, *map(str, plugin_paths(config.state_dir, config.plugins))]
    if plugins:
        yield weak(
            f"plugins run inside the daemon with all its rights: {', '.join(plugins)}",
            "uninstall plugins that you did not choose",
        )


def weak_files(config: Config, users: Sequence[User], config_file: Path | None) -> Iterator[Finding]:
    """Yield weaknesses in the location of files, and in other users' access to them."""
    yield from _modes(config)
    ours = {config.state_dir, config.users_path.parent, config.workspace_path}
    yield from _ways_in({*ours, config_file.parent} if config_file else ours)
    yield from _copies([config.database_path, config.users_path, *([config_file] if config_file else ())])
    own = (place.root for place in places_of(config, users).values())
    workspaces = list(dict.fromkeys([config.workspace_path, *own]))
    yield from _archives([config.state_dir, Path.home(), *workspaces], workspaces)
    for workspace in workspaces:
        yield from _workspace(config, workspace)


def _modes(config: Config) -> Iterator[Finding]:
    state = config.state_dir
    for path, rights, words, private in (
        (state, 0o077, "others can read the state folder", "700"),
        (config.users_path, 0o022, "others can change users and their rights", "600"),
    ):
        mode = _mode(path)
        if mode & rights:
            verdict: Verdict = "problem" if mode & 0o022 else "warning"
            yield weak(f"{shown_path(path)}: {words} (mode {mode:o})", f"`chmod {private} {shown_path(path)}`", verdict)
    # Only where the folder lets them in are these in reach.
    for path in (config.database_path, state / "goclaw.db-wal", state / "logs", state / "blobs"):
        if mode := readable_by_others(path):
            yield weak(
                f"{shown_path(path)}: others can read conversations (mode {mode:o})",
                f"`chmod go-rwx {shown_path(state)} {shown_path(path)}`",
            )


def _ways_in(folders: Iterable[Path]) -> Iterator[Finding]:
    """Yield folders on the way that others can rename, thereby replacing their contents."""
    for folder in sorted({above for one in folders for above in (one, *one.absolute().parents)}):
        try:
            found = folder.stat()
        except OSError:
            continue
        if found.st_mode & _WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX:
            mode = stat.S_IMODE(found.st_mode)
            yield weak(
                f"{folder}: others can replace its contents (mode {mode:o})", f"`chmod go-w {folder}`", "problem"
            )
        elif found.st_uid not in (0, os.geteuid()):
            yield weak(
                f"{folder} belongs to another user (uid {found.st_uid}), who can replace its contents",
                f"move it, or run `chown {os.geteuid()} {folder}` if the folder is yours",
                "problem",
            )


def _copies(files: Sequence[Path]) -> Iterator[Finding]:
    for original in files:
        for copy in _find_files([original.parent], [pattern.format(escape(original.name)) for pattern in _COPIES]):
            yield weak(
                f"{shown_path(copy)} is an old copy of {original.name}; it still contains everything deleted since",
                f"when everything works, run `rm {shown_path(copy)}`",
            )


def _archives(folders: Iterable[Path], workspaces: Sequence[Path]) -> Iterator[Finding]:
    for file in _find_files(folders, _ARCHIVES):
        if any(lies_inside(file, workspace) for workspace in workspaces):
            yield weak(
                f"{shown_path(file)} is inside a workspace: the agent can read all conversations in this backup",
                "move it out of the workspace",
            )
        elif mode := readable_by_others(file):
            yield weak(
                f"{shown_path(file)}: others can read this backup (mode {mode:o})", f"`chmod 600 {shown_path(file)}`"
            )


def _workspace(config: Config, workspace: Path) -> Iterator[Finding]:
    shown = shown_path(workspace)
    try:
        check_apart(config.state_dir, workspace)
        refuse_system(workspace)
    except (StateError, SandboxUnavailable) as error:
        yield weak(str(error), "choose a folder that contains only the agent's files", "problem")
        return
    if lies_inside(Path.home(), workspace):
        yield weak(
            f"the workspace {shown} contains a whole home folder: the agent can read and write keys, shell files and "
            "mail",
            "give the agent its own folder (`workspace`)",
        )
    if workspace.is_symlink():
        yield weak(
            f"the workspace {shown} is a symbolic link: whoever changes the link moves the agent's files",
            f"name the folder itself: {os.path.realpath(workspace)}",
        )
    mode = _mode(workspace)
    if mode & stat.S_IWOTH and not lies_inside(workspace, Path(tempfile.gettempdir())):
        yield weak(f"{shown}: everybody can change the agent's files (mode {mode:o})", f"`chmod o-w {shown}`")


def _find_files(folders: Iterable[Path], patterns: Sequence[str]) -> Iterator[Path]:
    """Yield regular files of these names directly in these folders, each once."""
    seen: set[Path] = set()
    for folder in folders:
        for pattern in patterns:
            try:
                files = sorted(folder.glob(pattern))[:MAX_NAMED]
            except OSError:
                continue
            for file in files:
                if file not in seen and file.is_file() and not file.is_symlink():
                    seen.add(file)
                    yield file


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
