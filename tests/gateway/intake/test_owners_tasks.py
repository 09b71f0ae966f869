"""What a conversation has running in the background keeps it at its daemon, whichever one hears the next message."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.engine import session_work
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import eventually, never
from tests.replicas import SESSION, Replica, replicas, texts

pytestmark = [pytest.mark.timeout(120)]

LINGER = 0.5
COMMAND = 'exec {"command": "sleep 300", "run_in_background": true}'
AGENT = 'agent {"task": "m8 run sleep 100", "run_in_background": true}'
TEAM = 'team_create {"name": "band", "members": [{"name": "ann", "task": "m9 plain"}]}'


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", LINGER)


def answered(replica: Replica, name: str) -> bool:
    return any(f"answer {name}" in text for text in replica.texts())


def running(*replicas: Replica) -> Sequence[int]:
    """The tasks of the conversation at each of them."""
    return [replica.app.foundation.environment.tasks.count(SESSION) for replica in replicas]


@pytest.mark.parametrize(
    "call",
    [COMMAND, *(pytest.param(call, marks=pytest.mark.long) for call in (AGENT, TEAM))],
    ids=["command", "agent", "team"],
)
async def test_a_conversation_stays_where_its_tasks_run_and_goes_elsewhere_behind_their_end(
    place: PostgresPlace, folder: Path, model: EchoModel, call: str
) -> None:
    async with replicas(place, folder, model.url, tools={"teams": True}) as (owner, other):
        owner.takes_alone(other)
        await owner.say(f"m1 call {call}")
        await eventually(lambda: answered(owner, "m1"))
        assert running(owner, other) == [1, 0], texts(owner)
        # The other one takes whatever it can get, the owner nothing more: it only keeps what it has.
        other.takes_alone(owner)
        await never(lambda: not owner.has(), 4 * LINGER)
        await other.say("m2 plain")
        await eventually(lambda: answered(owner, "m2"))
        assert not answered(other, "m2") and running(owner, other) == [1, 0]
        assert "stopped: 1" in (await other.say("/stop tasks")).text
        await eventually(lambda: running(owner, other) == [0, 0])
        await eventually(lambda: not owner.has())
        await other.say("m3 plain")
        await eventually(lambda: answered(other, "m3"))
