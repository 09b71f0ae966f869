"""Stopping a turn, and answering what turns ask; each with the rights of the token's user."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Confirmation
from tests.gateway.servers.api.calling import Service, at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer, World, before_the_next_look
from tests.parts import Trail, acting

pytestmark = pytest.mark.promise("P-api")

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))


def asking(folder: Path, trail: Trail) -> World:
    answers = Answer("I try.", calls=(ToolCall("c", "risky", {}),)), Answer("Done.")
    risky = acting("risky", trail.leave, confirm=Confirmation("Risky", "May it run?"))
    return world_with(folder, *answers, given=[risky], users=(ANN, BOB, ADMIN))


async def open_question(served: Service) -> str:
    """Begin a turn that asks; return the id of its question."""
    await served.say("Try it")
    async with asyncio.timeout(10):
        while not (found := (await served.get("/questions")).said["questions"]):
            await before_the_next_look()
    (asked,) = found
    assert asked["session"] == ANN.key and asked["question"]["kind"] == "approval"
    assert (await served.get(at(ANN.key))).said["now"]["questions"] == [asked["question"]]
    name: str = asked["question"]["id"]
    return name


async def test_a_running_turn_is_stopped(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Never said."))
    world.script.gate = asyncio.Event()
    async with world.running() as core, service(world, core) as served:
        turn = (await served.say("Hi")).said["turn"]
        while not world.script.requests:
            await before_the_next_look()
        assert (await served.post(f"{at(ANN.key)}/stop", None, user=BOB.key)).status == 404
        stopped = await served.post(f"{at(ANN.key)}/stop", None)
        assert (stopped.status, stopped.said["turn"]) == (200, turn) and stopped.said["text"].startswith("Stop")
        await core.settled()
        again = await served.post(f"{at(ANN.key)}/stop", None)
        assert again.said == {"turn": "", "text": "Nothing is running."}


async def test_a_user_who_may_not_stop_is_refused(tmp_path: Path) -> None:
    guest = User("memory:there", "Bob", roles=frozenset({"guest"}))
    world = world_with(tmp_path, users=(ANN, guest), roles={"guest": {"commands": ["whoami"]}})
    async with world.running() as core, service(world, core) as served:
        refused = await served.post(f"{at(guest.key)}/stop", None, user=guest.key)
        assert refused.status == 403 and "stop" in refused.problem["detail"]


async def test_an_approval_is_given_by_its_id_once(tmp_path: Path) -> None:
    trail = Trail()
    world = asking(tmp_path, trail)
    async with world.running() as core, service(world, core) as served:
        name = await open_question(served)
        wrong = await served.post(f"/questions/{name}", {"answer": "perhaps"})
        assert (wrong.status, wrong.problem["field"]) == (422, "answer") and trail.times == 0
        given = await served.post(f"/questions/{name}", {"answer": "allow"})
        assert (given.status, given.said["text"]) == (200, "Allowed.")
        await core.settled()
        assert trail.times == 1 and (await served.get("/questions")).said["questions"] == []
        again = await served.post(f"/questions/{name}", {"answer": "deny"})
        assert again.status == 409 and "allowed" in again.problem["detail"]


async def test_another_user_s_question_is_not_found_in_the_words_of_an_unknown_one(tmp_path: Path) -> None:
    trail = Trail()
    world = asking(tmp_path, trail)
    async with world.running() as core, service(world, core) as served:
        name = await open_question(served)
        assert (await served.get("/questions", user=BOB.key)).said["questions"] == []
        refused = await served.post(f"/questions/{name}", {"answer": "allow"}, user=BOB.key)
        unknown = await served.post("/questions/zzzz", {"answer": "allow"}, user=BOB.key)
        assert refused.status == unknown.status == 404
        assert refused.problem["detail"].replace(name, "zzzz") == unknown.problem["detail"]
        assert trail.times == 0
        (seen,) = (await served.get("/questions", user=ADMIN.key)).said["questions"]
        assert seen["question"]["id"] == name
        assert (await served.post(f"/questions/{name}", {"answer": "deny"})).said["text"] == "Denied."
        await core.settled()
        assert trail.times == 0
