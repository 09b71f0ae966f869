"""Sessions: the list in pages, and the state of one; another user's is not found."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from tests.gateway.servers.api.calling import at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer, before_the_next_look

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))

pytestmark = pytest.mark.promise("P-api")


async def test_sessions_come_in_pages_the_latest_first(tmp_path: Path) -> None:
    users = (ADMIN, *(User(f"memory:u{number}", f"U{number}") for number in range(5)))
    world = world_with(tmp_path, *(Answer("Hello.") for _ in range(5)), users=users)
    async with world.running() as core, service(world, core) as served:
        for user in users[1:]:
            assert (await served.say("Hi", user=user.key)).status == 202
            await core.settled()
        whole = (await served.get("/sessions", user=ADMIN.key)).said
        assert whole["next"] == "" and {each["key"] for each in whole["sessions"]} == {each.key for each in users[1:]}
        found, cursor = [], ""
        for _ in range(3):
            page = (await served.get(f"/sessions?limit=2&cursor={cursor}", user=ADMIN.key)).said
            found += page["sessions"]
            cursor = page["next"]
        assert found == whole["sessions"] and cursor == ""
        assert (await served.get("/sessions", user="memory:u1")).said["sessions"] == [
            each for each in found if each["key"] == "memory:u1"
        ]


async def test_the_state_of_a_session_names_the_running_turn_and_what_waits(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."))
    world.script.gate = asyncio.Event()
    async with world.running() as core, service(world, core) as served:
        nothing = (await served.get(at(ANN.key))).said
        assert nothing["outline"]["rows"] == 0 and nothing["now"]["turn"] == "" and nothing["writable"]
        first = (await served.say("Hi", "1")).said
        while not world.script.requests:
            await before_the_next_look()
        await served.say("And", "2")
        busy = (await served.get(at(ANN.key))).said
        assert (busy["now"]["turn"], busy["waiting"]) == (first["turn"], 1)
        world.script.gate.set()
        await core.settled()
        done = (await served.get(at(ANN.key))).said
        assert done["now"]["turn"] == "" and done["waiting"] == 0 and done["outline"]["rows"] == 4


async def test_another_user_s_session_is_not_found_in_the_words_of_an_unknown_one(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello."), users=(ANN, BOB, ADMIN))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi", user=BOB.key)
        await core.settled()
        for path in ("", "/messages"):
            for user, key in ((ANN.key, BOB.key), (ANN.key, "memory:none"), (ADMIN.key, "memory:none")):
                missing = await served.get(f"{at(key)}{path}", user=user)
                assert missing.status == 404
                assert missing.problem["detail"].replace(key, "KEY") == "you have no access to a session 'KEY'"
        refused = await served.say("Hi", session=BOB.key)
        unknown = await served.say("Hi", session="memory:none")
        assert refused.status == unknown.status == 404
        assert refused.problem["detail"].replace(BOB.key, "memory:none") == unknown.problem["detail"]
        assert (await served.get(at(BOB.key), user=ADMIN.key)).said["outline"]["rows"] == 2


async def test_a_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for cursor in ("x", "%00", "4pyT", "!!!!"):
            refused = await served.get(f"/sessions?cursor={cursor}")
            assert refused.status == 400 and refused.problem["field"] == "cursor"
