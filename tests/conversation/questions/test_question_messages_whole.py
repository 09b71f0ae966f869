"""A yes to a call that is too long for a message counts in a chat only that shows the whole call."""

from pathlib import Path

import pytest

from goclaw.common.core.events import LOCAL, Actor, Address, Delivery, Inbound
from goclaw.conversation.questions.question_messages import ELSEWHERE, NOW_OPEN
from tests.conversation.questions.test_turn_questions import asked, standing
from tests.conversation.sessions.approving import ANNA, CHEF, commands, world_of
from tests.harness import PATIENCE, Core, World

pytestmark = pytest.mark.promise("P-approval")

LINE = f"echo {' '.join(f'word{number}' for number in range(2_000))}"
anna, chef = Actor(ANNA, "memory"), Actor(CHEF, "memory")


def shown_in(world: World, chat: str) -> list[Delivery]:
    return [heard.delivery for heard in world.room.all if heard.delivery.address.chat == chat]


async def say_in_a_terminal(core: Core) -> None:
    terminal = Actor(ANNA, "socket")
    await core.gateway.accept(Inbound("local:1", terminal, ANNA, "go", Address(LOCAL, ANNA), received_at=0.0))


async def whole_of(core: Core, sent: Delivery) -> str:
    assert sent.media
    return (await core.sessions.ports.environment.blobs.get(sent.media)).decode()


async def test_a_question_of_a_terminal_comes_whole_to_the_private_chat_that_says_yes_to_it(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands(LINE))
    async with world.running() as core:
        await say_in_a_terminal(core)
        yes = f"/approve {(await asked(core)).id}"
        assert await core.command(yes, actor=anna, chat="anna") == NOW_OPEN
        await core.outbox.flush(PATIENCE)
        question, document = shown_in(world, "anna")[:2]
        assert yes in question.text and LINE in await whole_of(core, document) and sandbox.ran == []
        assert await core.command(yes, actor=anna, chat="anna") == "Allowed."
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == [LINE]
    closed = next(sent for sent in shown_in(world, "anna") if sent.of == question.id)
    assert closed.text.startswith("✓ Allowed by Anna")


async def test_a_terminal_that_shows_the_whole_call_answers_at_once(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands(LINE))
    async with world.running() as core:
        await say_in_a_terminal(core)
        question = await asked(core)
        assert (await core.gateway.decide(Actor(ANNA, "socket"), question.id, "allow")).text == "Allowed."
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == [LINE]


async def test_a_chat_that_others_may_read_gets_no_question_of_elsewhere_and_its_yes_never_counts(
    tmp_path: Path,
) -> None:
    world, sandbox = world_of(tmp_path, commands(LINE))
    async with world.running() as core:
        await core.say("go", actor=anna, chat="anna", session=ANNA)
        yes = f"/approve {(await asked(core)).id}"
        for _ in range(2):
            assert await core.command(yes, actor=chef, chat="team") == ELSEWHERE
        await core.outbox.flush(PATIENCE)
        assert not any("word1" in sent.text or sent.media for sent in shown_in(world, "team")) and sandbox.ran == []
        assert len([sent for sent in shown_in(world, "anna") if sent.media]) == 0


async def test_details_in_one_chat_are_no_details_in_another(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands(LINE))
    async with world.running() as core:
        await core.say("go", actor=anna, chat="anna", session=ANNA)
        question = await asked(core)
        details = (await standing(world, question)).delivery.choices[-1]
        assert await world.room.press(details, anna) == ""
        yes = f"/approve {question.id}"
        assert await core.command(yes, actor=chef, chat="team") == ELSEWHERE
        assert await core.command(yes, actor=chef, chat="chef") == NOW_OPEN
        await core.outbox.flush(PATIENCE)
        assert LINE in await whole_of(core, shown_in(world, "chef")[1]) and sandbox.ran == []
        assert await core.command(yes, actor=anna, chat="anna") == "Allowed."
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == [LINE]


async def test_a_yes_in_the_chat_of_the_question_opens_it_there(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands(LINE))
    async with world.running() as core:
        await core.say("go", actor=anna, chat="team", session=ANNA)
        yes = f"/approve {(await asked(core)).id}"
        assert await core.command(yes, actor=chef, chat="team") == NOW_OPEN
        await core.outbox.flush(PATIENCE)
        assert len([sent for sent in shown_in(world, "team") if sent.media]) == 1 and sandbox.ran == []
        assert await core.command(yes, actor=chef, chat="team") == "Allowed."
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == [LINE]
