"""A plain message of a conversation in memory is stored together with its receipt: one row, whatever happens."""

from collections.abc import Callable
from pathlib import Path

from goclaw.common.core.events import MessageStored, TurnStarted
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.llm.scripted import Answer
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from tests.harness import Core, World
from tests.kills import recorded

HERE = "memory:here"
SCRIPT = [Answer("first", when="one"), Answer("second", when="two")]


async def talk(core: Core) -> None:
    await core.say("one", message_id="1")
    await core.settled()
    await core.say("two", message_id="2")
    await core.settled()


async def writes_of_the_second_turn(world: World) -> int:
    async with world.running() as core:
        await core.say("one", message_id="1")
        await core.settled()
        before = core.database.writes
        await core.say("two", message_id="2")
        await core.settled()
        return core.database.writes - before


async def test_a_plain_turn_is_three_writes(tmp_path: Path) -> None:
    """The message and its row, the answer with the end, the receipt of the delivery."""
    assert await writes_of_the_second_turn(World(tmp_path, SCRIPT)) == 3


async def test_what_a_hook_judges_is_not_stored_before_it_has(tmp_path: Path) -> None:
    async def hear(event: HookEvent) -> HookAnswer:
        return HookAnswer(text=f"{event.text}, judged")

    world = World(tmp_path, [Answer("first", when="one, judged"), Answer("second", when="two, judged")])
    world.hooks = Hooks([Registered("ears", frozenset({"message_in"}), hear)])
    assert await writes_of_the_second_turn(world) == 4


async def test_a_kill_at_any_write_leaves_each_message_once_and_answered(tmp_path: Path) -> None:
    world = World(tmp_path, SCRIPT)
    moments = await recorded(world, talk)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await talk(core)
                said = [each.text for each in await core.messages() if isinstance(each, UserMessage | AssistantMessage)]
                assert said == ["one", "first", "two", "second"]
                assert len(set(world.texts())) == 2
    assert moments[-1].write >= 6, "every write was tried"


async def test_watchers_see_the_message_behind_the_beginning_of_its_turn(tmp_path: Path) -> None:
    async with World(tmp_path, SCRIPT).running() as core:
        await talk(core)
        kinds = [type(event) for event in core.seen if isinstance(event, TurnStarted | MessageStored)]
        rows = [event.row for event in core.seen if isinstance(event, MessageStored)]
        stored = [row.row for row in await core.transcripts.history(HERE, 0, 100)]
    assert kinds == [TurnStarted, MessageStored, MessageStored] * 2
    assert rows == stored


async def test_a_conversation_that_leaves_memory_behind_the_write_has_the_message_once(tmp_path: Path) -> None:
    world = World(tmp_path, SCRIPT)
    leaves = list[Callable[[], None]]()

    def watch(moment: str, write: int) -> None:
        if leaves and moment.startswith("before"):
            leaves.pop()()

    async with world.running(watch=watch) as core:
        await core.say("one", message_id="1")
        await core.settled()
        leaves.append(lambda: core.sessions.contexts.forget(HERE))
        await core.say("two", message_id="2")
        await core.settled()
        assert not leaves
    texts = [each.text for each in world.script.requests[-1].messages if isinstance(each, UserMessage)]
    # Two messages of a person one behind the other would be joined to one.
    assert [(text.count("one"), text.count("two")) for text in texts] == [(1, 0), (0, 1)]
