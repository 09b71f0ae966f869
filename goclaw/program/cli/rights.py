"""The rights of people, for commands that print them: asked of the same rules, and the same tools, as in the daemon."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.auth.workplaces import WorkspacePlace, place_of
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor
from goclaw.common.core.files import shown_path
from goclaw.common.core.records import record
from goclaw.common.workspace import SHARED
from goclaw.program.cli.base import print_message
from goclaw.tools.toolkit.effective_rights import EffectiveRights, effective_rights
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
