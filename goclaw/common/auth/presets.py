"""Presets for people: the whole of what `goclaw users add --preset` and `goclaw setup` write for each kind of person.

A preset is no rule of its own: it is a role (`roles.child` of the configuration; as it stands here where that does not
define it) and the keys of an entry in users.json, which can be changed like any others.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from goclaw.common.config.keys import closest
from goclaw.common.config.policies import ADMIN, RoleSettings
from goclaw.common.core.records import record
from goclaw.errors import ConfigError


@record
class Preset:
    """The rights of one kind of person."""

    name: str
    about: str
    role: str
    settings: Mapping[str, Any]
    """The role's settings, as `RoleSettings` has them; empty: the role is built in."""
    workspace: Literal["configured", "own", "private"] = "configured"
    """`own`: one of their own, which shows the shared one as `shared/`. `private`: one that shows nothing of others."""
    quiet_hours: str = ""
    """Empty: as configured for everyone."""
    shares_conversation: bool = True
    """Whether an entry that puts the person into another conversation (`session`) may keep it."""


_TALK = ("start", "help", "status", "stop", "new", "clear", "whoami", "blocked", "context", "compact", "resume")
"""Slash commands that concern nothing but the person's own conversation."""
_CLOSED = {"agents": ("main",), "approves": "none", "other_chats": False}
"""No other agents, no other chats, and no approvals: an admin is asked in their place."""

PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("owner", "everything, just as in the terminal", role=ADMIN, settings={}),
        Preset(
            "adult",
            "every tool, in their own workspace; commands ask first",
            role="adult",
            settings={"always_ask": ("set:shell", "-task_list", "-task_output", "-task_stop"), "daily_cost": 3.0},
            workspace="own",
        ),
        Preset(
            "child",
            "no commands, only their own files; the web needs an admin's approval",
            role="child",
            settings={
                "tools": (
                    *("read", "list", "glob", "search", "write", "edit", "multi_edit"),
                    *("web_search", "web_fetch", "message", "ask_user", "todo_write"),
                    *("memory_search", "memory_list", "memory_get", "memory_read", "memory_write", "memory_delete"),
                    *("memento", "transcript_search"),
                ),
                "always_ask": ("web_search", "web_fetch"),
                "commands": (*_TALK, "tools", "remind", "deny"),
                **_CLOSED,
                "daily_cost": 0.5,
                "daily_tokens": 500_000,
            },
            workspace="private",
            quiet_hours="20:00-07:00",
            shares_conversation=False,
        ),
        Preset(
            "guest",
            "conversation only: no tools, no access to files or memory",
            role="guest",
            settings={"tools": (), "commands": _TALK, **_CLOSED, "daily_cost": 0.2, "daily_tokens": 200_000},
            workspace="private",
            quiet_hours="22:00-07:00",
            shares_conversation=False,
        ),
    )
}


GUESTS: Mapping[str, Preset] = {name: preset for name, preset in PRESETS.items() if preset.role != ADMIN}
"""The presets that pairing and invitations may give: no code makes an admin."""


@cache
def preset_role(name: str) -> RoleSettings | None:
    """Return the settings of the role that a preset gives; None: no preset has settings for this role."""
    preset = GUESTS.get(name)
    return RoleSettings.model_validate(preset.settings) if preset else None


def find_guest_preset(name: str) -> Preset:
    """Return the preset with this name, if a code may give it; raises ConfigError as `find_preset`."""
    if find_preset(name).role == ADMIN:
        raise ConfigError(f"a code makes nobody an admin; choose one of: {', '.join(GUESTS)}")
    return GUESTS[name]


def find_preset(name: str) -> Preset:
    """Return the preset with this name.

    Raises:
        ConfigError: no preset has it; the message names all.
    """
    if found := PRESETS.get(name):
        return found
    meant = closest(name, list(PRESETS))
    hint = f"; did you mean `{meant}`?" if meant else ";"
    raise ConfigError(f"unknown preset `{name}`{hint} available: {', '.join(PRESETS)}")
