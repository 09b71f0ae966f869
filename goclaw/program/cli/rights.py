"""The rights of people, for commands that print them, and people by preset, for commands that add them.

Rights are asked of the same rules, and the same tools, as in the daemon. For `goclaw users add --preset` and `goclaw
setup` a table shows what would be so. Entries of users.json and roles of the configuration are written both or not at
all. A role that is defined already stays as it is: the table shows the rights that it really gives.
"""

import asyncio
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.auth.preset_entries import entry_of
from goclaw.common.auth.presets import Preset
from goclaw.common.auth.users import User, Users, key_problem, put_users, user_of
from goclaw.common.auth.workplaces import WorkspacePlace, place_of
from goclaw.common.config.changing import set_key
from goclaw.common.config.load import CONFIG_FILE, Loaded
from goclaw.common.config.policies import RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor
from goclaw.common.core.files import replace_file, shown_path
from goclaw.common.core.records import record
from goclaw.common.workspace import SHARED
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError
from goclaw.program.cli.base import print_message
from goclaw.tools.toolkit.effective_rights import NONE, EffectiveRights, effective_rights
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import SETTLED_SECONDS, open_sources


@record
class Case:
    """People under a configuration, to show the rights of."""

    config: Config
    users: Sequence[User]


def rights_of(loaded: Loaded, users: Sequence[User]) -> Mapping[str, EffectiveRights]:
    """Return the rights of each person by key; what cannot be looked at is said on standard error."""
    (found,) = asyncio.run(rights_in(loaded, [Case(loaded.config, users)]))
    return found


async def rights_in(loaded: Loaded, cases: Sequence[Case]) -> Sequence[Mapping[str, EffectiveRights]]:
    """Return the same for several cases, over the tools of the configuration as it is."""
    if not any(case.users for case in cases):
        return [{} for _ in cases]
    async with open_sources(loaded.config, RealClock(), parts_of(loaded.packaged)) as sources:
        await sources.ready()
        await sources.settled(SETTLED_SECONDS)
        for what, why in sorted(sources.faults.items()):
            print_message(f"warning: {what}: {why}; tools of it are missing below")
        found = []
        for case in cases:
            access = Access(Users(case.users), case.config)
            registry = Registry([sources], access)
            # Thousands of people may be listed, of a few kinds.
            kinds: dict[tuple[str, User], EffectiveRights] = {}
            for user in case.users:
                kind = (actor_of(user).entry, _kind_of(user))
                if kind not in kinds:
                    kinds[kind] = effective_rights(registry, access, actor_of(user), user)
            found.append({user.key: kinds[actor_of(user).entry, _kind_of(user)] for user in case.users})
        return found


def _kind_of(user: User) -> User:
    """Return an entry with nothing in it but what rights follow from."""
    return replace(user, key="", name="", session=None, workspace=None, timezone="")


def actor_of(user: User) -> Actor:
    """Return the person as the author of a message in their own chat."""
    return Actor(user.key, user.key.partition(":")[0])


def person_lines(user: User, config: Config, rights: EffectiveRights) -> Iterator[str]:
    """Yield who a person is, with roles, conversation and workspace, and below it their rights, a line each."""
    place = place_of(config, user)
    parts = [
        user.key,
        user.name,
        f"[{', '.join(sorted(user.roles))}]" if user.roles else "",
        f"session {user.session}" if user.session else "",
        f"workspace {folder_in_words(place)}" if user.workspace or place.shared else "",
    ]
    yield "  ".join(part for part in parts if part)
    yield from (f"  {name}: {text}" for name, text in rights.lines(folder_in_words(place)))


def folder_in_words(place: WorkspacePlace) -> str:
    """Return a workspace's folder, and that it shows the shared one."""
    return f"{shown_path(place.root)}, with {SHARED}/" if place.shared else shown_path(place.root)


WIDTH = 100
"""Columns of a table."""
NAME_WIDTH = 15
"""Columns of the names in it."""


@record
class Plan:
    """One person as they are to be."""

    preset: Preset
    key: str
    entry: Mapping[str, Any]
    """For users.json."""
    user: User
    before: User | None
    """The present entry, if the person has one."""


@record
class Plans:
    """Several people, and the roles that they need."""

    config: Config
    """As it will be."""
    people: Sequence[Plan]
    roles: Mapping[str, Mapping[str, Any]]
    """Settings of the roles that are not defined yet, by name."""
    kept: Mapping[str, Sequence[str]]
    """Roles that are defined otherwise than by the preset, and stay: the settings that differ."""

    @property
    def entries(self) -> Mapping[str, Mapping[str, Any]]:
        """The entries for users.json, by key."""
        return {plan.key: plan.entry for plan in self.people}

    @property
    def before(self) -> Mapping[str, User | None]:
        """The entries until now, by key."""
        return {plan.key: plan.before for plan in self.people}


@record
class Wanted:
    """A person who is to be added by a preset."""

    key: str
    preset: Preset
    name: str = ""
    changes: Mapping[str, Any] | None = None
    """Keys of the entry that go before those of the preset."""


