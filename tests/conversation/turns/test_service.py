"""A turn from the inbox to the chat: answers, tools, pictures, failures and limits."""

import gc
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import (
    AcceptKind,
    Address,
    Attachment,
    Inbound,
    MessageStored,
    Outcome,
    TextStreamed,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, Image, ToolCall, ToolResult, UserMessage
from goclaw.conversation.turns.agent_services import AgentServices
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Stop, Usage
from goclaw.llm.chain import ModelChain
from goclaw.llm.scripted import CONTEXT_WINDOW, ScriptedModel
from goclaw.tools.toolkit.scope import CallScope
from tests.harness import HERE, Answer, World
from tests.parts import Trail, acting, unmarked

LOOK = Answer("Let me look.", calls=(ToolCall("c1", "look", {}),))
PNG = b"\x89PNG not really"


async def test_a_message_is_answered_in_its_chat(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello!")])
    async with world.running() as core:
        receipt = await core.say("hi", message_id="1")
        await core.settled()
        assert (receipt.kind, receipt.turn) == (AcceptKind.TURN, "memory:1")
        assert world.texts() == ["Hello!"]
        assert await core.messages() == [UserMessage("hi"), AssistantMessage("Hello!")]
        kinds = [type(event) for event in core.seen]
        assert kinds == [TurnStarted, MessageStored, TextStreamed, TextStreamed, MessageStored, TurnFinished]


async def test_the_model_reads_time_sender_and_channel_before_the_words(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello!")])
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    (asked,) = world.script.requests[0].messages
    assert isinstance(asked, UserMessage)
    context, words = asked.text.split("\n")
    assert context.startswith("<context>") and "Here via memory</context>" in context
    assert words == "hi"


async def test_a_tool_result_goes_back_to_the_model(tmp_path: Path) -> None:
    trail = Trail("a cat")
    world = World(tmp_path, [LOOK, Answer("It is a cat.")], tools=[acting("look", trail.leave)])
    async with world.running() as core:
        await core.say("what is it?")
        await core.settled()
        assert await core.messages() == [
            UserMessage("what is it?"),
            AssistantMessage("Let me look.", LOOK.calls),
            ToolResult("c1", "look", "a cat"),
            AssistantMessage("It is a cat."),
        ]
        assert [event.content for event in core.seen if isinstance(event, ToolFinished)] == ["a cat"]
    assert [spec.name for spec in world.script.requests[0].tools] == ["look"]
    assert unmarked(world.script.requests[1].messages)[-1] == ToolResult("c1", "look", "a cat")
    assert world.texts() == ["Let me look.", "It is a cat."]


async def test_what_a_turn_had_is_freed_at_its_end_without_the_garbage_collector(tmp_path: Path) -> None:
    world = World(tmp_path, [LOOK, Answer("It is a cat.")], tools=[acting("look", Trail("a cat").leave)])
    gc.collect()
    kinds = AgentServices | CallScope
    before = [each for each in gc.get_objects() if isinstance(each, kinds)]  # what another test may have left
    gc.disable()
    try:
        async with world.running() as core:
            await core.say("what is it?")
            await core.settled()
            now = [each for each in gc.get_objects() if isinstance(each, kinds)]
            assert not [each for each in now if not any(each is other for other in before)]
    finally:
        gc.enable()


async def test_tools_of_one_answer_run_side_by_side(tmp_path: Path) -> None:
    first, second = Trail(), Trail()
    second.gate.set()

    async def wait_for_the_second() -> str:
        await second.begun.wait()
        return await first.leave()

    world = World(
        tmp_path,
        [Answer(calls=(ToolCall("c1", "first", {}), ToolCall("c2", "second", {}))), Answer("both")],
        tools=[acting("first", wait_for_the_second), acting("second", second.leave_slowly)],
    )
    async with world.running() as core:
        await core.say("go")
        await core.settled()
    assert [message.call_id for message in world.script.requests[1].messages if isinstance(message, ToolResult)] == [
        "c1",
        "c2",
    ]
    assert world.texts() == ["both"]


@pytest.mark.promise("P-tools-per-user")
async def test_a_tool_that_is_not_for_the_sender_is_neither_shown_nor_run(tmp_path: Path) -> None:
    trail = Trail()
    world = World(
        tmp_path,
        [LOOK, Answer("I cannot.")],
        tools=[acting("look", trail.leave)],
        users=[User("tui:here", allowed_tools=frozenset({"read"}), session="memory:here")],
    )
    async with world.running() as core:
        await core.say("look!")
        await core.settled()
    assert world.script.requests[0].tools == []
    assert world.script.requests[1].messages[-1] == ToolResult("c1", "look", '{"error": "unknown tool: look"}', True)
    assert trail.times == 0


async def test_a_picture_is_fetched_and_shown_to_the_model(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("A picture.")])
    async with world.running() as core:
        await core.say("see", pictures={"image/png": PNG})
        await core.settled()
        (heard, _) = await core.messages()
    assert isinstance(heard, UserMessage)
    assert [image.mime for image in heard.images] == ["image/png"]
    (asked,) = world.script.requests[0].messages
    assert isinstance(asked, UserMessage) and asked.images == heard.images
    (image,) = heard.images
    assert isinstance(image, Image)
    assert (tmp_path / "blobs" / "media" / image.blob).read_bytes() == PNG


async def test_a_file_that_cannot_be_had_is_named_instead(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("What was in it?")])
    attachments = (Attachment("image", "gone", "image/png", "cat.png"), Attachment("voice", "v", "audio/ogg"))
    inbound = Inbound("memory:1", HERE, "memory:here", "see", Address("memory", "here"), 0.0, attachments)
    async with world.running() as core:
        await core.gateway.accept(inbound)
        await core.settled()
        heard = (await core.messages())[0]
    assert heard == UserMessage(
        "see\n[Picture cat.png: could not be fetched: there is no file gone]\n[Voice message: could not be fetched: "
        "there is no file v]"
    )
    assert world.texts() == ["What was in it?"]


async def test_a_model_that_fails_is_named_to_the_user_and_the_next_message_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Answer("Half", error=ModelErrorKind.AUTH, message="the key was refused")
    world = World(tmp_path, [failing, Answer("Hello again"), Answer("Well.")])
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        await core.say("hi again")
        await core.settled()
        outcomes = [event.outcome for event in core.seen if isinstance(event, TurnFinished)]
        assert (await core.messages())[:3] == [
            UserMessage("hi"),
            AssistantMessage("Half"),
            AssistantMessage("[stopped here]\nscripted:test: the key was refused", notice=True),
        ]
        await core.say("well?")
        await core.settled()
    assert outcomes == [Outcome.FAILED, Outcome.ANSWERED]
    assert world.texts()[:2] == ["Half\n\n[stopped here]\nscripted:test: the key was refused", "Hello again"]
    said = [
        [each.text for each in asked.messages if isinstance(each, AssistantMessage)] for asked in world.script.requests
    ]
    assert said == [[], ["Half"], ["Half", "Hello again"]], "no model is shown our words as its own"
    assert "the key was refused" in caplog.text and "Half" not in caplog.text, "what was said stays out of the log"


def chained(folder: Path, *answers: Answer, context_window: int = CONTEXT_WINDOW) -> World:
    """A world whose model stands in a chain, as in the daemon."""
    script = ScriptedModel(answers, context_window=context_window)
    return World(folder, model=ModelChain([script], RealClock()))


async def test_an_empty_answer_is_said_to_be_one(tmp_path: Path) -> None:
    world = chained(tmp_path, Answer(""), Answer(""))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    assert world.texts() == ["(The model gave an empty answer.)"]


@pytest.mark.parametrize(
    ("stop", "sentence"),
    [
        (Stop.REFUSAL, "(The model refused to answer.)"),
        (Stop.FILTERED, "(The provider's filter blocked the answer. Try other words or another model.)"),
    ],
)
async def test_an_answer_that_was_declined_is_not_called_empty(tmp_path: Path, stop: Stop, sentence: str) -> None:
    world = chained(tmp_path, Answer("", stop=stop))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    assert world.texts() == [sentence]


@pytest.mark.parametrize("stop", [Stop.WINDOW, Stop.FILTERED])
async def test_half_an_answer_does_not_look_whole(tmp_path: Path, stop: Stop) -> None:
    world = chained(tmp_path, Answer("Once upon a ti", stop=stop))
    async with world.running() as core:
        await core.say("tell me")
        await core.settled()
    assert world.texts()[0].startswith("Once upon a ti\n\n[The answer ends here: ")


async def test_a_window_that_is_full_before_the_first_word_is_made_room_in(tmp_path: Path) -> None:
    world = chained(tmp_path, Answer("", stop=Stop.WINDOW), Answer("now it fits"))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    assert world.texts() == ["now it fits"]


async def test_a_request_refused_for_an_unknown_reason_is_repeated_with_room_if_it_was_long(tmp_path: Path) -> None:
    refused = Answer(error=ModelErrorKind.REJECTED, status=400, message="no")
    summary = Answer("They said hi, and the agent said yes, which was all of it.")
    world = chained(tmp_path, Answer("yes"), refused, summary, Answer("now it fits"), context_window=20_000)
    async with world.running() as core:
        await core.say("hi")
        await core.say("word " * 6_000)
        await core.settled()
    assert world.texts()[-1] == "now it fits"


async def test_a_short_request_refused_for_an_unknown_reason_is_not_repeated(tmp_path: Path) -> None:
    refused = Answer(error=ModelErrorKind.REJECTED, status=400, message="no")
    world = chained(tmp_path, refused, Answer("never asked"))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    assert world.texts() == ["scripted:test: no"]


async def test_a_bug_in_a_turn_is_one_sentence_to_the_user_and_the_lane_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, [Answer("Fine.")])
    async with world.running() as core:
        with monkeypatch.context() as patch:
            patch.setattr("goclaw.conversation.turns.service.run_turn", None)
            await core.say("hi")
            await core.settled()
        await core.say("and now?")
        await core.settled()
    assert "Something went wrong inside GoClaw" in world.texts()[0]
    assert world.texts()[1:] == ["Fine."]
    assert "Traceback" in caplog.text


async def test_sessions_do_not_hear_each_other(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("to A"), Answer("to B")])
    async with world.running() as core:
        await core.say("I am A", chat="a")
        await core.settled()
        await core.say("I am B", chat="b")
        await core.settled()
    assert len(world.script.requests[1].messages) == 1
    assert [(heard.delivery.address.chat, heard.delivery.text) for heard in world.room.all] == [
        ("a", "to A"),
        ("b", "to B"),
    ]


async def test_the_context_grows_and_is_the_same_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, rest_of(3))
    async with world.running() as core:
        await core.say("one")
        await core.settled()
        await core.say("two")
        await core.settled()
    async with world.running() as core:
        await core.say("three")
        await core.settled()
    said = [message.text for message in world.script.requests[2].messages if not isinstance(message, ToolResult)]
    assert [text.split("\n")[-1] for text in said] == ["one", "0", "two", "1", "three"]
    assert list(world.script.requests[2].messages[:3]) == list(world.script.requests[1].messages)
    assert world.script.requests[0].system == world.script.requests[2].system


def rest_of(count: int) -> list[Answer]:
    return [Answer(str(number), usage=Usage(input=100 * number + 1, output=1)) for number in range(count)]
