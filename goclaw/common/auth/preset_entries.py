"""The entries of users.json that presets make."""

from typing import Any

from goclaw.common.auth.presets import Preset
from goclaw.common.auth.users import User
from goclaw.common.auth.workplaces import folder_name
from goclaw.common.config.schema import Config


def entry_of(preset: Preset, config: Config, key: str, name: str, before: User | None) -> dict[str, Any]:
    """Return the entry of users.json for a person.

    Args:
        preset: the kind of person.
        config: the configuration.
        key: the person's key.
        name: for people to read; empty: as before.
        before: the person's entry until now. Its time zone stays, whether they may speak in groups, and the
            conversation where the preset lets it.
    """
    before = before or User(key)
    workspaces = {"own": "own", "private": private_workspace(config, key)}
    entry = {
        "name": name or before.name,
        "roles": [preset.role],
        "workspace": workspaces.get(preset.workspace),
        "quietHours": preset.quiet_hours,
        "timezone": before.timezone,
        "groups": None if before.groups else False,
        "session": before.session if preset.shares_conversation else None,
    }
    return {field: value for field, value in entry.items() if value not in ("", None)}


def private_workspace(config: Config, key: str) -> str:
    """Return what `workspace` of an entry says for a folder in `people/`, which shows nothing of the shared one."""
    folder, base = config.people_path.absolute() / folder_name(key), config.users_path.parent.absolute()
    return str(folder.relative_to(base)) if folder.is_relative_to(base) else str(folder)
