"""Two daemons on one schema, each with a workspace of its own: conversations stay with the one that had them first."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.daemon import Installation, replicas_on
from tests.acceptance.model import EchoModel
from tests.acceptance.test_replicas import ANN, BOB, WAIT_SECONDS, answers, named, rows
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
async def kitchen_and_hall(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Installation]]:
    """Two installations with a state folder and a workspace each; no daemon runs yet."""
    users = {f"telegram:{ANN}": {"name": "Ann"}, f"telegram:{BOB}": {"name": "Bob"}}
    async with replicas_on(server.url, folder, telegram, model.url, ("kitchen", "hall"), users) as made:
        for home in made:
            home.config["replica"] = {"name": home.folder.name, "workspaces": "own", "stall_seconds": 2}
            home.config["workspace"] = str(folder / f"work-{home.folder.name}")
            home.write_config()
        yield made


@pytest.mark.long
@pytest.mark.promise("P-replica-own-workspaces")
async def test_a_conversation_waits_for_the_gateway_that_has_its_files_and_its_person_is_told(
    kitchen_and_hall: list[Installation], telegram: FakeTelegram, server: Server
) -> None:
    kitchen, hall = kitchen_and_hall
    await kitchen.start(telegram)
    await telegram.world.say("m1 exec", user=ANN)
    await eventually(lambda: named(telegram, "m1"), WAIT_SECONDS)
    await hall.start()
    assert rows(server, "SELECT pinned FROM session_owners WHERE session = 'telegram:5'") == [("kitchen",)]
    await kitchen.kill()
    await telegram.world.say("m2 exec", user=ANN)

    def told() -> list[str]:
        return [sent.text for sent in telegram.sent(ANN) if "The gateway kitchen" in sent.text]

    await eventually(told, WAIT_SECONDS)
    await telegram.world.say("m3 plain", user=BOB)
    await eventually(lambda: named(telegram, "m3", BOB), WAIT_SECONDS)
    assert len(told()) == 1 and re.search("is away. Your message waits for it", told()[0])
    assert not named(telegram, "m2")
    await kitchen.start()
    await eventually(lambda: named(telegram, "m2"), WAIT_SECONDS)
    assert (kitchen.folder.parent / "work-kitchen" / "effects.log").read_text().split() == ["m1", "m2"]
    assert not (kitchen.folder.parent / "work-hall" / "effects.log").exists()
    assert len(answers(telegram)) == 2
    for home in kitchen_and_hall:
        assert await home.stop() == 0


@pytest.mark.promise("P-replicas-agree")
@pytest.mark.long
async def test_a_gateway_that_is_set_otherwise_does_not_start_and_says_why(
    kitchen_and_hall: list[Installation], telegram: FakeTelegram
) -> None:
    kitchen, hall = kitchen_and_hall
    await kitchen.start(telegram)
    for setting, said in (
        ({"name": "kitchen"}, "replica.name: the gateway kitchen"),
        ({"workspaces": "shared"}, "replica.workspaces is shared here and own at the gateway kitchen"),
    ):
        hall.config["replica"] = {"name": "hall", "workspaces": "own", "stall_seconds": 2, **setting}
        hall.write_config()
        done = await hall.run("gateway", seconds=60)
        assert done.code != 0 and said in done.err and "Traceback" not in done.err
    assert await kitchen.stop() == 0
