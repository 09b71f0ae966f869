"""What becomes of a message that comes while a turn runs, mode by mode."""

import asyncio
import json
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, MessageStored, Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.llm.base import Request
from tests.harness import PATIENCE, Answer, Core, World
from tests.parts import Trail, acting, sql, unmarked

LOOK = ToolCall("c1", "look", {})
ANNA, BERT = Actor("telegram:1", "telegram", name="Anna"), Actor("telegram:2", "telegram", name="Bert")
GROUP = "telegram:-100"


def world_with(
    folder: Path, trail: Trail, *answers: Answer, mode: str = "queue", users: tuple[User, ...] = ()
) -> World:
    """The model's first answer looks at something, which takes until the trail's gate opens."""
    script = [Answer("", calls=(LOOK,)), *answers]
    return World(folder, script, tools=[acting("look", trail.leave_slowly)], users=users, queue={"mode": mode})


async def at_work(core: Core, trail: Trail, text: str = "look", **options: object) -> None:
    """Let a turn begin, up to the middle of its tool."""
    await core.say(text, **options)
    async with asyncio.timeout(PATIENCE):
        await trail.begun.wait()


def asked(request: Request) -> list[Message]:
    """What the model read, without the lines about time and sender."""
    return [
        UserMessage(message.text.partition("</context>\n")[2], message.images)
        if isinstance(message, UserMessage)
        else message
        for message in unmarked(request.messages)
    ]


async def test_by_default_each_message_gets_an_answer_of_its_own(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, *(Answer(f"Answer {number}.") for number in (1, 2, 3)))
    async with world.running() as core:
        await at_work(core, trail)
        await core.say("and there")
        await core.say("and here")
        trail.gate.set()
        await core.settled()
    assert world.texts() == ["Answer 1.", "Answer 2.", "Answer 3."]


async def test_steered_messages_are_in_the_next_request_in_order(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("All three."), mode="steer")
    async with world.running() as core:
        await at_work(core, trail, message_id="1")
        await core.say("and there", message_id="2")
        await core.say("see this", message_id="3", pictures={"image/png": b"png"})
        assert core.engine.waiting("memory:here") == 2
        trail.gate.set()
        await core.settled()
        steered = [event for event in core.seen if isinstance(event, MessageStored) and event.joined]
        said = await core.messages()
        history = await core.transcripts.history("memory:here", 0, 100)
        assert [event.joined for event in steered] == ["memory:2", "memory:3"]
        assert [row for row in history if row.joined] == steered, "whoever comes later reads the same"
        assert {event.turn for event in core.seen if isinstance(event, TurnFinished)} == {"memory:1"}
    first, second = world.script.requests
    assert asked(first) == said[:1]
    assert (
        asked(second)
        == said[:5]
        == [
            UserMessage("look"),
            AssistantMessage("", (LOOK,)),
            ToolResult("c1", "look", "seen"),
            UserMessage("and there"),
            UserMessage("see this", said[4].images if isinstance(said[4], UserMessage) else ()),
        ]
    )
    assert isinstance(said[4], UserMessage) and len(said[4].images) == 1
    assert world.texts() == ["All three."]


async def test_what_comes_during_the_last_answer_is_the_next_turn(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("The first answer"), Answer("The second.")], queue={"mode": "steer"})
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("one")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.say("two")
        world.script.gate.set()
        await core.settled()
    assert world.texts() == ["The first answer", "The second."]


@pytest.mark.promise("P-queue-modes")
async def test_only_the_same_person_steers_and_the_others_keep_their_order(tmp_path: Path) -> None:
    trail, users = Trail("seen"), (User("telegram:1"), User("telegram:2"))
    answers = (Answer("For Anna."), Answer("For Bert."))
    world = world_with(tmp_path, trail, *answers, mode="steer", users=users)
    async with world.running() as core:
        anna, bert = {"actor": ANNA, "session": GROUP}, {"actor": BERT, "session": GROUP}
        await at_work(core, trail, "anna 1", **anna)
        await core.say("bert 1", **bert)
        await core.say("anna 2", **anna)
        await core.say("bert 2", **bert)
        trail.gate.set()
        await core.settled()
        said = [message.text for message in await core.messages(GROUP) if isinstance(message, UserMessage)]
    assert said == ["anna 1", "anna 2", "bert 1", "bert 2"]
    assert world.texts() == ["For Anna.", "For Bert."]


async def test_a_message_from_elsewhere_does_not_steer(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("For here."), Answer("For there."), mode="steer")
    async with world.running() as core:
        await at_work(core, trail, session="shared")
        await core.say("and this", chat="there", session="shared")
        trail.gate.set()
        await core.settled()
    told = [(heard.delivery.address.chat, heard.delivery.text) for heard in world.room.all]
    assert told == [("here", "For here."), ("there", "For there.")]


async def test_steered_messages_stay_with_a_turn_that_is_stopped(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("A very long answer"), Answer("Here again."), mode="steer")
    async with world.running() as core:
        await at_work(core, trail)
        await core.say("and there")
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        trail.gate.set()
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        assert await core.command("/stop") == "Stopped."
        world.script.gate.set()
        await core.say("hello?")
        await core.settled()
        said = [message.text for message in await core.messages() if not isinstance(message, ToolResult)]
    assert said == ["look", "", "and there", "A very lo", "[stopped here]", "hello?", "Here again."]


