"""Schedules of the user, and of all for an admin; made once, and only with the user's rights."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from tests.conversation.schedules.jobs import HOUR, asleep, pass_time
from tests.gateway.servers.api.calling import Service, service, world_with
from tests.gateway.servers.calling import ANN, BOB

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))
TEA = {"id": "1", "name": "tea", "at": "1h", "message": "Drink tea."}

pytestmark = pytest.mark.promise("P-api")


async def names(served: Service, user: str = ANN.key) -> list[str]:
    return [each["name"] for each in (await served.get("/schedules", user=user)).said["schedules"]]


async def test_a_reminder_is_added_once_comes_at_its_time_and_shows_its_run(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        made = await served.post("/schedules", TEA)
        assert made.status == 201 and made.said["name"] == "tea" and made.said["state"] == "active"
        assert made.said["next"] == pytest.approx(world.clock.now() + HOUR, abs=60)
        again = await served.post("/schedules", {**TEA, "name": "other"})
        assert again.said == made.said and await names(served) == ["tea"]
        assert (await served.get("/schedules/tea/runs")).said == {"runs": []}
        await pass_time(core, world, HOUR)
        assert world.texts() == ["⏰ Reminder: Drink tea."]
        (run,) = (await served.get("/schedules/tea/runs")).said["runs"]
        assert run["state"] == "done"


async def test_a_schedule_is_paused_goes_on_runs_now_and_is_removed(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        await served.post("/schedules", {"id": "1", "name": "tea", "every": "1h", "message": "Drink tea."})
        await asleep(core)
        assert (await served.send("POST", "/schedules/tea/pause")).said["state"] == "paused"
        refused = await served.send("POST", "/schedules/tea/pause")
        assert refused.status == 409 and refused.problem["detail"] == "tea is already paused"
        assert (await served.send("POST", "/schedules/tea/resume")).said["state"] == "active"
        assert (await served.send("POST", "/schedules/tea/run")).status == 200
        await core.settled()
        assert world.texts() == ["⏰ Reminder: Drink tea."]
        assert (await served.send("DELETE", "/schedules/tea")).status == 204
        assert await names(served) == []


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({}, 409, "say what"),
    ({"message": "Hi"}, 409, "say when"),
    ({"message": "Hi", "at": "when I say"}, 409, "when I say"),
    ({"message": "Hi", "cron": "* * * * * *"}, 409, "cron"),
    ({"message": "Hi", "at": "1h", "to": "nowhere"}, 409, "is not a chat"),
    ({"message": "Hi", "at": "1h", "model": "a:b"}, 409, "for a task"),
    ({"task": "Hi", "at": "1h", "budget": -1}, 400, "budget"),
    ({"task": "Hi", "at": "1h", "user": "memory:root"}, 400, "user"),
]


@pytest.mark.parametrize(("fields", "status", "words"), WRONG)
async def test_what_cannot_be_a_schedule_is_refused_with_the_remedy(
    tmp_path: Path, fields: dict[str, Any], status: int, words: str
) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        refused = await served.post("/schedules", {"id": "1", **fields})
        assert refused.status == status and words in refused.problem["detail"]
        assert await names(served) == []


async def test_another_users_schedule_is_not_found_but_an_admin_sees_it(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN, BOB, ADMIN))
    async with world.running() as core, service(world, core) as served:
        await served.post("/schedules", TEA)
        assert await names(served, BOB.key) == [] and await names(served, ADMIN.key) == ["tea"]
        for method, path in (("POST", "pause"), ("POST", "run"), ("GET", "runs"), ("DELETE", "")):
            asked = f"/schedules/tea/{path}".rstrip("/")
            theirs = await served.send(method, asked, user=BOB.key)
            nobodys = await served.send(method, asked.replace("tea", "tee"), user=BOB.key)
            assert theirs.status == nobodys.status == 404
            assert theirs.problem["detail"].replace("tea", "tee") == nobodys.problem["detail"]
        assert await names(served) == ["tea"]


async def test_secrets_in_a_schedule_are_masked(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        secret = "sk-ant-" + "a1b2" * 12
        await served.post("/schedules", {**TEA, "message": f"use {secret}"})
        assert secret not in str((await served.get("/schedules")).said)
