"""Which tools an actor sees: asked at every use, from live lists."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor, Decision
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.sources import BUILT_IN, Named, Sources
from tests.parts import Tools, Trail, acting

ANNA, BEN, NOBODY = (Actor(key, "telegram") for key in ("telegram:1", "telegram:2", "telegram:3"))
OWNER = Actor("tui:me", "cli", owner=True)
USERS = [User("telegram:1"), User("telegram:2", allowed_tools=frozenset({"look"}))]


def registry(*names: str, disabled: tuple[str, ...] = ()) -> Registry:
    config = Config.model_validate({"tools": {"disabled": disabled}})
    listed = [acting(name, Trail().leave) for name in names]
    return Registry([Tools(listed[:1]), Tools(listed[1:])], Access(Users(USERS), config))


def seen(known: Registry, actor: Actor) -> list[str]:
    return [spec.name for spec in known.visible_to(actor)]


@pytest.mark.promise("P-tools-per-user")
def test_everyone_sees_what_is_theirs() -> None:
    known = registry("look", "touch")
    assert (seen(known, ANNA), seen(known, BEN), seen(known, NOBODY), seen(known, OWNER)) == (
        ["look", "touch"],
        ["look"],
        [],
        ["look", "touch"],
    )
    assert [spec.name for spec in known.specs()] == ["look", "touch"]


@pytest.mark.promise("P-tools-per-user")
def test_what_is_not_yours_cannot_be_told_from_what_does_not_exist() -> None:
    known = registry("look", "touch")
    assert known.find("look", BEN)
    assert known.find("touch", BEN) is known.find("nothing", BEN) is None
    assert known.find("touch", ANNA)


def test_on_behalf_of_somebody_only_the_common_rights_count() -> None:
    known = registry("look", "touch")
    assert seen(known, Actor("telegram:1", "telegram", behalf=(BEN,))) == ["look"]


def test_what_is_disabled_is_there_for_nobody() -> None:
    assert seen(registry("look", "touch", disabled=("touch",)), OWNER) == ["look"]


def test_a_source_is_live() -> None:
    listed: list[Tool] = []
    known = Registry([Tools(listed)], Access(Users(), Config()))
    assert known.find("look", OWNER) is None
    listed.append(acting("look", Trail().leave))
    assert known.find("look", OWNER)


class Fixed:
    """A source that lists a tuple, as those of the daemon do."""

    def __init__(self, *names: str) -> None:
        self._tools = tuple(acting(name, Trail().leave) for name in names)

    def tools(self) -> Sequence[Tool]:
        return self._tools


class CountedAccess(Access):
    """Counts what is judged."""

    judged = 0

    def authorize(self, actor: Actor, action: str, object: str, given: Mapping[str, Any] | None = None) -> Decision:
        self.judged += 1
        return super().authorize(actor, action, object, given)


@pytest.mark.promise("P-users-live", "P-tools-per-user")
async def test_what_an_actor_sees_is_judged_once_until_anything_changes_that_decides(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text('{"users": {"telegram:1": {}, "telegram:2": {"allowedTools": ["look"]}}}')
    users, sources = Users.read(file), [Fixed("look"), Fixed("touch")]
    access = CountedAccess(users, Config())
    known = Registry(sources, access)

    def judged(actor: Actor, *within: Sequence[str] | None) -> int:
        before = access.judged
        known.offered_to(actor, *within, planning=False)
        return access.judged - before

    assert judged(ANNA) == 2 and judged(ANNA) == 0, "the same question"
    assert judged(Actor("telegram:1", "socket")) == 2, "another entry point"
    assert judged(Actor("telegram:1", "telegram", owner=True)) == 2, "the owner"
    assert judged(Actor("telegram:1", "telegram", behalf=(BEN,))) == 2, "on behalf of another person"
    assert judged(ANNA, ["look"]) == 1 and judged(ANNA, ["touch"]) == 1 and judged(ANNA, ["touch"]) == 0, "an agent's"
    assert judged(BEN) == 2 and judged(ANNA) == 0, "another person"

    sources.append(Fixed("listen"))
    assert judged(ANNA) == 3, "a source more"
    sources[0] = Fixed("look")
    assert judged(ANNA) == 3, "a source that lists something else"
    access.config = Config.model_validate({"tools": {"disabled": ["look"]}})
    assert judged(ANNA) == 3 and "look" not in seen(known, ANNA), "another configuration"
    file.write_text('{"users": {"telegram:1": {"allowedTools": ["touch"]}}}')
    await users.refresh()
    assert judged(ANNA) == 3 and seen(known, ANNA) == ["touch"], "another file of users"

    before = access.judged
    assert known.find("touch", ANNA) and known.find("touch", ANNA)
    assert access.judged == before + 2, "a call is judged each time"


def test_a_thousand_people_by_turns_are_judged_once_each() -> None:
    people = [Actor(f"telegram:{number}", "telegram", owner=True) for number in range(1_000)]
    access = CountedAccess(Users({}), Config())
    known = Registry([Fixed("look")], access)
    for actor in 3 * people:
        known.offered_to(actor, planning=False)
    assert access.judged == len(people)


async def test_a_right_that_is_taken_away_is_gone_at_once(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text('{"users": {"telegram:1": {}}}')
    users = Users.read(file)
    known = Registry([Tools([acting("look", Trail().leave)])], Access(users, Config()))
    assert known.find("look", ANNA)
    file.write_text('{"users": {}}')
    await users.refresh()
    assert known.find("look", ANNA) is None


def test_every_line_of_the_catalogue_is_a_tool_of_that_name() -> None:
    assert [tool.spec.name for tool in BuiltIn().tools()] == list(catalog.TOOLS)


async def test_tools_are_loaded_beside_the_event_loop() -> None:
    gate, loaded = threading.Event(), list[str]()

    class Slow(BuiltIn):
        """Takes its time, until the event loop lets it go on."""

        def tools(self) -> Sequence[Tool]:
            assert gate.wait(5), "the event loop is held up"
            loaded.append(threading.current_thread().name)
            return ()

    known = Registry([Sources([Named(BUILT_IN, Slow())]), Tools([])], Access(Users(), Config()))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(known.ready())
        await asyncio.sleep(0)
        gate.set()
    assert loaded[0] != threading.main_thread().name


async def test_what_is_loaded_is_not_loaded_again() -> None:
    built_in = BuiltIn()
    await built_in.ready()
    first = built_in.tools()
    await built_in.ready()
    assert built_in.tools() is first