def plan_people(config: Config, wanted: Sequence[Wanted]) -> Plans:
    """Return what adding these people would make.

    Raises:
        ConfigError: a key or a value is not valid, or users.json is broken.
    """
    path, people, new = config.users_path, [], {}
    kept: dict[str, Sequence[str]] = {}
    users = Users.read(path)
    for each in wanted:
        if problem := key_problem(each.key):
            raise ConfigError(f"{each.key}: {problem}")
        preset, before = each.preset, users.get(each.key)
        entry = {**entry_of(preset, config, each.key, each.name, before), **(each.changes or {})}
        people.append(Plan(preset, each.key, entry, user_of(each.key, entry, path), before))
        if not preset.settings:
            continue
        if (defined := config.roles.get(preset.role)) is None:
            new[preset.role] = preset.settings
            continue
        usual = RoleSettings.model_validate(preset.settings)
        if differing := [name for name in RoleSettings.model_fields if getattr(defined, name) != getattr(usual, name)]:
            kept[preset.role] = differing
    roles = {**config.roles, **{name: RoleSettings.model_validate(settings) for name, settings in new.items()}}
    return Plans(config.model_copy(update={"roles": roles}), people, new, kept)


async def table(loaded: Loaded, plans: Plans) -> Sequence[str]:
    """Return what each person will be able to do, line by line; of those who are listed, what changes."""
    listed = [plan.before for plan in plans.people if plan.before]
    after = Case(plans.config, [plan.user for plan in plans.people])
    now, then = await rights_in(loaded, [Case(loaded.config, listed), after])
    lines = []
    for plan in plans.people:
        lines.append(f"{plan.user.name or plan.key} ({plan.key}): {plan.preset.name}, {plan.preset.about}")
        rows = dict(_rows(plans.config, plan.user, then[plan.key]))
        if plan.before is None:
            lines += [line for name, text in rows.items() for line in _row(name, text)]
        else:
            lines += _changes(dict(_rows(loaded.config, plan.before, now[plan.key])), rows)
    place = shown_path(loaded.path or loaded.config.state_dir / CONFIG_FILE)
    for role, names in plans.kept.items():
        lines.append(f"roles.{role} in {place} differs from the preset and stays unchanged: {', '.join(names)}")
    roles = f"; {place}: {', '.join(f'roles.{name}' for name in plans.roles)}" if plans.roles else ""
    return [*lines, f"Written to: {shown_path(loaded.config.users_path)}{roles}"]


def _rows(config: Config, user: User, rights: EffectiveRights) -> Iterator[tuple[str, str]]:
    folder = folder_in_words(place_of(config, user))
    yield "Roles", ", ".join(sorted(user.roles)) or "user"
    yield from rights.lines("the workspace")
    yield "Workspace", folder
    yield "Conversation", user.session or "their own"


def _changes(now: Mapping[str, str], then: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows that differ, as they are and as they will be."""
    names = list(dict.fromkeys([*now, *then]))
    for name in names:
        unsaid = "all" if name == "Commands" else NONE  # as `EffectiveRights.lines` leaves rows out
        before, after = now.get(name, unsaid), then.get(name, unsaid)
        if before != after:
            yield from _row(name, before, "now   ")
            yield from _row("", after, "then  ")
    same = [name.lower() for name in names if now.get(name) == then.get(name)]
    yield from _row("As before", ", ".join(same) or "nothing")


def _row(name: str, text: str, when: str = "") -> Iterator[str]:
    """Yield a row of the table, wrapped."""
    begin = " " * (NAME_WIDTH + len(when))
    lines = textwrap.wrap(text, WIDTH - len(begin), break_long_words=False, break_on_hyphens=False)
    yield f"  {name:<{NAME_WIDTH - 2}}{when}{lines[0]}"
    yield from (f"{begin}{line}" for line in lines[1:])


def write(loaded: Loaded, plans: Plans) -> list[str]:
    """Write roles and entries; returns a line for each.

    Raises:
        ConfigError, ToolError: something cannot be written, or changed since the table was made; nothing was written.
    """
    config, shown = loaded.config, loaded.path or loaded.config.state_dir / CONFIG_FILE
    file = shown.resolve()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = file.read_bytes() if file.exists() else None
    try:
        for name, settings in plans.roles.items():
            set_key(file, f"roles.{name}", settings, backup=False)
        put_users(config.users_path, plans.entries, plans.before, file_writer(config))
    except BaseException:
        if before is None:
            file.unlink(missing_ok=True)
        elif file.read_bytes() != before:
            replace_file(file, before, mode=file.stat().st_mode & 0o777)
        raise
    lines = [f"{shown_path(shown)}: roles.{name}" for name in plans.roles]
    done = {True: "changed", False: "added"}
    return [*lines, *(f"{shown_path(config.users_path)}: {done[bool(p.before)]} {p.key}" for p in plans.people)]