async def test_what_has_not_joined_when_the_turn_is_stopped_is_answered_next(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("Here again."), mode="steer")
    async with world.running() as core:
        await at_work(core, trail)
        await core.say("hello?")
        assert await core.command("/stop") == "Stopped. 1 waiting message follows now."
        await core.settled()
    assert world.texts()[-1] == "Here again."


async def test_collected_messages_are_answered_together(tmp_path: Path) -> None:
    trail, users = Trail("seen"), (User("telegram:1"), User("telegram:2"))
    answers = (Answer("Anna's first."), Answer("Anna's rest."), Answer("Bert's."), Answer("Anna's last."))
    world = world_with(tmp_path, trail, *answers, mode="collect", users=users)
    async with world.running() as core:
        anna, bert = {"actor": ANNA, "session": GROUP}, {"actor": BERT, "session": GROUP}
        await at_work(core, trail, "anna 1", **anna)
        for text, who in (("anna 2", anna), ("anna 3", anna), ("bert 1", bert), ("anna 4", anna)):
            await core.say(text, **who)
        trail.gate.set()
        await core.settled()
    assert world.texts() == ["Anna's first.", "Anna's rest.", "Bert's.", "Anna's last."]
    words = [AssistantMessage("Anna's first."), UserMessage("anna 2"), UserMessage("anna 3")]
    assert asked(world.script.requests[2])[-3:] == words


async def test_an_interrupting_message_takes_the_place_of_the_turn(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("Something else."), mode="interrupt")
    async with world.running() as core:
        await at_work(core, trail)
        assert (await core.say("no, something else")).turn
        await core.settled()
        assert await core.messages() == [
            UserMessage("look"),
            AssistantMessage("", (LOOK,)),
            ToolResult("c1", "look", '{"error": "stopped by the user"}', True),
            AssistantMessage("[Stopped.]", notice=True),
            UserMessage("no, something else"),
            AssistantMessage("Something else."),
        ]
        ends = [event.outcome for event in core.seen if isinstance(event, TurnFinished)]
        assert ends == [Outcome.STOPPED, Outcome.ANSWERED]
    assert (trail.cancelled, world.texts()) == (1, ["Something else."])


async def test_of_several_that_interrupt_only_the_last_is_answered_and_all_are_kept(tmp_path: Path) -> None:
    trail, all_came = Trail("seen"), asyncio.Event()

    async def end_late() -> str:
        try:
            return await trail.leave_slowly()
        except asyncio.CancelledError:
            await all_came.wait()  # else the first of them could be answered before the next has come
            raise

    script = [Answer("", calls=(LOOK,)), Answer("The last.")]
    world = World(tmp_path, script, tools=[acting("look", end_late)], queue={"mode": "interrupt"})
    async with world.running() as core:
        await at_work(core, trail)
        await asyncio.gather(*(core.say(f"no, {number}") for number in range(3)))
        all_came.set()
        await core.settled()
        said = [message.text for message in await core.messages() if not isinstance(message, ToolResult)]
        rows = await core.database.read(sql("SELECT body FROM inbox WHERE seq > 1 ORDER BY seq"))
    # At once, they have no order but that of the journal: each channel hands over one message of a chat at a time.
    came = [json.loads(row[0])["text"] for row in rows]
    assert sorted(came) == ["no, 0", "no, 1", "no, 2"]
    assert said[2:] == ["[Stopped.]", came[0], "[Stopped.]", came[1], "[Stopped.]", came[2], "The last."]
    assert world.texts() == ["The last."]


async def test_nobody_interrupts_anybody_else(tmp_path: Path) -> None:
    trail, users = Trail("seen"), (User("telegram:1"), User("telegram:2"))
    world = world_with(tmp_path, trail, Answer("For Anna."), Answer("For Bert."), mode="interrupt", users=users)
    async with world.running() as core:
        await at_work(core, trail, actor=ANNA, session=GROUP)
        await core.say("me!", actor=BERT, session=GROUP)
        trail.gate.set()
        await core.settled()
    assert world.texts() == ["For Anna.", "For Bert."]


async def test_a_turn_that_is_taken_up_again_shows_the_model_the_same(tmp_path: Path) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("cut here"), Answer("Both."), mode="steer")
    async with world.running() as core:
        await at_work(core, trail)
        await core.say("and there", pictures={"image/png": b"png"})
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        trail.gate.set()
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
    world.script.gate.set()
    async with world.running() as core:
        await core.settled()
        assert [type(message) for message in await core.messages()] == [
            UserMessage,
            AssistantMessage,
            ToolResult,
            UserMessage,
            AssistantMessage,
        ]
    _, cut, again = world.script.requests
    assert list(cut.messages) == list(again.messages)
    assert world.texts() == ["Both."]


@pytest.mark.parametrize("mode", ["queue", "collect", "steer", "interrupt"])
async def test_a_redelivered_message_is_nothing_new_in_any_mode(tmp_path: Path, mode: str) -> None:
    trail = Trail("seen")
    world = world_with(tmp_path, trail, Answer("One."), Answer("Two."), mode=mode)
    async with world.running() as core:
        await at_work(core, trail, message_id="1")
        for _ in range(2):
            await core.say("and there", message_id="2")
            await core.say("look", message_id="1")
        trail.gate.set()
        await core.settled()
        await core.say("and there", message_id="2")
        await core.settled()
        said = [message.text for message in await core.messages() if isinstance(message, UserMessage)]
    assert said == ["look", "and there"]
