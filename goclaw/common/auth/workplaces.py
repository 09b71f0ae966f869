"""The folder that a person's tools work in, from users.json, roles and `workspaces` of the configuration.

An entry of users.json decides before the person's roles, and these before the configuration. A workspace of one's own
lies in `people/` of the state folder and shows the configured workspace as `shared/`. In a group everybody works in the
configured one: all members read the answers.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from goclaw.common.auth.access import is_group
from goclaw.common.auth.users import User
from goclaw.common.config.policies import USER
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Workplace
from goclaw.common.core.records import record
from goclaw.common.workspace import SHARED

_PLAIN = re.compile(r"[a-z][a-z0-9_-]*\.[a-z0-9_-][a-z0-9._-]{0,63}")
"""Names that no shell, `PATH` or file system without capitals reads differently."""
_SHOWN, _DIGITS = 40, 16


@record
class WorkspacePlace:
    """Where a workspace lies."""

    root: Path
    shared: Path | None = None
    """The folder that it shows as `shared/`; None: it shows none."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The workspace, and the folder that it shows as `shared/`."""
        return (self.root, self.shared) if self.shared else (self.root,)


def place_of(config: Config, user: User | None, session: str = "") -> WorkspacePlace:
    """Return the place of a person's workspace in a session; in none for an empty key.

    Args:
        config: the configuration.
        user: the person's entry of users.json; None: no entry, so the workspace is the configured one.
        session: the key of the conversation, which may be a group's.
    """
    configured = config.workspace_path.expanduser().absolute()
    if user is None:
        return WorkspacePlace(configured)
    if isinstance(user.workspace, Path):
        return WorkspacePlace(user.workspace.expanduser().absolute())
    if _workplace(config, user) == "shared" or is_group(session):
        return WorkspacePlace(configured)
    return WorkspacePlace(config.people_path.expanduser().absolute() / folder_name(user.key), configured)


def places_of(config: Config, users: Iterable[User]) -> dict[str, WorkspacePlace]:
    """Return the place of each person's workspace in their own conversations, by actor key."""
    return {user.key: place_of(config, user) for user in users}


def folders_of(config: Config, users: Iterable[User]) -> dict[str, Path]:
    """Return the folders that all gateways of one store have to see, by the key of a user; "" is the workspace."""
    return {"": config.workspace_path} | {key: place.root for key, place in places_of(config, users).items()}


def folder_name(key: str) -> str:
    """Return the name of a person's folder: the actor key with a dot for its colon, `telegram.123456`.

    A key that is no plain name (capitals, other signs, more than 64 characters) is cut to its plain signs, and a hash
    of it is added after a `~`, which no plain name has: so no two keys have one folder.
    """
    name = key.replace(":", ".", 1)
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return f"{re.sub('[^a-z0-9._-]', '_', name.lower())[:_SHOWN]}~{digest[:_DIGITS]}"


def in_words(config: Config, place: WorkspacePlace) -> str:
    """Describe a workspace to its person, without paths of the machine."""
    if place.shared:
        return f"your own (people/{place.root.name}), with {SHARED}/ for everybody"
    return "shared by everybody" if place == place_of(config, None) else "a folder that an admin chose"


def _workplace(config: Config, user: User) -> Workplace:
    if user.workspace is not None and not isinstance(user.workspace, Path):
        return user.workspace
    said = {config.roles[name].workspace for name in user.roles or {USER} if name in config.roles}
    # Of two roles the one that shows a person less decides.
    if "own" in said or "shared" in said:
        return "own" if "own" in said else "shared"
    return "own" if config.workspaces == "per-person" else "shared"
