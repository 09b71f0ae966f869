"""Who may write: a change of users.json at one daemon holds at all of them."""

from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import AcceptKind, Actor
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
from tests.replicas import Replica, replicas

pytestmark = [pytest.mark.timeout(120)]

ANN, BEN = Actor("telegram:5", "memory", name="Ann"), Actor("telegram:6", "memory", name="Ben")
SECONDS = 2.0
"""Within which a change reaches the folders of all gateways (docs/postgres.md)."""
BUSY = 10.0
"""Further seconds for a machine that does much else."""


def write_users(replica: Replica, *actors: Actor) -> None:
    replica.write_people({actor.key: {"name": actor.name, "roles": ["user"]} for actor in actors})


async def test_a_person_who_is_removed_at_one_daemon_is_refused_at_the_other_one_at_once(
    place: PostgresPlace, folder: Path, model: EchoModel
) -> None:
    async with replicas(place, folder, model.url) as (one, two):

        async def is_heard(replica: Replica, actor: Actor) -> bool:
            said = await replica.say("/whoami", actor=actor, chat=actor.key, session=actor.key)
            return said.kind is not AcceptKind.IGNORED

        async def comes_to_be(replica: Replica, actor: Actor, *, heard: bool) -> None:
            deadline = clock.monotonic() + SECONDS + BUSY
            while await is_heard(replica, actor) is not heard:
                assert clock.monotonic() < deadline
                await clock.sleep(0.05)

        write_users(one, ANN, BEN)
        for replica in (one, two):
            await comes_to_be(replica, ANN, heard=True)
        # Her conversation is in the memory of the one that does not hear of it first.
        two.takes_alone(one)
        gate = model.gate("m2 ")
        await two.say("m1 plain", actor=ANN, chat=ANN.key, session=ANN.key)
        await eventually(lambda: any("answer m1" in text for text in two.texts()))
        write_users(one, BEN)
        await comes_to_be(two, ANN, heard=False)
        refused = await two.say("m2 plain", actor=ANN, chat=ANN.key, session=ANN.key)
        assert refused.kind is AcceptKind.IGNORED
        await comes_to_be(one, ANN, heard=False)  # which may be behind the other one in reading its file
        assert await is_heard(two, BEN) and await is_heard(one, BEN)
        assert not gate.reached.is_set() and len([each for each in two.texts() if "answer" in each]) == 1
