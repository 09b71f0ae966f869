"""Calls of one answer run beside each other; what the model reads of them is in its own order, whatever happened."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from goclaw.common.core.events import Actor
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult
from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.scheduling import ResourceUse
from tests.conversation.sessions.approving import CHEF, PEOPLE, asked_so_far
from tests.harness import PATIENCE, Answer, Core, World
from tests.parts import Trail

chef = Actor(CHEF, "memory")
STOPPED = '{"error": "stopped by the user"}'


def writing(name: str, trail: Trail) -> Tool:
    """A tool that writes `a.txt` for as long as the trail's gate is shut."""

    async def run(ctx: ToolContext) -> str:
        """Write."""
        return await trail.leave_slowly()

    return tool(
        side_effect=SideEffect.MUTATING, name=name, access=lambda arguments, ctx: ResourceUse(writes=("a.txt",))
    )(run)


@tool(side_effect=SideEffect.NONE)
async def quick(ctx: ToolContext) -> str:
    """Return at once."""
    return "quick"


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def risky(ctx: ToolContext) -> str:
    """Need somebody's word."""
    return "risky"


def results(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message.call_id, message.content) for message in messages if isinstance(message, ToolResult)]


async def until_stored(core: Core, *ids: str) -> None:
    """Wait until the results of these calls are in the transcript."""
    async with asyncio.timeout(PATIENCE):
        while {of for of, _ in results(await core.messages())} != set(ids):  # noqa: ASYNC110  # rows have no event
            await asyncio.sleep(0)


@pytest.mark.promise("P-one-result")
@pytest.mark.promise("P-stop")
async def test_a_stopped_answer_has_one_result_for_every_call_in_the_models_order(tmp_path: Path) -> None:
    first, second = Trail(), Trail()
    asked = ("risky", "first", "quick", "second", "nothing", "second", "quick")
    calls = tuple(ToolCall(f"c{number}", name, {}) for number, name in enumerate(asked, start=1))
    world = World(
        tmp_path,
        [Answer("All at once.", calls=calls), Answer("Here again.")],
        tools=[writing("first", first), writing("second", second), quick, risky],
    )
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await first.begun.wait()
        await until_stored(core, "c3", "c5", "c7")
        assert await core.command("/stop") == "Stopped."
        assert (first.cancelled, second.times) == (1, 0), "what waited for its place never ran"
        await core.say("hello?")
        await core.settled()
        told = await core.messages()
    assert AssistantMessage("All at once.", calls) in told
    done, filled = results(told)[:3], results(told)[3:]
    assert {of for of, _ in done} == {"c3", "c5", "c7"}
    assert filled == [(each, STOPPED) for each in ("c1", "c2", "c4", "c6")]
    assert [of for of, _ in results(world.script.requests[-1].messages)] == [call.id for call in calls]


@pytest.mark.promise("P-one-result")
async def test_results_come_as_they_are_done_and_are_read_in_the_models_order(tmp_path: Path) -> None:
    trails = [Trail(f"result {number}") for number in range(5)]

    def waiting(number: int) -> Tool:
        async def run(ctx: ToolContext) -> str:
            """Wait."""
            return await trails[number].leave_slowly()

        return tool(side_effect=SideEffect.NONE, name=f"wait_{number}")(run)

    calls = tuple(ToolCall(f"c{number}", f"wait_{number}", {}) for number in range(5))
    world = World(
        tmp_path, [Answer("", calls=calls), Answer("All done.")], tools=[waiting(number) for number in range(5)]
    )
    order = random.Random(7).sample(range(5), 5)
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            for trail in trails:
                await trail.begun.wait()
        for place, number in enumerate(order, start=1):
            trails[number].gate.set()
            await until_stored(core, *(f"c{each}" for each in order[:place]))
        await core.settled()
        assert [of for of, _ in results(await core.messages())] == [f"c{number}" for number in order]
        reloaded = [of for of, _ in results(world.script.requests[-1].messages)]
    assert order != sorted(order) and reloaded == [call.id for call in calls]
    async with world.running() as core:
        await core.say("and after a restart?")
        await core.settled()
    assert [of for of, _ in results(world.script.requests[-1].messages)] == [call.id for call in calls]


@pytest.mark.parametrize("agreed", [True, False])
async def test_an_answer_frees_what_waited_behind_the_question(tmp_path: Path, agreed: bool) -> None:
    trail = Trail()
    trail.gate.set()

    @tool(
        side_effect=SideEffect.MUTATING, risk=Risk.HIGH, access=lambda arguments, ctx: ResourceUse(writes=("./a.txt",))
    )
    async def ask(ctx: ToolContext) -> str:
        """Write, when somebody agrees."""
        return "agreed"

    calls = (ToolCall("c1", "ask", {}), ToolCall("c2", "write", {}))
    world = World(
        tmp_path, [Answer("", calls=calls), Answer("Done.")], tools=[ask, writing("write", trail)], users=PEOPLE
    )
    async with world.running() as core:
        await core.say("go", actor=chef)
        async with asyncio.timeout(PATIENCE):
            while not (asked := asked_so_far(core)):  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0)
        assert trail.times == 0, "the second write is behind the first"
        await core.command(f"/{'approve' if agreed else 'deny'} {asked[0].id}", actor=chef)
        await core.settled()
        assert trail.times == 1
        assert [of for of, _ in results(await core.messages())] == ["c1", "c2"]
