"""The status of a session for its user, and the daemon's vital signs for admins."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from tests.gateway.servers.api.calling import service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))

pytestmark = pytest.mark.promise("P-api")


async def test_the_status_is_that_of_the_chat_command(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello."), users=(ANN, ADMIN))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi")
        await core.settled()
        found = (await served.get("/status")).said
        assert found["session"] == ANN.key and "Session Status" in found["text"] and found["daemon"] is None
        assert found["numbers"] and "text" not in found["numbers"]
        of_admin = await served.get(f"/status?session={ANN.key}", user=ADMIN.key)
        assert of_admin.said["session"] == ANN.key and of_admin.said["daemon"] is not None


async def test_the_status_of_another_users_session_is_not_found(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello."))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi")
        await core.settled()
        assert (await served.get(f"/status?session={ANN.key}", user=BOB.key)).problem["status"] == 404
