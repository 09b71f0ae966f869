"""A fault that needs the operator reaches an administrator's chat, once, also over a restart."""

import json

import pytest

from tests.acceptance import hasty
from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import eventually, never
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

ANN, BEA = 5, 6
USERS: dict[str, dict[str, object]] = {"telegram:6": {"name": "Bea"}, "telegram:5": {"name": "Ann", "roles": ["admin"]}}
QUIET_SECONDS = 4 * hasty.LOOK_SECONDS
"""Past the daemon's next looks for faults."""


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_a_broken_users_file_is_told_to_the_admin_once_and_the_rest_goes_on(
    home: Installation, telegram: FakeTelegram
) -> None:
    home.module = hasty.__name__
    home.write_users(USERS)
    for person in (ANN, BEA):
        telegram.world.meet(person)
    await home.start(telegram)
    home.write_users('{"users": {')
    (alert,) = await telegram.wait_for(lambda: telegram.sent(ANN) or None, seconds=20)
    assert alert.text.startswith("⚠ GoClaw needs you: users.json cannot be used")
    health = json.loads((await home.run("status", "--json")).out)["health"]
    assert list(health["alerts"]) == ["users"]
    assert "Alerts: 1 open" in (await home.run("status")).out
    await telegram.world.say("m1 plain", user=BEA)
    await eventually(lambda: [sent.text for sent in telegram.sent(BEA)] == ["answer m1 (end)"])
    home.write_users(USERS)
    await eventually(lambda: "users file in force" in home.output)
    await home.kill()
    await home.start(telegram)
    known = home.output.count("users file not usable")
    home.write_users('{"users": {{')
    await eventually(lambda: home.output.count("users file not usable") > known)
    await never(lambda: telegram.sent(ANN)[1:], QUIET_SECONDS)
    assert telegram.sent(BEA)[1:] == [], "who is no admin hears nothing of it"
    assert await home.stop() == 0
