"""Answers that reach the output limit of their model: said to be cut, or gone on with."""

from pathlib import Path

import pytest

from goclaw.common.core.events import Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.conversation.turns.turn import GO_ON
from goclaw.llm.base import Stop
from goclaw.llm.scripted import text_of
from tests.harness import Answer, Core, World
from tests.parts import Trail, acting

CUT = Answer("Once upon a ti", stop=Stop.LENGTH)
LIMIT = "the model's output limit"


def outcomes(core: Core) -> list[Outcome]:
    return [event.outcome for event in core.seen if isinstance(event, TurnFinished)]


@pytest.mark.promise("P-no-silent-cut")
async def test_an_answer_that_was_cut_says_so_to_the_person_and_in_the_transcript(tmp_path: Path) -> None:
    world = World(tmp_path, [CUT, Answer("me.")])
    async with world.running() as core:
        await core.say("tell me a story")
        await core.settled()
        answer, notice = [message for message in await core.messages() if isinstance(message, AssistantMessage)]
        await core.say("go on")
        await core.settled()
        assert outcomes(core) == [Outcome.CUT, Outcome.ANSWERED]
    cut, rest = world.texts()
    assert cut.startswith("Once upon a ti\n\n[The answer ends here: ") and LIMIT in cut and 'Say "go on"' in cut
    assert not answer.notice and notice.notice and f"{answer.text}\n\n{notice.text}" == cut and rest == "me."
    assert text_of(world.script.requests[1].messages[1]) == "Once upon a ti", "its own words alone"


@pytest.mark.promise("P-no-silent-cut")
async def test_where_it_is_wanted_the_model_is_asked_for_the_rest(tmp_path: Path) -> None:
    parts = [CUT, Answer("me the", stop=Stop.LENGTH), Answer("re was.")]
    world = World(tmp_path, parts, limits={"continue_cut": True})
    async with world.running() as core:
        await core.say("tell me a story")
        await core.settled()
        assert outcomes(core) == [Outcome.ANSWERED]
        asked = [message.text for message in await core.messages() if isinstance(message, UserMessage)]
    assert world.texts() == ["Once upon a time there was."]
    assert asked == ["tell me a story", GO_ON, GO_ON]


async def test_the_rest_is_asked_for_three_times_at_most(tmp_path: Path) -> None:
    world = World(tmp_path, [CUT] * 9, limits={"continue_cut": True})
    async with world.running() as core:
        await core.say("tell me a story")
        await core.settled()
        assert outcomes(core) == [Outcome.CUT]
    assert len(world.script.requests) == 4
    (text,) = world.texts()
    assert text.count("Once upon a ti") == 4 and text.count("[The answer ends here: ") == 1


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("number", range(2, 9))
async def test_a_kill_between_the_parts_loses_none_and_doubles_none(tmp_path: Path, number: int) -> None:
    script = [Answer("Once upon a ti", stop=Stop.LENGTH, when="story"), Answer("me there was.", when="Go on exactly")]
    world = World(tmp_path, script, limits={"continue_cut": True})
    async with world.running(die_before=number) as core:
        await core.say("tell me a story", message_id="1")
        await core.settled()
    async with world.running() as core:
        await core.settled()
        texts = [message.text for message in await core.messages()]  # type: ignore[union-attr]  # no tools here
    assert texts == ["tell me a story", "Once upon a ti", GO_ON, "me there was."]
    assert set(world.texts()) == {"Once upon a time there was."}


async def test_calls_beside_a_cut_text_are_run_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    trail = Trail("looked")
    calls = (ToolCall("c1", "look", {}),)
    script = [Answer("Let me lo", calls=calls, stop=Stop.LENGTH), Answer("Seen.")]
    world = World(tmp_path, script, tools=[acting("look", trail.leave)])
    async with world.running() as core:
        await core.say("look")
        await core.settled()
    assert trail.times == 1 and world.texts()[-1] == "Seen."


async def test_what_comes_behind_a_call_is_apart_from_the_text_that_was_cut(tmp_path: Path) -> None:
    trail = Trail("looked")
    calls = Answer("", calls=(ToolCall("c1", "look", {}),))
    world = World(
        tmp_path, [CUT, calls, Answer("Done.")], tools=[acting("look", trail.leave)], limits={"continue_cut": True}
    )
    async with world.running() as core:
        await core.say("tell me a story, then look")
        await core.settled()
    assert trail.times == 1 and world.texts() == ["Once upon a ti\n\nDone."]
