"""What the agent says before its tool calls reaches the person: in order, once, whatever ends the turn."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Capabilities
from goclaw.channels.memory import MemoryChannel
from goclaw.common.auth.users import User
from goclaw.common.core.events import AcceptKind, Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.conversation.turns.answers import EMPTY_SENTENCES, MAX_A_MINUTE, SECONDS
from goclaw.conversation.turns.turn import STOPPED_HERE
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Emptiness, Stop
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.builtin.message import message as message_tool
from goclaw.tools.hooks.base import HookAnswer
from tests.conversation.questions.test_questions import asked
from tests.conversation.turns.test_user_message_hooking import Ears, hooks
from tests.harness import Answer, Core, World, before_the_next_look
from tests.kills import recorded
from tests.parts import Trail, acting

STORY = [
    Answer("First A.", calls=(ToolCall("c1", "look", {}),), when="work"),
    Answer("Then B.", calls=(ToolCall("c2", "keep", {}),), when="seen"),
    Answer("Done.", when="kept"),
]
"""What the model says to each message, also when it is asked once more after a kill."""


def using(text: str, call: str = "c1", tool: str = "look") -> Answer:
    """An answer that says something and uses a tool."""
    return Answer(text, calls=(ToolCall(call, tool, {}),))


def looking(folder: Path, answers: Sequence[Answer], **config: Any) -> World:
    tools = [acting("look", Trail("seen").leave), acting("keep", Trail("kept").leave)]
    return World(folder, answers, tools=tools, **config)


def comments(number: int) -> list[Answer]:
    """So many answers with a text and a call, and a last one."""
    return [
        *(using(f"step {each}", f"c{each}", ("look", "keep")[each % 2]) for each in range(1, number + 1)),
        Answer("Done."),
    ]


async def work(core: Core) -> None:
    """What happens in a life: the message is (re)delivered."""
    await core.say("work", message_id="1")
    await core.settled()


def finished(core: Core) -> list[tuple[Outcome, str, bool]]:
    return [(end.outcome, end.text, end.silent) for end in core.seen if isinstance(end, TurnFinished)]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat wants one message a turn."""

    monkeypatch.setattr(MemoryChannel, "capabilities", Capabilities(interim=False))


@pytest.mark.promise("P-interim")
async def test_an_answer_before_a_tool_call_is_a_message_of_its_own(tmp_path: Path) -> None:
    world = looking(tmp_path, [using("Here is the plan: A, then B."), Answer("Done.")])
    async with world.running() as core:
        await core.say("plan it")
        await core.settled()
        assert finished(core) == [(Outcome.ANSWERED, "Done.", False)]
    assert world.texts() == ["Here is the plan: A, then B.", "Done."]


@pytest.mark.promise("P-interim")
async def test_a_turn_that_said_all_before_its_last_call_ends_without_another_message(tmp_path: Path) -> None:
    world = looking(tmp_path, [using("Here is the plan."), Answer(" \n")])
    async with world.running() as core:
        await core.say("plan it")
        await core.settled()
        assert finished(core) == [(Outcome.ANSWERED, "", True)]
    assert world.texts() == ["Here is the plan."]


async def test_only_a_turn_that_said_nothing_at_all_is_told_to_be_empty(tmp_path: Path) -> None:
    world = looking(tmp_path, [using(" \n"), Answer("")])
    async with world.running() as core:
        await core.say("plan it")
        await core.settled()
    assert world.texts() == [EMPTY_SENTENCES[Emptiness.EMPTY]]


@pytest.mark.promise("P-interim", "P-answered-once")
async def test_a_kill_at_any_moment_loses_no_text_and_doubles_none(tmp_path: Path) -> None:
    world = looking(tmp_path, STORY)

    for moment in await recorded(world, work):
        with moment.restored():
            async with world.running() as core:
                await work(core)
            sure = [heard.delivery.text for heard in world.room.all if not heard.doubt.value]
            assert list(dict.fromkeys(world.texts())) == ["First A.", "Then B.", "Done."], world.texts()
            assert len(set(sure)) == len(sure), sure


@pytest.mark.usefixtures("joined")
async def test_where_the_chat_wants_one_message_a_turn_all_texts_are_in_it(tmp_path: Path) -> None:
    world = looking(tmp_path, comments(2))
    async with world.running() as core:
        await core.say("work")
        await core.settled()
    assert world.texts() == ["step 1\n\nstep 2\n\nDone."]


@pytest.mark.usefixtures("joined")
async def test_texts_that_wait_for_the_answer_survive_a_kill(tmp_path: Path) -> None:
    world = looking(tmp_path, STORY)

    for moment in await recorded(world, work):
        with moment.restored():
            async with world.running() as core:
                await work(core)
            assert set(world.texts()) == {"First A.\n\nThen B.\n\nDone."}


