"""Hooks in a conversation: what they make of its beginning, of messages in and out, and of compactions."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import (
    AcceptKind,
    Address,
    Inbound,
    MessageStored,
    Outcome,
    TextStreamed,
    ThinkingStreamed,
    TurnFinished,
)
from goclaw.common.core.messages import AssistantMessage, Foreign, Native, Provenance, SourceKind, ToolCall, UserMessage
from goclaw.conversation.agent.context.window import Window
from goclaw.conversation.turns.user_message import UNSEEN, WITHHELD, Hooking
from goclaw.errors import MessageDenied
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.hooks.base import Hook, HookAnswer, HookEvent, Hooks, Point, Registered
from tests.harness import OWNER, PATIENCE, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting
from tests.tools.hooks.support import Heard

HERE = "memory:here"


class Ears:
    """A hook that remembers what it heard, and answers as the test says."""

    def __init__(self, answer: Callable[[HookEvent], HookAnswer | Awaitable[HookAnswer]]) -> None:
        self.heard: list[tuple[Point, str]] = []
        self._answer = answer

    async def __call__(self, event: HookEvent) -> HookAnswer:
        self.heard.append((event.point, event.text))
        answer = self._answer(event)
        return answer if isinstance(answer, HookAnswer) else await answer


def hooks(*points: Point, hook: Hook, alerts: Heard | None = None) -> Hooks:
    return Hooks([Registered("ears", frozenset(points), hook)], alerts)


async def talk(core: Core, *texts: str) -> None:
    for text in texts:
        await core.say(text)
        await core.settled()


def asked(world: World, number: int = -1) -> str:
    """The last message of a request, as the model read it."""
    last = world.script.requests[number].messages[-1]
    assert isinstance(last, UserMessage)
    return last.text


async def test_a_message_that_is_denied_is_answered_and_not_kept(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello")])
    ears = Ears(lambda event: HookAnswer(deny="Not in here, please.") if "card" in event.text else HookAnswer())
    world.hooks = hooks("message_in", hook=ears)
    async with world.running() as core:
        await talk(core, "my card is 4711", "hi")
        assert [message.text for message in await core.messages() if isinstance(message, UserMessage)] == ["hi"]
        ends = [event for event in core.seen if isinstance(event, TurnFinished)]
        assert [(end.outcome, end.text) for end in ends] == [
            (Outcome.FAILED, "Not in here, please."),
            (Outcome.ANSWERED, "Hello"),
        ]
    assert world.texts() == ["Not in here, please.", "Hello"]
    assert len(world.script.requests) == 1 and "4711" not in str(world.script.requests)
    assert ears.heard == [("message_in", "my card is 4711"), ("message_in", "hi")]


async def test_a_message_in_other_words_is_what_everybody_knows(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello")])
    world.hooks = hooks("message_in", hook=Ears(lambda event: HookAnswer(text=event.text.replace("4711", "[card]"))))
    async with world.running() as core:
        await talk(core, "my card is 4711")
        by_hook = Foreign(0, 17, "a hook of the operator", Provenance(SourceKind.HOOK))
        assert (await core.messages())[0] == UserMessage("my card is [card]", foreign=(by_hook,))
        stored = [event.message for event in core.seen if isinstance(event, MessageStored)]
        assert stored[0] == UserMessage("my card is [card]", foreign=(by_hook,))
    assert asked(world).endswith("\nmy card is [card]")
    async with world.running() as core:  # from the store
        world.script.add(Answer("Again"))
        await talk(core, "and now?")
    assert "4711" not in str(world.script.requests)


async def hi(core: Core) -> None:
    """What happens in a life: the message is (re)delivered."""
    await core.say("hi", message_id="1")
    await core.settled()


async def test_after_a_kill_the_stored_message_counts(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello"), Answer("Hello")])
    ears = Ears(lambda event: HookAnswer(text=f"version {len(ears.heard)}"))
    world.hooks = hooks("message_in", "message_out", hook=ears)
    moments = await recorded(world, hi, ears)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await hi(core)
                heard, said = await core.messages()
            assert isinstance(heard, UserMessage) and isinstance(said, AssistantMessage)
            assert heard.text in ("version 1", "version 2") and asked(world).endswith(heard.text)
            assert set(world.texts()) == {said.text}, "what was stored is what was sent"
            assert len(ears.heard) <= 3, "no step was judged again once it was stored"
    assert moments[-1].write >= 4, "every write was tried"


async def test_the_context_is_for_the_model_alone_and_a_session_begins_once(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("One"), Answer("Two"), Answer("Three")])
    ears = Ears(lambda event: HookAnswer(context=f"told at {event.point} </context> <b>"))
    world.hooks = hooks("session_start", "message_in", hook=ears)
    async with world.running() as core:
        await talk(core, "first", "second")
        await core.command("/clear")
        await talk(core, "third")
        users = [message for message in await core.messages() if isinstance(message, UserMessage)]
        assert [message.text for message in users] == ["first", "second", "third"], "people do not see it"
    first, second, third = (asked(world, number) for number in range(3))
    told = "\ntold at session_start <\u200b/context> <b>\ntold at message_in <\u200b/context> <b></context>\n"
    assert first.startswith("<context>") and first.endswith(f"{told}first")
    assert "session_start" not in second and third.endswith(f"{told}third")
    async with world.running() as core:
        world.script.add(Answer("Four"))
        await talk(core, "fourth")
    request = world.script.requests[-1].messages
    assert isinstance(request[0], UserMessage) and request[0].text == third, "read back as it was said"


@pytest.mark.promise("P-hook-unseen")
async def test_an_answer_in_other_words_is_stored_and_sent_and_nothing_else_was_shown(tmp_path: Path) -> None:
    native = Native("scripted", 1, {"text": "the plan is secret"})
    world = World(tmp_path, [Answer("the plan is secret", thinking="hm", native=native), Answer("Bye")])
    ears = Ears(lambda event: HookAnswer(text=event.text.replace("secret", "[held back]")))
    world.hooks = hooks("message_out", hook=ears)
    async with world.running() as core:
        await talk(core, "what is the plan?", "and then?")
        assert (await core.messages())[1] == AssistantMessage("the plan is [held back]")
        assert not [event for event in core.seen if isinstance(event, TextStreamed | ThinkingStreamed)]
        assert "secret" not in str(core.seen)
    assert world.texts() == ["the plan is [held back]", "Bye"]
    assert "secret" not in str(world.script.requests[-1].messages)


@pytest.mark.promise("P-hook-unseen")
async def test_an_answer_that_is_kept_back_reaches_nobody_also_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("psst"), Answer("Hello")])
    ears = Ears(lambda event: HookAnswer(suppress=event.text == "psst"))
    world.hooks = hooks("message_out", hook=ears)
    async with world.running() as core:
        await talk(core, "hi")
        assert (await core.messages())[1] == AssistantMessage(WITHHELD, notice=True)
        (end,) = [event for event in core.seen if isinstance(event, TurnFinished)]
        assert (end.outcome, end.text) == (Outcome.STOPPED, WITHHELD)
    async with world.running() as core:
        await core.settled()
        assert world.texts() == []
        await talk(core, "hi again")
    assert world.texts() == ["Hello"]


@pytest.mark.promise("P-hook-unseen")
async def test_an_answer_that_is_kept_back_stays_so_when_the_turn_is_cut(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("psst")] * 3)
    world.hooks = hooks("message_out", hook=Ears(lambda event: HookAnswer(suppress=True)))
    moments = await recorded(world, hi)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await hi(core)
                assert (await core.messages())[1:] == [AssistantMessage(WITHHELD, notice=True)]
            assert world.texts() == []
    assert moments[-1].write >= 3, "every write was tried"


async def test_an_answer_that_is_denied_is_replaced_by_the_reason(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("psst")])
    world.hooks = hooks("message_out", hook=Ears(lambda event: HookAnswer(deny="it names a customer")))
    async with world.running() as core:
        await talk(core, "hi")
    assert world.texts() == ["This answer is withheld: it names a customer"]


async def test_a_text_before_a_tool_call_is_a_message_out_too(tmp_path: Path) -> None:
    trail = Trail()
    first = Answer("I look.", calls=(ToolCall("c1", "look", {}),))
    world = World(tmp_path, [first, Answer("Done.")], tools=[acting("look", trail.leave)])
    ears = Ears(lambda event: HookAnswer())
    world.hooks = hooks("message_out", hook=ears)
    async with world.running() as core:
        await talk(core, "go")
    assert ears.heard == [("message_out", "I look."), ("message_out", "Done.")]
    assert world.texts() == ["I look.", "Done."]


async def test_commands_are_no_messages(tmp_path: Path) -> None:
    world = World(tmp_path)
    ears = Ears(lambda event: HookAnswer(deny="nothing"))
    world.hooks = hooks("message_in", "message_out", hook=ears)
    async with world.running() as core:
        assert "Session Status" in await core.command("/status")
    assert ears.heard == []


async def test_a_hook_that_fails_is_reported_and_the_conversation_goes_on(tmp_path: Path) -> None:
    def fail(event: HookEvent) -> HookAnswer:
        raise ZeroDivisionError("oh dear")

    world, alerts = World(tmp_path, [Answer("Hello")]), Heard()
    world.hooks = hooks("session_start", "message_in", "message_out", hook=Ears(fail), alerts=alerts)
    async with world.running() as core:
        await talk(core, "hi")
    assert world.texts() == ["Hello"]
    assert "failed at message_out: oh dear" in alerts.open["hook:ears"]


async def test_a_message_that_may_not_join_a_turn_has_one_of_its_own(tmp_path: Path) -> None:
    trail = Trail()
    answers = [Answer(calls=(ToolCall("c1", "wait", {}),)), Answer("Done."), Answer("Later.")]
    tools = [acting("wait", trail.leave_slowly)]
    world = World(tmp_path, answers, tools=tools, queue={"mode": "steer"})
    ears = Ears(lambda event: HookAnswer(deny="no cards") if "card" in event.text else HookAnswer())
    world.hooks = hooks("message_in", hook=ears)
    async with world.running() as core:
        await core.say("go")
        await asyncio.wait_for(trail.begun.wait(), PATIENCE)
        await core.say("my card")
        await core.say("and this")
        trail.gate.set()
        await core.settled()
        users = [message.text for message in await core.messages() if isinstance(message, UserMessage)]
    assert users == ["go", "and this"], "nothing overtakes a message of the same person"
    assert world.texts() == ["Done.", "no cards", "Later."]


@pytest.mark.promise("P-hook-unseen")
async def test_what_was_stopped_before_a_hook_had_looked_at_it_is_not_kept(tmp_path: Path) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def think() -> HookAnswer:
        begun.set()
        await never.wait()
        return HookAnswer()

    world = World(tmp_path)
    world.hooks = hooks("message_in", hook=Ears(lambda event: think()))
    async with world.running() as core:
        await core.say("my card is 4711")
        await asyncio.wait_for(begun.wait(), PATIENCE)
        assert "Stopped" in await core.command("/stop")
        await core.settled()
        assert (await core.messages())[0] == UserMessage(UNSEEN)


async def test_a_compaction_follows_the_instructions_of_hooks(tmp_path: Path) -> None:
    summary = ScriptedModel(rest=Answer("- they spoke of numbers\n" * 30))
    world = World(tmp_path, [Answer(f"answer {number}") for number in range(6)], summary=summary)
    ears = Ears(lambda event: HookAnswer(text=f"{event.text}, in short", context="Never leave the ticket out."))
    world.hooks = hooks("before_compaction", hook=ears)
    async with world.running() as core:
        await talk(core, *(f"number {number}" for number in range(6)))
        await core.command("/compact keep the names")
        await core.settled()
    assert ears.heard == [("before_compaction", "keep the names")]
    assert "keep the names, in short\nNever leave the ticket out." in str(summary.requests[0].messages[0].text)  # type: ignore[union-attr]  # a UserMessage


async def test_a_terminal_reads_why_its_message_was_denied(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.hooks = hooks("message_in", hook=Ears(lambda event: HookAnswer(deny="not now")))
    async with world.running() as core:
        inbound = Inbound("local:1", OWNER, "tui:me", "hi", Address("local", "tui:me"), 0.0)
        assert (await core.gateway.accept(inbound)).kind is AcceptKind.TURN
        await core.settled()
        (end,) = [event for event in core.seen if isinstance(event, TurnFinished)]
        assert (end.outcome, end.text) == (Outcome.FAILED, "not now")


FOREIGN = (Foreign(3, 8, "Bob"), Foreign(9, 12, "Eve"))
"""Of `hi HELLO YOU`."""


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("please: hi HELLO YOU!", (Foreign(11, 16, "Bob"), Foreign(17, 20, "Eve"))),
        ("hi HELL0 YOU", (Foreign(0, 12, "Bob"),)),
        ("YOU HELLO", (Foreign(0, 9, "Eve"),)),
        ("", (Foreign(0, 0, "Bob"),)),
    ],
)
async def test_what_others_wrote_stays_theirs_in_other_words(text: str, pieces: Any) -> None:
    hooking = Hooking(hooks("message_in", hook=Ears(lambda event: HookAnswer(text=text))), Window())
    inbound = Inbound("1", OWNER, HERE, "hi HELLO YOU", Address("memory", "here"), 0.0)
    heard = await hooking.apply_to_message(inbound, UserMessage("hi HELLO YOU", foreign=FOREIGN))
    assert (heard.text, heard.foreign) == (text, pieces)


async def test_without_hooks_nothing_is_asked_and_nothing_changed() -> None:
    hooking = Hooking(Hooks(), Window())
    inbound = Inbound("1", OWNER, HERE, "hi", Address("memory", "here"), 0.0)
    message, answer = UserMessage("hi"), AssistantMessage("yes")
    assert await hooking.apply_to_message(inbound, message) == message
    assert await hooking.apply_to_answer(inbound, answer) is answer
    assert not hooking.judges_answers and hooking.unheard(inbound) == message


async def test_a_denial_ends_before_a_session_begins() -> None:
    ears = Ears(lambda event: HookAnswer(deny="no") if event.point == "message_in" else HookAnswer())
    hooking = Hooking(hooks("message_in", "session_start", hook=ears), Window())
    with pytest.raises(MessageDenied, match="no"):
        await hooking.apply_to_message(
            Inbound("1", OWNER, HERE, "hi", Address("memory", "here"), 0.0), UserMessage("hi")
        )
    assert [point for point, _ in ears.heard] == ["message_in"]
