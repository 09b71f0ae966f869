"""Messages: read by rows, and sent exactly once, also over a restart of the daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.messages import ToolCall
from tests.gateway.servers.api.calling import at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer

pytestmark = pytest.mark.promise("P-api-once")


async def test_a_message_begins_a_turn_whose_rows_are_read(tmp_path: Path) -> None:
    world = world_with(tmp_path, *(Answer(f"Answer {number}.") for number in range(4)))
    async with world.running() as core, service(world, core) as served:
        turns = []
        for number in range(4):
            sent = await served.say(f"Question {number}", str(number))
            assert (sent.status, sent.said["kind"], sent.said["id"]) == (202, "turn", str(number))
            turns.append(sent.said["turn"])
            await core.settled()
        rows = (await served.get(f"{at(ANN.key)}/messages")).said["messages"]
        texts = [row["message"]["text"] for row in rows]
        assert texts == [text for number in range(4) for text in (f"Question {number}", f"Answer {number}.")]
        assert [row["turn"] for row in rows[1::2]] == turns and rows[0]["sender"] == ANN.key
        numbers = [row["row"] for row in rows]
        after = (await served.get(f"{at(ANN.key)}/messages?after={numbers[4]}")).said["messages"]
        assert [row["row"] for row in after] == numbers[5:]
        found: list[int] = []
        before = ""
        for _ in range(3):
            page = (await served.get(f"{at(ANN.key)}/messages?limit=3{before}")).said["messages"]
            found = [*(row["row"] for row in page), *found]
            before = f"&before={found[0]}"
        assert found == numbers
        assert (await served.get(f"{at(ANN.key)}/messages?limit=3{before}")).said["messages"] == []


async def test_calls_of_a_long_answer_never_make_an_empty_page(tmp_path: Path) -> None:
    calls = tuple(ToolCall(f"c{number}", "unknown", {}) for number in range(6))
    world = world_with(tmp_path, Answer("Look.", calls=calls), Answer("Done."))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi")
        await core.settled()
        found: list[Any] = []
        before = ""
        while page := (await served.get(f"{at(ANN.key)}/messages?limit=1{before}")).said["messages"]:
            found = [*page, *found]
            before = f"&before={page[0]['row']}"
        whole = (await served.get(f"{at(ANN.key)}/messages")).said["messages"]
        assert [row["row"] for row in found] == [row["row"] for row in whole] and len(whole) == 9
        assert len(whole[1]["message"]["calls"]) == 6


async def test_a_message_that_is_sent_again_is_taken_once(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."))
    async with world.running() as core, service(world, core) as served:
        same = await asyncio.gather(*(served.say("Hi", "same") for _ in range(5)))
        assert len({each.said["turn"] for each in same}) == 1 and {each.status for each in same} == {202}
        await core.settled()
        other = await served.say("Hi", "same", user=BOB.key)
        assert other.said["turn"] != same[0].said["turn"]
        await core.settled()
    assert len(world.script.requests) == 2
    async with world.running() as core, service(world, core) as served:
        again = await served.say("Hi", "same")
        assert (again.status, again.said["kind"], again.said["turn"]) == (200, "duplicate", same[0].said["turn"])
        await core.settled()
    assert len(world.script.requests) == 2


async def test_a_command_is_answered_at_once_and_carried_out_once(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        answered = await served.say("/whoami", "w")
        assert (answered.status, answered.said["kind"]) == (200, "reply") and ANN.key in answered.said["text"]
        assert (await served.say("/whoami", "w")).said == answered.said
        assert "Unknown command" in (await served.say("/xyzzy", "x")).said["text"]
    assert world.script.requests == []


async def test_a_session_that_is_only_read_takes_no_message(tmp_path: Path) -> None:
    auditor = User("memory:there", "Bob", roles=frozenset({"user", "auditor"}))
    roles = {"auditor": {"sessions": "read"}}
    world = world_with(tmp_path, Answer("Hello."), users=(ANN, auditor), roles=roles)
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi")
        await core.settled()
        assert (await served.get(at(ANN.key), user=auditor.key)).said["writable"] is False
        refused = await served.say("Hi", user=auditor.key, session=ANN.key)
        assert refused.status == 403 and refused.problem["field"] == "session"
        assert (await served.post(f"{at(ANN.key)}/stop", None, user=auditor.key)).status == 403
        await core.settled()
    assert len(world.script.requests) == 1


async def test_too_many_waiting_messages_are_refused_and_can_be_sent_again(tmp_path: Path) -> None:
    world = world_with(tmp_path, *(Answer("Yes.") for _ in range(3)), limits={"queued_messages": 1})
    world.script.gate = asyncio.Event()
    async with world.running() as core, service(world, core) as served:
        await served.say("One", "1")
        await served.say("Two", "2")
        refused = await served.say("Three", "3")
        assert refused.status == 429 and refused.headers["Retry-After"] and "queued" in refused.problem["detail"]
        assert (await served.say("/whoami", "4")).status == 200
        world.script.gate.set()
        await core.settled()
        assert (await served.say("Three", "3")).status == 202
        await core.settled()
