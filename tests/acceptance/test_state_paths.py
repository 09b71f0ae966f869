"""A daemon leaves nothing in its state folder that does not say which processes need it."""

import pytest

from goclaw.common.config.state import locality_of
from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]


async def test_everything_that_a_daemon_leaves_says_which_processes_need_it(
    home: Installation, telegram: FakeTelegram
) -> None:
    await home.start(telegram)
    await telegram.world.say("m1 exec", user=5)
    await eventually(lambda: any("(end)" in said.text for said in telegram.sent(5)))
    assert (await home.run("status")).code == 0
    await home.stop()
    left = {str(path.relative_to(home.state)) for path in home.state.rglob("*")}
    database = set() if home.store_environment else {"goclaw.db"}
    assert database | {"blobs/media", "goclaw.lock", "logs/audit.jsonl", "memory.db"} <= left
    assert [name for name in sorted(left) if locality_of(name) is None] == []
