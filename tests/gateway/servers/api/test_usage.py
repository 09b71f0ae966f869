"""Usage: sums of the user's own conversations, and of all for an admin."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from tests.gateway.servers.api.calling import service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))

pytestmark = pytest.mark.promise("P-api")


async def test_a_user_sees_their_own_sums_and_an_admin_those_of_all(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."), Answer("Three."), users=(ANN, BOB, ADMIN))
    async with world.running() as core, service(world, core) as served:
        for number, user in enumerate((ANN, ANN, BOB)):
            assert (await served.say("Hi", str(number), user=user.key)).status == 202
            await core.settled()
        sums = {}
        for by in ("day", "model", "session", "person"):
            (own,) = (await served.get(f"/usage?by={by}")).said["sums"]
            assert own["requests"] == 2, by
            everybody = await served.get(f"/usage?by={by}&everybody=true", user=ADMIN.key)
            sums[by] = {each["of"]: each["requests"] for each in everybody.said["sums"]}
        assert sums["session"] == sums["person"] == {ANN.key: 2, BOB.key: 1}
        assert list(sums["model"].values()) == [3] and list(sums["day"].values()) == [3]
        (day,) = sums["day"]
        assert len(day) == len("2026-11-24")


async def test_sums_of_everybody_are_for_admins(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await served.get("/usage?everybody=true")).problem["status"] == 403
        for query in ("by=hour", "days=0", "days=99999"):
            assert (await served.get(f"/usage?{query}")).problem["status"] == 400


async def test_what_lies_further_back_is_left_out(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi")
        await core.settled()
        world.clock.advance(3 * 86_400)
        assert (await served.get("/usage?days=2")).said == {"sums": []}
        assert (await served.get("/usage?days=4")).said["sums"][0]["requests"] == 1