@pytest.mark.usefixtures("joined")
@pytest.mark.promise("P-interim")
async def test_what_leads_to_a_question_is_in_the_chat_before_it(tmp_path: Path) -> None:
    """Also after a kill: nothing is told twice."""
    colours = {"questions": [{"question": "Which?", "options": ["red", "blue"]}]}
    asks = Answer("1. red is warm\n2. blue is cold", calls=(ToolCall("c2", "ask_user", colours),), when="seen")
    script = [Answer("I look.", calls=(ToolCall("c1", "look", {}),), when="work"), asks, Answer("Red it is.")]
    tools = [acting("look", Trail("seen").leave), ask_user]
    world = World(tmp_path, script, tools=tools, users=[User("memory:anna")])
    lead = "I look.\n\n1. red is warm\n2. blue is cold"
    async with world.running() as core:
        await core.say("work")
        await asked(core)
        async with asyncio.timeout(10):
            while len(world.texts()) < 2:
                await before_the_next_look()
        assert world.texts()[0] == lead and "Which?" in world.texts()[1]
    async with world.running() as core:
        await asked(core)
        assert (await core.say("red")).kind is AcceptKind.ANSWER
        await core.settled()
    assert world.texts().count(lead) == 1 and world.texts()[-1] == "Red it is."


@pytest.mark.usefixtures("joined")
async def test_what_leads_to_a_message_of_the_agents_own_is_in_the_chat_before_it(tmp_path: Path) -> None:
    sends = ToolCall("c1", "message", {"action": "send", "text": "the report"})
    script = [Answer("Here it is:", calls=(sends,)), Answer("That is all.")]
    world = World(tmp_path, script, tools=[message_tool], users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("work")
        await core.settled()
    assert world.texts() == ["Here it is:", "the report", "That is all."]


async def test_a_chat_gets_so_many_of_them_a_minute_and_the_rest_together(tmp_path: Path) -> None:
    world = looking(tmp_path, [*comments(MAX_A_MINUTE + 2), *comments(1), *comments(1)])
    async with world.running() as core:
        await core.say("work")
        await core.settled()
        first = [f"step {number}" for number in range(1, MAX_A_MINUTE + 1)]
        assert world.texts() == [*first, f"step {MAX_A_MINUTE + 1}\n\nstep {MAX_A_MINUTE + 2}\n\nDone."]
        await core.say("more", chat="there")
        await core.settled()
        assert world.texts()[-2:] == ["step 1", "Done."]
        world.clock.advance(SECONDS)
        await core.say("and more")
        await core.settled()
    assert world.texts()[-2:] == ["step 1", "Done."]


async def test_what_never_waits_counts_among_the_texts_of_a_minute(tmp_path: Path) -> None:
    sends = [
        ToolCall(f"m{number}", "message", {"action": "send", "text": f"file {number}"})
        for number in range(MAX_A_MINUTE)
    ]
    script = [*(Answer(f"Here is {call.id}:", calls=(call,)) for call in sends), *comments(1)]
    tools = [message_tool, acting("keep", Trail("kept").leave)]
    world = World(tmp_path, script, tools=tools, users=[User("memory:anna")])
    async with world.running() as core:
        await core.say("work")
        await core.settled()
    announced = [text for number in range(MAX_A_MINUTE) for text in (f"Here is m{number}:", f"file {number}")]
    assert world.texts() == [*announced, "step 1\n\nDone."]


@pytest.mark.usefixtures("joined")
async def test_texts_that_wait_are_told_when_the_turn_ends_otherwise(tmp_path: Path) -> None:
    world = looking(tmp_path, [using("The answer is 42."), Answer(error=ModelErrorKind.OVERLOADED)])
    async with world.running() as core:
        await core.say("work")
        await core.settled()
    (text,) = world.texts()
    assert text.startswith("The answer is 42.\n\n")


async def test_the_hook_for_what_goes_out_judges_each_of_them(tmp_path: Path) -> None:
    def judge(text: str) -> HookAnswer:
        if "secret" in text:
            return HookAnswer(suppress=True)
        return HookAnswer(deny="it names a customer") if "Bea" in text else HookAnswer(text=text.upper())

    world = looking(tmp_path, [using("one"), using("a secret", "c2"), using("ask Bea", "c3"), Answer("end")])
    world.hooks = hooks("message_out", hook=Ears(lambda event: judge(event.text)))
    async with world.running() as core:
        await core.say("work")
        await core.settled()
        said = [message for message in await core.messages() if isinstance(message, AssistantMessage)]
    assert world.texts() == ["ONE", "This answer is withheld: it names a customer", "END"]
    assert [len(message.calls) for message in said] == [1, 1, 1, 0] and "secret" not in str(said)


async def test_an_answer_that_was_cut_stands_before_what_is_said_with_a_call(tmp_path: Path) -> None:
    script = [Answer("Once upon a ti", stop=Stop.LENGTH), using("me there was."), Answer("The end.")]
    world = looking(tmp_path, script, limits={"continue_cut": True})
    async with world.running() as core:
        await core.say("tell me a story")
        await core.settled()
    assert world.texts() == ["Once upon a time there was.", "The end."]


async def test_the_beginning_of_an_answer_whose_rest_was_stopped_is_delivered(tmp_path: Path) -> None:
    script = [Answer("Once upon a ti", stop=Stop.LENGTH), Answer(error=ModelErrorKind.OVERLOADED)]
    world = looking(tmp_path, script, limits={"continue_cut": True})
    async with world.running() as core:
        await core.say("tell me a story")
        await core.settled()
    (text,) = world.texts()
    assert text.startswith(f"Once upon a ti\n\n{STOPPED_HERE}")
