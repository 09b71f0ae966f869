"""Schedules from the command line, with a daemon that runs and a person on Telegram."""

import orjson
import pytest

from tests.acceptance.shared import Person, SharedDaemon

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.promise("P-schedule-once")
async def test_the_owner_schedules_a_message_for_a_person_and_it_comes(ann: Person, shared: SharedDaemon) -> None:
    run = shared.home.run
    await ann.ask("/whoami")  # a bot writes to those alone who have written to it
    added = await run("schedule", "add", "tea", "--at", "1s", "--message", "Tea is ready", "--user", ann.session)
    assert added.code == 0 and added.out.startswith("tea is set: ")
    assert (await ann.hears(2))[-1] == "⏰ Reminder: Tea is ready"
    (listed,) = orjson.loads((await run("schedule", "list", "--json")).out)
    assert (listed["name"], listed["state"], listed["last"]["state"]) == ("tea", "done", "done")
    assert (await run("schedule", "pause", "tea")).code == 1
